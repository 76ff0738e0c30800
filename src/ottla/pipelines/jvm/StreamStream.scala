package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.streaming.GroupState
import org.apache.spark.sql.types._

/** Join of two streams: a right record joins a left one if its time is in [left - before, left + after].
  *
  * Pairs come out at once. A record that has met nobody comes out alone once stream time is past the end of its window
  * and the grace; it can still join until it is before + after + grace old, as in Kafka, whose stores keep it so long.
  * The union (sides 0 and 1, columns left and right) has a watermark that much behind; times are microseconds.
  */
object StreamStream {
  def join(
      union: DataFrame,
      before: Long,
      after: Long,
      grace: Long,
      lonelyLeft: Boolean,
      lonelyRight: Boolean): DataFrame = {
    val key = union.schema(Turns.Key).dataType
    val Seq(left, right) = union.schema.drop(Turns.First).map(_.dataType)
    def buffer(kind: DataType) =
      ArrayType(new StructType().add("time", LongType, false).add("done", BooleanType, false).add("value", kind), false)
    Keyed(
      union,
      new StructType().add("left", buffer(left)).add("right", buffer(right)),
      new StructType().add("key", key).add("left", left).add("right", right).add("timestamp", TimestampType),
      timers = true,
      new StreamStream(
        new Cell(key),
        Array(new Cell(left), new Cell(right)),
        Array(before, after),
        grace,
        Array(lonelyLeft, lonelyRight)))
  }
}

/** @param reach how far back, and how far on, from a left record its partners lie
  * @param lonely whether records of a side come out alone
  */
final class StreamStream(keys: Cell, values: Array[Cell], reach: Array[Long], grace: Long, lonely: Array[Boolean])
    extends KeyFunction {
  /** A record that waits; `done`: it has joined or come out alone. */
  private final class Waiting(val time: Long, var done: Boolean, val value: Any)

  private val kept = reach.sum + grace

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val key = keys(keyRow, Keyed.Key)
    if (key == null)
      return rows.iterator.map(row => alone(null, row.getByte(Turns.Side), row.getLong(Turns.Time), value(row)))
    val results = new ArrayBuffer[InternalRow](rows.length)
    val buffers = Array.tabulate(2) { side =>
      if (state.exists) read(state.get.getArray(side), side) else new ArrayBuffer[Waiting]
    }
    val watermark = state.getCurrentWatermarkMs() * 1000

    for (row <- Turns.sort(rows)) {
      val side = row.getByte(Turns.Side).toInt
      val record = new Waiting(row.getLong(Turns.Time), false, value(row))
      for (other <- partners(buffers(1 - side), record.time - reach(side), record.time + reach(1 - side))) {
        record.done = true
        other.done = true
        val (left, right) = if (side == 0) (record, other) else (other, record)
        results += InternalRow(key, left.value, right.value, math.max(left.time, right.time))
      }
      insert(buffers(side), record)
    }

    // Stream time is the watermark and what it lies behind; before there is a watermark nothing is past.
    var due = Long.MaxValue
    for (side <- 0 to 1) {
      val buffer = buffers(side)
      if (lonely(side)) for (record <- buffer if !record.done) {
        val end = record.time + reach(1 - side) + grace
        if (watermark > 0 && watermark + kept > end) {
          record.done = true
          results += alone(key, side.toByte, record.time, record.value)
        } else due = math.min(due, end - kept)
      }
      if (watermark > 0) buffer.filterInPlace(_.time > watermark)
      if (buffer.nonEmpty) due = math.min(due, buffer.head.time - 1000)
    }
    if (buffers.exists(_.nonEmpty)) {
      state.update(InternalRow(write(buffers(0)), write(buffers(1))))
      ByTime.wake(state, due)
    } else if (state.exists) state.remove()
    results.iterator
  }

  private def value(row: UnsafeRow): Any = {
    val side = row.getByte(Turns.Side).toInt
    values(side)(row, Turns.First + side)
  }

  private def alone(key: Any, side: Byte, time: Long, value: Any): InternalRow =
    if (side == 0) InternalRow(key, value, null, time) else InternalRow(key, null, value, time)

  private def partners(buffer: ArrayBuffer[Waiting], from: Long, to: Long): Iterator[Waiting] =
    buffer.slice(position(buffer, from), position(buffer, to + 1)).iterator

  /** After those of the same time: buffers stay in the order of time, then of arrival. */
  private def insert(buffer: ArrayBuffer[Waiting], record: Waiting): Unit =
    buffer.insert(position(buffer, record.time + 1), record)

  private def position(buffer: ArrayBuffer[Waiting], time: Long): Int =
    ByTime.position(buffer.length, time)(buffer(_).time)

  private def read(array: ArrayData, side: Int): ArrayBuffer[Waiting] =
    ArrayBuffer.tabulate(array.numElements) { i =>
      val row = array.getStruct(i, 3)
      new Waiting(row.getLong(0), row.getBoolean(1), values(side)(row, 2))
    }

  private def write(buffer: ArrayBuffer[Waiting]): ArrayData =
    new GenericArrayData(buffer.iterator.map(one => InternalRow(one.time, one.done, one.value)).toArray[Any])
}
