package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, OrderUtils, UnsafeRow}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.streaming.GroupState
import org.apache.spark.sql.types._

/** Operators that keep the newest value of each key of a table. A null value deletes. */
object Tables {
  /** A union of a table (side 0) and a stream (side 1), with columns left (the stream's value), right, headers. */
  def streamTable(union: DataFrame, keepAll: Boolean): DataFrame = {
    val Seq(left, right, headers) = union.schema.drop(Turns.First).map(_.dataType)
    Keyed(
      union,
      new StructType().add("value", right),
      results(union).add("left", left).add("right", right).add("timestamp", TimestampType).add("headers", headers),
      timers = false,
      new StreamTable(union.schema(Turns.Key).dataType, left, right, headers, keepAll))
  }

  /** A union of two tables, sides 0 and 1, with columns left and right. */
  def tableTable(union: DataFrame, needLeft: Boolean, needRight: Boolean): DataFrame = {
    val Seq(left, right) = union.schema.drop(Turns.First).map(_.dataType)
    Keyed(
      union,
      new StructType().add("left", left).add("leftTime", LongType).add("right", right).add("rightTime", LongType),
      results(union).add("left", left).add("right", right).add("timestamp", TimestampType),
      timers = false,
      new TableTable(union.schema(Turns.Key).dataType, left, right, needLeft, needRight))
  }

  /** A table with its column value. */
  def changes(table: DataFrame): DataFrame = {
    val value = table.schema(Turns.First).dataType
    Keyed(
      table,
      new StructType().add("value", value),
      results(table).add("old", value).add("new", value).add("timestamp", TimestampType),
      timers = false,
      new Changes(table.schema(Turns.Key).dataType, value))
  }

  private def results(frame: DataFrame): StructType = new StructType().add("key", frame.schema(Turns.Key).dataType)
}

/** Each stream record meets what the table holds at its turn. */
final class StreamTable(key: DataType, left: DataType, right: DataType, headers: DataType, keepAll: Boolean)
    extends KeyFunction {
  private val Left = Turns.First
  private val Right = Left + 1
  private val Headers = Left + 2

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val results = new ArrayBuffer[InternalRow](rows.length)
    var value: Any = if (state.exists) state.get.get(0, right) else null
    var changed = false
    for (row <- Turns.sort(rows)) {
      if (row.getByte(Turns.Side) == 0) {
        value = row.get(Right, right)
        changed = true
      } else if (value != null || keepAll)
        results += InternalRow(
          row.get(Turns.Key, key),
          row.get(Left, left),
          value,
          row.getLong(Turns.Time),
          row.get(Headers, headers))
    }
    if (changed && value != null) state.update(InternalRow(value))
    else if (changed && state.exists) state.remove()
    results.iterator
  }
}

/** A joined row whenever one side changes; two nulls when what was joined no longer is. */
final class TableTable(key: DataType, left: DataType, right: DataType, needLeft: Boolean, needRight: Boolean)
    extends KeyFunction {
  private val types = Array(left, right)
  @transient private lazy val same = types.map(Same(_))

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val values = new Array[Any](2)
    val times = new Array[Long](2)
    if (state.exists) for (side <- 0 to 1) {
      values(side) = state.get.get(2 * side, types(side))
      times(side) = state.get.getLong(2 * side + 1)
    }
    def has(side: Int) = values(side) != null
    def joined = if (needLeft && needRight) has(0) && has(1) else has(0) || has(1) && !needLeft
    val results = new ArrayBuffer[InternalRow](rows.length)
    for (row <- Turns.sort(rows)) {
      val side = row.getByte(Turns.Side).toInt
      val other = 1 - side
      val value = row.get(Turns.First + side, types(side))
      if (!same(side)(values(side), value)) {
        val before = joined
        values(side) = value
        times(side) = row.getLong(Turns.Time)
        val time = if (!has(other)) times(side) else math.max(times(side), times(other))
        if (joined) results += InternalRow(row.get(Turns.Key, key), values(0), values(1), time)
        else if (before) results += InternalRow(row.get(Turns.Key, key), null, null, time)
      }
    }
    if (has(0) || has(1)) state.update(InternalRow(values(0), times(0), values(1), times(1)))
    else if (state.exists) state.remove()
    results.iterator
  }
}

/** What a key's value was and what it becomes. */
final class Changes(key: DataType, value: DataType) extends KeyFunction {
  @transient private lazy val same = Same(value)

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val results = new ArrayBuffer[InternalRow](rows.length)
    var old: Any = if (state.exists) state.get.get(0, value) else null
    for (row <- Turns.sort(rows)) {
      val next = row.get(Turns.First, value)
      if (!same(old, next)) results += InternalRow(row.get(Turns.Key, key), old, next, row.getLong(Turns.Time))
      old = next
    }
    if (old != null) state.update(InternalRow(old)) else if (state.exists) state.remove()
    results.iterator
  }
}

/** Whether two values of a type, or nulls, are equal. Values that Spark does not compare (maps) count as different. */
object Same {
  def apply(kind: DataType): (Any, Any) => Boolean = {
    val equal: (Any, Any) => Boolean =
      if (OrderUtils.isOrderable(kind)) TypeUtils.getInterpretedOrdering(kind).equiv(_, _) else (_, _) => false
    (a, b) => if (a == null || b == null) a == null && b == null else equal(a, b)
  }
}
