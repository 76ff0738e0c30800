package org.apache.spark.sql.ottla

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.{StateStoreSaveExec, StreamingAggregationStateManagerImplV2}
import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, UnsafeRowPair}

/** An aggregation in whose state no window ends with this batch: Spark would look at all keys to find that out. */
final class NoWindowEndsExec(protected val plan: StateStoreSaveExec)
    extends StateStoreSaveExec(
      plan.keyExpressions,
      plan.stateInfo,
      plan.outputMode,
      plan.eventTimeWatermarkForLateEvents,
      plan.eventTimeWatermarkForEviction,
      plan.stateFormatVersion,
      plan.child)
    with InPlace {
  override private[sql] val stateManager =
    new StreamingAggregationStateManagerImplV2(plan.keyExpressions, plan.child.output) {
      override def keys(store: ReadStateStore) = Iterator.empty
      override def iterator(store: ReadStateStore): Iterator[UnsafeRowPair] = Iterator.empty
    }

  override protected def withNewChildInternal(child: SparkPlan): NoWindowEndsExec =
    new NoWindowEndsExec(plan.copy(child = child))
  override protected def of(plan: SparkPlan): NoWindowEndsExec =
    new NoWindowEndsExec(plan.asInstanceOf[StateStoreSaveExec])
}

/** Puts NoWindowEndsExec in place, where windows are aligned to the clock and none ends.
  *
  * What ended until the watermark of the last batch, that batch has removed; what comes and ended by then is late. So
  * nothing is to be removed unless a window can end after that watermark and not after the one of this batch. How long
  * windows are and how far apart, in ms, is in the metadata of their column (streams/aggregates.py).
  */
object PassOverWindows extends Rule[SparkPlan] {
  val Size = "ottla.window.size"
  val Advance = "ottla.window.advance"

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exec: StateStoreSaveExec
        if !exec.isInstanceOf[NoWindowEndsExec] && exec.stateFormatVersion == 2 && !endsOne(exec) =>
      new NoWindowEndsExec(exec)
  }

  private def endsOne(exec: StateStoreSaveExec): Boolean =
    exec.keyExpressions.map(_.metadata).find(_.contains(Advance)).forall { window =>
      def ended(until: Long) = Math.floorDiv(until - window.getLong(Size), window.getLong(Advance))
      (exec.eventTimeWatermarkForLateEvents, exec.eventTimeWatermarkForEviction) match {
        case (Some(last), Some(now)) if exec.allowMultipleStatefulOperators => ended(last) != ended(now) // else the same
        case _ => true
      }
    }
}
