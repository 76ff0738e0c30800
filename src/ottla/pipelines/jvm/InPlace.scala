package org.apache.spark.sql.ottla

import org.apache.spark.sql.execution.SparkPlan

/** A step of a plan that a rule puts in the place of the step `plan`, whose class it extends.
  *
  * The two are not equal, though their parts are: else Spark would keep the one that is there. */
trait InPlace extends SparkPlan {
  protected def plan: SparkPlan

  /** Another in the place of another. */
  protected def of(plan: SparkPlan): SparkPlan

  override def canEqual(other: Any): Boolean = other != null && other.getClass == getClass
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def makeCopy(arguments: Array[AnyRef]): SparkPlan = of(plan.makeCopy(arguments))
}
