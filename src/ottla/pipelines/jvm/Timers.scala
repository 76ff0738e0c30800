package org.apache.spark.sql.ottla

import java.util.{Arrays, TreeSet}

import scala.collection.mutable

import _root_.ottla.WholeRow

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.plans.logical.EventTimeTimeout
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ObjectOperator, SparkPlan}
import org.apache.spark.sql.execution.streaming.operators.stateful.flatmapgroupswithstate._
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProviderId}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.CompletionIterator

/** The earliest timers of the keys in a state store, so that a batch need not look at every key to find those due.
  *
  * All timers before `horizon` are here. There may be more: those of keys that have since got another timer, so what
  * the store says of a key decides. When the watermark passes the horizon, one look at all keys finds the next ones.
  *
  * They are of one version of the store, and held by the executor that has made it; whoever has another version, or
  * has only just got the store, looks at all keys. Nothing of it is in the checkpoint.
  */
final class Timers(most: Int) {
  private var horizon = Long.MaxValue
  private val earliest = new TreeSet[Timer]

  def reach(time: Long): Boolean = time <= horizon

  def add(time: Long, key: UnsafeRow): Unit = if (time < horizon) {
    earliest.add(new Timer(time, key.getBytes.clone()))
    if (earliest.size > most) horizon = earliest.pollLast().time
  }

  /** Keys that may have timers before this time, which are no longer here then. In the order of a look at all keys. */
  def before(time: Long, columns: Int): Iterator[UnsafeRow] = {
    val keys = mutable.ArrayBuffer[Array[Byte]]()
    while (!earliest.isEmpty && earliest.first.time < time) keys += earliest.pollFirst().key
    val sorted = keys.toArray
    Arrays.sort(sorted, ByteArray.compareBinary(_, _))
    sorted.indices.iterator.filter(i => i == 0 || !Arrays.equals(sorted(i - 1), sorted(i))).map { i =>
      val row = new UnsafeRow(columns)
      row.pointTo(sorted(i), sorted(i).length)
      row
    }
  }
}

final class Timer(val time: Long, val key: Array[Byte]) extends Comparable[Timer] {
  override def compareTo(other: Timer): Int = {
    val order = java.lang.Long.compare(time, other.time)
    if (order == 0) ByteArray.compareBinary(key, other.key) else order
  }
}

object Timers {
  /** The setting that says how many of each store are kept, at some 150 bytes each; 0: look at all keys, always. */
  val Most = "spark.sql.ottla.timers"
  private val Default = "65536"

  def most: Int = SQLConf.get.getConfString(Most, Default).toInt

  private val held = mutable.HashMap[StateStoreProviderId, (Long, Timers)]()

  /** Those of this version, for the one task that asks first: a task that fails has spoilt them. */
  def take(store: StateStoreProviderId, version: Long): Option[Timers] = synchronized {
    val found = held.remove(store).collect { case (`version`, timers) => timers }
    if (found.isEmpty) held.filterInPlace((other, _) => StateStore.isLoaded(other)) // there is time before a long look
    found
  }

  def keep(store: StateStoreProviderId, version: Long, timers: Timers): Unit = synchronized {
    held(store) = (version, timers)
  }
}

