package org.apache.spark.sql.ottla

import org.apache.spark.sql.{SparkSessionExtensions, SparkSessionExtensionsProvider}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, LeafExpression, Literal}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.WatermarkSupport
import org.apache.spark.sql.types.{DataType, LongType}

/** The watermark, in microseconds, by which the stateful operator above takes rows for late in this batch; before the
  * plan of a batch is made, and where there is no such operator, earlier than all rows.
  *
  * It is the operator's own number, put in when the batch is planned: what a filter below takes for late by it and what
  * the operator would drop are the same rows, so none is dropped unseen. */
case class LateWatermark() extends LeafExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = LongType
  override def eval(row: InternalRow): Any = Long.MinValue
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode =
    Literal(Long.MinValue).genCode(context)
}

/** A number of which generated code does not depend: a batch with another one runs the compiled code of the last. */
case class BatchNumber(number: Long) extends LeafExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = LongType
  override def eval(row: InternalRow): Any = number
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val held = context.addReferenceObj("number", Long.box(number), classOf[java.lang.Long].getName)
    code.copy(code = code"final long ${code.value} = $held.longValue();", isNull = FalseLiteral)
  }
}

/** Fills in LateWatermark in the plan of a batch, after Spark has told the operators their watermarks. */
object FillLateWatermark extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator: WatermarkSupport if operator.eventTimeWatermarkForLateEvents.isDefined =>
      val micros = BatchNumber(operator.eventTimeWatermarkForLateEvents.get * 1000)
      operator.withNewChildren(operator.children.map(_.transformAllExpressions { case LateWatermark() => micros }))
  }
}

/** The setting spark.sql.extensions of our sessions. */
class Extensions extends SparkSessionExtensionsProvider {
  override def apply(extensions: SparkSessionExtensions): Unit =
    for (rule <- Seq(FillLateWatermark, WakeForTimers, FindTimers, PassOverWindows))
      extensions.injectColumnar(_ => new ColumnarRule { override def preColumnarTransitions: Rule[SparkPlan] = rule })
}
