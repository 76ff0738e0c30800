package org.apache.spark.sql.classic

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** A DataFrame of a plan; here because Spark keeps the way to one for its own packages. */
object Frames {
  def of(like: DataFrame, plan: LogicalPlan): DataFrame =
    Dataset.ofRows(like.sparkSession.asInstanceOf[SparkSession], plan)
}
