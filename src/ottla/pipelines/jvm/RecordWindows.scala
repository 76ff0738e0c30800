package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types._

/** Windows whose bounds follow from the records: sessions and sliding windows.
  *
  * The state of a key is its records that can still be in an open window, by time; its windows follow from them. A
  * window is closed once its end is before stream time less the grace. The stream (side 0, column value) has a
  * watermark so far behind that Spark drops what is too late for every window. Times are microseconds, in whole
  * milliseconds.
  */
object RecordWindows {
  val Tick = 1000L // a millisecond: the step of Kafka's time

  def sessions(stream: DataFrame, gap: Long, onlyFinal: Boolean): DataFrame =
    windows(stream, (keys, values) => new Sessions(keys, values, gap, onlyFinal))

  def sliding(stream: DataFrame, difference: Long, onlyFinal: Boolean): DataFrame =
    windows(stream, (keys, values) => new Sliding(keys, values, difference, onlyFinal))

  private def windows(stream: DataFrame, function: (Cell, Cell) => RecordWindows): DataFrame = {
    val key = stream.schema(Turns.Key).dataType
    val value = stream.schema(Turns.First).dataType
    val records = ArrayType(new StructType().add("time", LongType, false).add("value", value), false)
    val output = new StructType()
      .add("key", key)
      .add("start", TimestampType)
      .add("end", TimestampType)
      .add("values", ArrayType(value))
      .add("timestamp", TimestampType)
    val state = new StructType().add("records", records).add("closed", LongType)
    Keyed(stream, state, output, timers = true, function(new Cell(key), new Cell(value)))
  }
}

/** A record in the state of a key; `fresh`: it has come with this batch. */
final class TimedValue(val time: Long, val fresh: Boolean, val value: Any)

/** What comes out, which records stay, and which watermark must be passed for the next window to close. */
final case class Turn(results: collection.Seq[InternalRow], kept: ArrayBuffer[TimedValue], due: Long)

abstract class RecordWindows(keys: Cell, values: Cell) extends KeyFunction {
  import RecordWindows.Tick

  /** @param closed the watermark by which windows of this key have been closed before
    * @param watermark of this batch; 0 before there is one
    */
  protected def turn(key: Any, records: ArrayBuffer[TimedValue], closed: Long, watermark: Long): Turn

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val records = if (state.exists) read(state.get.getArray(0)) else new ArrayBuffer[TimedValue]
    val closed = if (state.exists) state.get.getLong(1) else 0L
    for (row <- Turns.sort(rows)) {
      val time = Math.floorDiv(row.getLong(Turns.Time), Tick) * Tick
      val record = new TimedValue(time, true, values(row, Turns.First))
      records.insert(ByTime.position(records.length, time + 1)(records(_).time), record)
    }
    val watermark = state.getCurrentWatermarkMs() * Tick
    val Turn(results, kept, due) = turn(keys(keyRow, Keyed.Key), records, closed, watermark)
    if (kept.nonEmpty) {
      state.update(InternalRow(write(kept), watermark))
      ByTime.wake(state, due)
    } else if (state.exists) state.remove()
    results.iterator
  }

  protected def window(key: Any, start: Long, end: Long, records: Iterable[TimedValue], time: Long): InternalRow =
    InternalRow(key, start, end, new GenericArrayData(records.iterator.map(_.value).toArray[Any]), time)

  private def read(array: ArrayData): ArrayBuffer[TimedValue] =
    ArrayBuffer.tabulate(array.numElements) { i =>
      val row = array.getStruct(i, 2)
      new TimedValue(row.getLong(0), false, values(row, 1))
    }

  private def write(records: ArrayBuffer[TimedValue]): ArrayData =
    new GenericArrayData(records.iterator.map(record => InternalRow(record.time, record.value)).toArray[Any])
}

/** Sessions: runs of records no more than the gap apart. The watermark lies gap + grace + 1 ms behind. */
final class Sessions(keys: Cell, values: Cell, gap: Long, onlyFinal: Boolean) extends RecordWindows(keys, values) {
  import RecordWindows.Tick

  override protected def turn(key: Any, records: ArrayBuffer[TimedValue], closed: Long, watermark: Long) = {
    val now = runs(records)
    val (over, open) = now.partition(_.last.time <= watermark)
    val results =
      if (onlyFinal) over.map(session(key, _))
      else {
        val bounds = now.map(run => (run.head.time, run.last.time)).toSet
        val gone = runs(records.filterNot(_.fresh)).map(run => (run.head.time, run.last.time)).filterNot(bounds)
        gone.map { case (start, end) => InternalRow(key, start, end, null, end) } ++
          now.filter(_.exists(_.fresh)).map(session(key, _))
      }
    Turn(results, open.flatten, if (open.isEmpty) 0 else open.head.last.time - Tick)
  }

  private def session(key: Any, run: ArrayBuffer[TimedValue]): InternalRow =
    window(key, run.head.time, run.last.time, run, run.last.time)

  private def runs(records: ArrayBuffer[TimedValue]): ArrayBuffer[ArrayBuffer[TimedValue]] = {
    val runs = new ArrayBuffer[ArrayBuffer[TimedValue]]
    for (record <- records) {
      if (runs.isEmpty || record.time - runs.last.last.time > gap) runs += new ArrayBuffer[TimedValue]
      runs.last += record
    }
    runs
  }
}

/** Sliding windows: one that ends at each record, and one that starts a tick after it if there are records in it.
  *
  * The watermark lies difference + grace + 1 ms behind: what is not above it is in no open window.
  */
final class Sliding(keys: Cell, values: Cell, difference: Long, onlyFinal: Boolean)
    extends RecordWindows(keys, values) {
  import RecordWindows.Tick

  override protected def turn(key: Any, records: ArrayBuffer[TimedValue], closed: Long, watermark: Long) = {
    val times = records.map(_.time).toArray
    def between(from: Long, to: Long) = records.slice(position(times, from), position(times, to + Tick))
    val starts = times.distinct.flatMap(time => Seq(time - difference, time + Tick)).distinct.sorted
    val open = closing(watermark)
    val chosen =
      if (onlyFinal) starts.filter(start => start + difference < open && start + difference >= closing(closed))
      else {
        val fresh = records.filter(_.fresh).map(_.time).distinct.toArray
        val known = records.filterNot(_.fresh).map(_.time).toSet
        val made = fresh.filterNot(known).map(_ + Tick).toSet // by a record's coming, though it is not in it itself
        starts.filter(start => start + difference >= open && (touched(fresh, start) || made(start)))
      }
    val results = for {
      start <- chosen.toSeq
      in = between(start, start + difference)
      if in.nonEmpty
    } yield window(key, start, start + difference, in, in.last.time)
    val kept = records.filter(_.time >= watermark)
    def opens(start: Long) = start + difference >= open && between(start, start + difference).nonEmpty
    val next = if (onlyFinal) starts.find(opens).map(_ - Tick) else kept.headOption.map(_.time)
    Turn(results, kept, next.getOrElse(watermark))
  }

  private def touched(fresh: Array[Long], start: Long): Boolean =
    position(fresh, start) < position(fresh, start + difference + Tick)

  private def position(times: Array[Long], time: Long): Int = ByTime.position(times.length, time)(times(_))

  /** Windows that end before this are closed. */
  private def closing(watermark: Long): Long = if (watermark == 0) Long.MinValue else watermark + difference + Tick
}
