package org.apache.spark.sql.ottla

import java.util.{List => JavaList}

import scala.jdk.CollectionConverters._

import _root_.ottla.{AvroCodec, JsonReader, Rejector}
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, CodeGenerator, ExprCode}
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{BinaryType, BooleanType, DataType, ObjectType, StringType}

/** Columns that Spark's public functions cannot say. In Spark's package, since turning an expression into a column is
  * private to it. */
object Columns {

  /** A call of a static function (of a Scala object) from generated code; null where an argument is null. Text is
    * UTF8String, binary Array[Byte]. */
  def call(owner: String, function: String, result: String, arguments: JavaList[Column]): Column = {
    val target = Class.forName(owner + "$", true, getClass.getClassLoader)
    val inputs = arguments.asScala.map(ExpressionUtils.expression).toList
    val dataType = DataType.fromDDL(result)
    val nullable = !CodeGenerator.isPrimitiveType(dataType)
    ExpressionUtils.column(StaticInvoke(target, dataType, function, inputs, returnNullable = nullable))
  }

  /** A method of JsonReader on a column of bytes: `read` for the value, `why` for what does not fit. */
  def json(method: String, typeJson: String, raw: Column): Column = {
    val dataType = DataType.fromJson(typeJson)
    val reader = Literal.create(JsonReader(dataType), ObjectType(classOf[JsonReader]))
    val result = if (method == "read") dataType.asNullable else StringType
    ExpressionUtils.column(Dear(Invoke(reader, method, result, Seq(ExpressionUtils.expression(raw)))))
  }

  /** A method of AvroCodec: `read` and `why` on a column of bytes, `write` on a struct that has the value alone. */
  def avro(method: String, schema: String, typeJson: String, column: Column): Column = {
    val dataType = DataType.fromJson(typeJson)
    val codec = Literal.create(AvroCodec(schema, dataType), ObjectType(classOf[AvroCodec]))
    val result = method match {
      case "read" => dataType
      case "why" => StringType
      case "write" => BinaryType
    }
    ExpressionUtils.column(Dear(Invoke(codec, method, result, Seq(ExpressionUtils.expression(column)))))
  }

  /** Whether a row goes on that a step cannot take; see Rejector. Not deterministic: Spark must not repeat it. */
  def reject(rejector: Rejector, reason: Column, kind: Column, record: Column): Column = {
    val target = Literal.create(rejector, ObjectType(classOf[Rejector]))
    val inputs = Seq(reason, kind, record).map(ExpressionUtils.expression)
    ExpressionUtils.column(Invoke(
      target, "keep", BooleanType, inputs, propagateNull = false, returnNullable = false, isDeterministic = false))
  }

  /** The column, to be evaluated once even where a filter and what is above it use it. */
  def dear(column: Column): Column = ExpressionUtils.column(Dear(ExpressionUtils.expression(column)))

  /** See LateWatermark. */
  def lateWatermark(): Column = ExpressionUtils.column(LateWatermark())
}

/** Its child, marked as dear. Others Spark may evaluate twice: in a filter that it moves below, and above it. */
case class Dear(child: Expression) extends UnaryExpression {
  override def expensive: Boolean = true
  override def nullable: Boolean = child.nullable
  override def dataType: DataType = child.dataType
  override def eval(row: InternalRow): Any = child.eval(row)
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = child.genCode(context)
  override protected def withNewChildInternal(newChild: Expression): Dear = copy(child = newChild)
}
