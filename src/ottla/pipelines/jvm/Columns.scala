package org.apache.spark.sql.ottla

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, ObjectType, StringType}

/** Columns that Spark's public functions cannot say. In Spark's package, since turning an expression into a column is
  * private to it. */
object Columns {

  /** A call of a static function (of a Scala object) from generated code; null where an argument is null. Text is
    * UTF8String, binary Array[Byte]. */
  def call(owner: String, function: String, result: String, arguments: JavaList[Column], pure: Boolean): Column = {
    val target = Class.forName(owner + "$", true, Thread.currentThread.getContextClassLoader)
    val inputs = arguments.asScala.map(ExpressionUtils.expression).toList
    val dataType = DataType.fromDDL(result)
    val nullable = !CodeGenerator.isPrimitiveType(dataType)
    ExpressionUtils.column(
      StaticInvoke(target, dataType, function, inputs, returnNullable = nullable, isDeterministic = pure))
  }

  /** A method of JsonReader on a column of bytes: `read` for the value, `why` for what does not fit. */
  def json(method: String, typeJson: String, raw: Column): Column = {
    val dataType = DataType.fromJson(typeJson)
    val reader = Literal.create(_root_.ottla.JsonReader(dataType), ObjectType(classOf[_root_.ottla.JsonReader]))
    val result = if (method == "read") dataType.asNullable else StringType
    ExpressionUtils.column(Invoke(reader, method, result, Seq(ExpressionUtils.expression(raw))))
  }
}
