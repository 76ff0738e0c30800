package org.apache.spark.sql.ottla

import java.util.Comparator

import _root_.ottla.{Turns, WholeRow}

import org.apache.spark.TaskContext
import org.apache.spark.api.python.{ChainedPythonFunctions, PythonEvalType}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.{encoderFor, ExpressionEncoder}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project, TransformWithState, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.classic.{Frames, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.python.{ArrowPythonRunner, MapInBatchEvaluatorFactory, PythonSQLMetrics, UserDefinedPythonFunction}
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.statefulprocessor.{ImplicitGroupingKeyTracker, StatefulProcessorHandleImpl, StatefulProcessorHandleState}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.{AccumulatorV2, NextIterator}

/** State of Python functions: kept here as bytes for each key, and sent along with the key's rows in Arrow batches.
  *
  * Spark's own transformWithState for Python calls Python for each key, and Python calls back for each look at the state,
  * some 200 µs for a key. Here a task makes one pass through Python: the rows of all its keys out, each key with its
  * state; results, changed states and timers back. So it calls transformWithState once for all keys of a partition
  * (Gathered makes them one group), and sets the key by hand before it touches the state.
  *
  * The frame has the columns of Turns, with a binary key, then value, headers, topic; all of it goes to Python in the
  * turns of its key. What is sent and what comes back, see streams/keyed_python.py.
  */
object PythonState {
  private val Headers =
    ArrayType(new StructType().add("key", StringType).add("value", BinaryType))

  /** To Python. key and state are set in the first row of a key only. */
  private def sent(value: DataType): StructType = new StructType()
    .add("kind", ByteType, false)
    .add("key", BinaryType)
    .add("state", BinaryType)
    .add("value", value)
    .add("time", LongType)
    .add("headers", Headers)
    .add("topic", StringType)
    .add("partition", IntegerType)
    .add("offset", LongType)

  /** Of a row from Python: for us, and where they are. */
  private val (kindAt, keyAt, stateAt, timeAt) = (0, 1, 2, 3)

  /** The key under which the state of records without a key is kept; Python knows it. */
  val NullKey: Array[Byte] = "ottla: no key \u0000\u0001\u0002".getBytes("UTF-8")

  private val none = new GenericArrayData(Array.empty[Any])

  private val byKeyAndTime: Comparator[(Array[Byte], Long)] = (a, b) => {
    val order = ByteArray.compareBinary(a._1, b._1)
    if (order == 0) java.lang.Long.compare(a._2, b._2) else order
  }

  val (data, timer, clock) = (0.toByte, 1.toByte, 2.toByte) // kinds of rows sent
  val (output, stateOnly, both, register, delete) = (0.toByte, 1.toByte, 2.toByte, 3.toByte, 4.toByte) // received

  /** @param time "none", "event" or "processing"
    * @param ttl after how many ms without a change a key's state is dropped; 0: never. Needs "processing"
    */
  def apply(frame: DataFrame, function: UserDefinedPythonFunction, time: String, ttl: Long): DataFrame = {
    Gathered.known(frame)
    val received = function.dataType.asInstanceOf[StructType]
    val value = frame.schema(Turns.First).dataType
    val plan = frame.queryExecution.analyzed
    val group = AttributeReference("group", BinaryType, nullable = false)()
    val gathered = Gathered(plan.output.filter(_.name == "key"), group, plan)
    val result = AttributeReference("result", received, nullable = false)()
    val key = encoderFor(Encoders.BINARY)
    val mode = time match {
      case "event" => TimeMode.EventTime()
      case "processing" => TimeMode.ProcessingTime()
      case _ => TimeMode.None()
    }
    val session = frame.sparkSession.asInstanceOf[ClassicSession]
    val conf = session.sessionState.conf
    val due = new DueTimes
    session.sparkContext.register(due, "when timers are due")
    val transformed = new TransformWithState(
      WholeRow(),
      WholeRow(),
      Seq(group),
      gathered.output,
      new PythonState(function, sent(value), received, ArrowPythonRunner.getPythonRunnerConfMap(conf), ttl, due),
      mode,
      OutputMode.Append(),
      key.asInstanceOf[ExpressionEncoder[Any]],
      result,
      gathered,
      hasInitialState = false,
      Seq(group),
      gathered.output,
      WholeRow(),
      LocalRelation(Seq(group)))
    val columns = received.zipWithIndex.map { case (field, i) => Alias(GetStructField(result, i), field.name)() }
    Frames.of(frame, Project(columns, transformed))
  }
}

final class PythonState(
    function: UserDefinedPythonFunction,
    sent: StructType,
    received: StructType,
    settings: Map[String, String],
    ttl: Long,
    val due: DueTimes)
    extends StatefulProcessor[Any, Any, Any] {
  import PythonState._

  private val value = sent("value").dataType
  @transient private var states: ValueState[Array[Byte]] = _
  @transient private var mode: TimeMode = _
  @transient private var timersDone = false
  @transient private var nextTimer = Long.MaxValue

  override def init(output: OutputMode, time: TimeMode): Unit = {
    mode = time
    val config = if (ttl > 0) TTLConfig(java.time.Duration.ofMillis(ttl)) else TTLConfig.NONE
    states = getHandle.getValueState[Array[Byte]]("state", Encoders.BINARY, config)
    timersDone = false
    nextTimer = Long.MaxValue
    if (mode == TimeMode.ProcessingTime()) getHandle match {
      case handle: StatefulProcessorHandleImpl => // not on the driver
        val before = handle.getHandleState
        handle.setHandleState(StatefulProcessorHandleState.INITIALIZED) // it tells of timers only then
        nextTimer = firstAfter(None)
        handle.setHandleState(before)
      case _ =>
    }
  }

  override def close(): Unit =
    if (mode == TimeMode.ProcessingTime() && TaskContext.get() != null) due.add((TaskContext.getPartitionId(), nextTimer))

  private def firstAfter(time: Option[Long]): Long = {
    val timers = getHandle.asInstanceOf[StatefulProcessorHandleImpl].getExpiredTimers(Long.MaxValue - 1, time)
    val first = if (timers.hasNext) timers.next()._2 else Long.MaxValue
    timers.asInstanceOf[NextIterator[_]].closeIfNeeded()
    first
  }

  override def handleInputRows(group: Any, rows: Iterator[Any], times: TimerValues): Iterator[Any] =
    through(now(times) ++ byKey(rows.map(_.asInstanceOf[UnsafeRow])))

  /** Spark calls for one key and timer after the other; the first call does what all of them are for. */
  override def handleExpiredTimer(key: Any, times: TimerValues, expired: ExpiredTimerInfo): Iterator[Any] =
    if (timersDone) Iterator.empty
    else {
      timersDone = true
      val made = through(now(times) ++ due(times))
      new Iterator[Any] {
        override def next(): Any = made.next()
        override def hasNext: Boolean = {
          val more = made.hasNext
          if (!more) at(key.asInstanceOf[Array[Byte]]) // Spark deletes the timer of this key now
          more
        }
      }
    }

  private def through(rows: Iterator[InternalRow]): Iterator[Any] = {
    val metrics = (PythonSQLMetrics.pythonSizeMetricsDesc ++ PythonSQLMetrics.pythonTimingMetricsDesc ++
      PythonSQLMetrics.pythonOtherMetricsDesc).map { case (name, _) => name -> new SQLMetric("sum", 0L) }
    val conf = SQLConf.get
    val python = new MapInBatchEvaluatorFactory(
      toAttributes(received),
      Seq((ChainedPythonFunctions(Seq(function.func)), 0L)),
      sent,
      received,
      conf.arrowMaxRecordsPerBatch,
      PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
      conf.sessionLocalTimeZone,
      false,
      settings,
      metrics,
      None,
      None)
    python.createEvaluator().eval(TaskContext.getPartitionId(), rows).filter(take)
  }

  /** Whether a row from Python goes on; what is for us is done. */
  private def take(row: InternalRow): Boolean = {
    val kind = row.getByte(kindAt)
    if (kind != output) {
      at(row.getBinary(keyAt))
      if (kind == register) {
        getHandle.registerTimer(row.getLong(timeAt))
        nextTimer = Math.min(nextTimer, row.getLong(timeAt))
      }
      else if (kind == delete) getHandle.deleteTimer(row.getLong(timeAt))
      else if (row.isNullAt(stateAt)) states.clear()
      else states.update(row.getBinary(stateAt))
    }
    kind == output || kind == both
  }

  private def at(key: Array[Byte]): Unit = ImplicitGroupingKeyTracker.setImplicitKey(key)

  private def state(key: Array[Byte]): Array[Byte] = {
    at(key)
    if (states.exists()) states.get() else null
  }

  /** The first row: the watermark, and the time of the batch. */
  private def now(times: TimerValues): Iterator[InternalRow] = {
    val row = new GenericInternalRow(sent.length)
    row.setByte(0, clock)
    row.update(4, Math.max(0L, times.getCurrentWatermarkInMs()))
    row.update(5, PythonState.none)
    row.update(8, times.getCurrentProcessingTimeInMs())
    Iterator(row)
  }

  private def keyOf(row: UnsafeRow): Array[Byte] =
    if (row.isNullAt(Turns.Key)) PythonState.NullKey else row.getBinary(Turns.Key)

  private def byKey(rows: Iterator[UnsafeRow]): Iterator[InternalRow] = new Iterator[Iterator[InternalRow]] {
    private val ahead = rows.map(_.copy()).buffered
    override def hasNext: Boolean = ahead.hasNext
    override def next(): Iterator[InternalRow] = {
      val key = keyOf(ahead.head)
      val mine = Array.newBuilder[UnsafeRow]
      while (ahead.hasNext && java.util.Arrays.equals(keyOf(ahead.head), key)) mine += ahead.next()
      val next = new GenericInternalRow(sent.length)
      next.setByte(0, data)
      next.update(1, key)
      next.update(2, state(key))
      var first = true
      Turns.sort(mine.result()).iterator.map { row =>
        if (!first) {
          next.setNullAt(1)
          next.setNullAt(2)
        }
        first = false
        next.update(3, row.get(Turns.First, value))
        next.update(4, Math.floorDiv(row.getLong(Turns.Time), 1000L)) // null reads as 0
        next.update(5, if (row.isNullAt(Turns.First + 1)) PythonState.none else row.getArray(Turns.First + 1))
        next.update(6, row.getUTF8String(Turns.First + 2))
        next.update(7, row.get(Turns.Partition, IntegerType))
        next.update(8, row.get(Turns.Offset, LongType))
        next
      }
    }
  }.flatten

  private def due(times: TimerValues): Iterator[InternalRow] = {
    val until = if (mode == TimeMode.EventTime()) times.getCurrentWatermarkInMs() else times.getCurrentProcessingTimeInMs()
    val timers = getHandle.asInstanceOf[StatefulProcessorHandleImpl].getExpiredTimers(until).toArray.map {
      case (key, time) => (key.asInstanceOf[Array[Byte]], time)
    }
    java.util.Arrays.sort(timers, PythonState.byKeyAndTime)
    if (mode == TimeMode.ProcessingTime()) nextTimer = firstAfter(Some(until))
    val next = new GenericInternalRow(sent.length)
    next.setByte(0, timer)
    next.update(5, PythonState.none)
    var before: Array[Byte] = null
    timers.iterator.map { case (key, time) =>
      val first = !java.util.Arrays.equals(key, before)
      before = key
      next.update(1, if (first) key else null)
      next.update(2, if (first) state(key) else null)
      next.update(4, time)
      next
    }
  }
}

/** When the next timer of each partition is due, in ms. A task tells that of its partition at its end. */
final class DueTimes extends AccumulatorV2[(Int, Long), Map[Int, Long]] {
  private var times = Map.empty[Int, Long]

  override def isZero: Boolean = times.isEmpty
  override def copy(): DueTimes = { val made = new DueTimes; made.times = times; made }
  override def reset(): Unit = times = Map.empty
  override def add(one: (Int, Long)): Unit = times += one
  override def merge(other: AccumulatorV2[(Int, Long), Map[Int, Long]]): Unit = times ++= other.value
  override def value: Map[Int, Long] = times
}

/** Runs a batch without data when a timer is due. With timers by the clock Spark itself runs one after the other, at full
  * speed, and processAllAvailable never ends.
  */
final class WakingExec(protected val plan: TransformWithStateExec, due: DueTimes)
    extends TransformWithStateExec(
      plan.keyDeserializer,
      plan.valueDeserializer,
      plan.groupingAttributes,
      plan.dataAttributes,
      plan.statefulProcessor,
      plan.timeMode,
      plan.outputMode,
      plan.keyEncoder,
      plan.outputObjAttr,
      plan.stateInfo,
      plan.batchTimestampMs,
      plan.prevBatchTimestampMs,
      plan.eventTimeWatermarkForLateEvents,
      plan.eventTimeWatermarkForEviction,
      plan.child,
      plan.isStreaming,
      plan.hasInitialState,
      plan.initialStateGroupingAttrs,
      plan.initialStateDataAttrs,
      plan.initialStateDeserializer,
      plan.initialState)
    with InPlace {
  override def shouldRunAnotherBatch(watermark: Long): Boolean =
    due.value.values.exists(_ <= System.currentTimeMillis())
  override protected def withNewChildrenInternal(left: SparkPlan, right: SparkPlan): WakingExec =
    new WakingExec(plan.copy(child = left), due)
  override protected def of(plan: SparkPlan): WakingExec =
    new WakingExec(plan.asInstanceOf[TransformWithStateExec], due)
}

/** Puts WakingExec in place, after Spark has told operators where their state is. */
object WakeForTimers extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exec: TransformWithStateExec if !exec.isInstanceOf[WakingExec] && exec.timeMode == TimeMode.ProcessingTime() =>
      exec.statefulProcessor match {
        case state: PythonState => new WakingExec(exec, state.due)
        case _ => exec
      }
  }
}