/** flatMapGroupsWithState, as Keyed.scala uses it, that finds timers by Timers. State and results are Spark's. */
final class TimersExec(protected val plan: FlatMapGroupsWithStateExec, most: Int)
    extends FlatMapGroupsWithStateExec(
      plan.func,
      plan.keyDeserializer,
      plan.valueDeserializer,
      plan.initialStateDeserializer,
      plan.groupingAttributes,
      plan.initialStateGroupAttrs,
      plan.dataAttributes,
      plan.initialStateDataAttrs,
      plan.outputObjAttr,
      plan.stateInfo,
      plan.stateEncoder,
      plan.stateFormatVersion,
      plan.outputMode,
      plan.timeoutConf,
      plan.batchTimestampMs,
      plan.eventTimeWatermarkForLateEvents,
      plan.eventTimeWatermarkForEviction,
      plan.initialState,
      plan.hasInitialState,
      plan.skipEmittingInitialStateKeys,
      plan.child)
    with InPlace {
  import FlatMapGroupsWithStateExecHelper.StateData
  import GroupStateImpl.NO_TIMESTAMP

  override def createInputProcessor(store: StateStore): InputProcessor = new Processor(store)

  override def processDataWithPartition(
      rows: Iterator[InternalRow],
      store: StateStore,
      processor: InputProcessor,
      initial: Option[Iterator[InternalRow]]): CompletionIterator[InternalRow, Iterator[InternalRow]] = {
    val results = super.processDataWithPartition(rows, store, processor, initial) // at whose end it is committed
    CompletionIterator[InternalRow, Iterator[InternalRow]](results, processor.asInstanceOf[Processor].keepTimers())
  }

  private final class Processor(store: StateStore) extends InputProcessor(store) {
    private val id = StateStoreProviderId(store.id, stateInfo.get.queryRunId)
    private val version = store.version
    private val now = eventTimeWatermarkForEviction.get
    private var timers = Timers.take(id, version).filter(_.reach(now))
    private val result = ObjectOperator.wrapObjectToRow(outputObjAttr.dataType)

    def keepTimers(): Unit = timers.foreach(Timers.keep(id, version + 1, _))

    override def processTimedOutState(): Iterator[InternalRow] = {
      val states = timers match {
        case Some(known) => known.before(now, groupingAttributes.size).map(stateManager.getState(store, _))
        case None =>
          val found = new Timers(most)
          timers = Some(found)
          stateManager.getAllState(store).tapEach { state =>
            if (state.timeoutTimestamp >= now) found.add(state.timeoutTimestamp, state.keyRow)
          }
      }
      states
        .filter(state => state.timeoutTimestamp != NO_TIMESTAMP && state.timeoutTimestamp < now)
        .flatMap(callFunctionAndUpdateState(_, Iterator.empty, hasTimedOut = true))
    }

    override protected def callFunctionAndUpdateState(
        data: StateData,
        rows: Iterator[InternalRow],
        hasTimedOut: Boolean): Iterator[InternalRow] = {
      val state = GroupStateImpl.createForStreaming(
        Option(data.stateObj),
        batchTimestampMs.getOrElse(NO_TIMESTAMP),
        now,
        timeoutConf,
        hasTimedOut,
        watermarkPresent)
      val results = func(data.keyRow, rows, state).map { row =>
        numOutputRows += 1
        result(row)
      }
      CompletionIterator[InternalRow, Iterator[InternalRow]](results, write(data, state))
    }

    private def write(data: StateData, state: GroupStateImpl[Any]): Unit = {
      val timer = state.getTimeoutTimestampMs.orElse(NO_TIMESTAMP)
      if (state.isRemoved && timer == NO_TIMESTAMP) {
        stateManager.removeState(store, data.keyRow)
        numRemovedStateRows += 1
      } else if (state.isUpdated || state.isRemoved || timer != data.timeoutTimestamp) {
        stateManager.putState(store, data.keyRow, if (state.exists) state.get else null, timer)
        numUpdatedStateRows += 1
        if (timer != NO_TIMESTAMP) timers.foreach(_.add(timer, data.keyRow))
      }
    }
  }

  override protected def withNewChildrenInternal(left: SparkPlan, right: SparkPlan): TimersExec =
    new TimersExec(plan.copy(child = left), most)
  override protected def of(plan: SparkPlan): TimersExec =
    new TimersExec(plan.asInstanceOf[FlatMapGroupsWithStateExec], most)
}

/** Puts TimersExec in place, after Spark has told operators where their state is. */
object FindTimers extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = {
    val most = Timers.most
    plan.transformUp {
      case exec: FlatMapGroupsWithStateExec if most > 0 && isOurs(exec) && !exec.isInstanceOf[TimersExec] =>
        new TimersExec(exec, most)
    }
  }

  private def isOurs(exec: FlatMapGroupsWithStateExec): Boolean =
    exec.keyDeserializer == WholeRow() && exec.timeoutConf == EventTimeTimeout && exec.stateInfo.isDefined
}
