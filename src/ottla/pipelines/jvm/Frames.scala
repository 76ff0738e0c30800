package org.apache.spark.sql.classic

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Between DataFrames and plans, columns and expressions; here because Spark keeps the way for its own packages. */
object Frames {
  def of(like: DataFrame, plan: LogicalPlan): DataFrame =
    Dataset.ofRows(like.sparkSession.asInstanceOf[SparkSession], plan)

  def column(expression: Expression): Column = ExpressionUtils.column(expression)

  def expression(column: Column): Expression = ExpressionUtils.expression(column)
}