/** The rows of a partition as one group, in the order of their keys: with a column `group` that is always the same.
  *
  * It says of itself that its rows are spread by that column, which is true for a partition's number of rows and keys:
  * they are spread by key over as many partitions as there are state stores.
  */
case class Gathered(keys: Seq[Attribute], group: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output :+ group
  override def producedAttributes: AttributeSet = AttributeSet(group)
  override protected def withNewChildInternal(child: LogicalPlan): Gathered = copy(child = child)
}

object Gathered extends SparkStrategy {

  /** Make the strategy known to the frame's session, and to those that queries clone from it. */
  def known(frame: DataFrame): Unit = {
    val methods = frame.sparkSession.asInstanceOf[ClassicSession].experimental
    if (!methods.extraStrategies.contains(this)) methods.extraStrategies :+= this
  }

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case Gathered(keys, group, child) =>
      Seq(GatheredExec(keys, group, SQLConf.get.numShufflePartitions, planLater(child)))
    case _ => Nil
  }
}

case class GatheredExec(keys: Seq[Attribute], group: Attribute, partitions: Int, child: SparkPlan)
    extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ group
  override def producedAttributes: AttributeSet = AttributeSet(group)
  override def requiredChildDistribution: Seq[Distribution] = Seq(StatefulOpClusteredDistribution(keys, partitions))
  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(keys.map(SortOrder(_, Ascending)))
  override def outputPartitioning: Partitioning = HashPartitioning(Seq(group), partitions)
  override def outputOrdering: Seq[SortOrder] = Seq(SortOrder(group, Ascending))

  override protected def doExecute(): RDD[InternalRow] = {
    val columns = child.output
    child.execute().mapPartitions { rows =>
      val wider = UnsafeProjection.create(columns :+ Literal(Array.emptyByteArray), columns)
      rows.map(wider)
    }
  }

  override protected def withNewChildInternal(child: SparkPlan): GatheredExec = copy(child = child)
}
