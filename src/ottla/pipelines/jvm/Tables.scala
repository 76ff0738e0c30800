package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
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
      new StreamTable(key(union), new Cell(left), new Cell(right), new Cell(headers), keepAll))
  }

  /** A union of two tables, sides 0 and 1, with columns left and right. */
  def tableTable(union: DataFrame, needLeft: Boolean, needRight: Boolean): DataFrame = {
    val Seq(left, right) = union.schema.drop(Turns.First).map(_.dataType)
    Keyed(
      union,
      new StructType().add("left", left).add("leftTime", LongType).add("right", right).add("rightTime", LongType),
      results(union).add("left", left).add("right", right).add("timestamp", TimestampType),
      timers = false,
      new TableTable(key(union), Array(new Cell(left), new Cell(right)), needLeft, needRight))
  }

  /** A table with its column value. */
  def changes(table: DataFrame): DataFrame = {
    val value = table.schema(Turns.First).dataType
    Keyed(
      table,
      new StructType().add("value", value),
      results(table).add("old", value).add("new", value).add("timestamp", TimestampType),
      timers = false,
      new Changes(key(table), new Cell(value)))
  }

  private def key(frame: DataFrame): Cell = new Cell(frame.schema(Turns.Key).dataType)

  private def results(frame: DataFrame): StructType = new StructType().add("key", frame.schema(Turns.Key).dataType)
}

/** Each stream record meets what the table holds at its turn. */
final class StreamTable(keys: Cell, lefts: Cell, rights: Cell, headers: Cell, keepAll: Boolean) extends KeyFunction {
  private val Left = Turns.First
  private val Right = Left + 1
  private val Headers = Left + 2

  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val key = keys(keyRow, Keyed.Key)
    val results = new ArrayBuffer[InternalRow](rows.length)
    var value: Any = if (state.exists) rights(state.get, 0) else null
    var changed = false
    for (row <- Turns.sort(rows)) {
      if (row.getByte(Turns.Side) == 0) {
        value = rights(row, Right)
        changed = true
      } else if (value != null || keepAll)
        results += new GenericInternalRow(
          Array(key, lefts(row, Left), value, row.getLong(Turns.Time), headers(row, Headers)))
    }
    if (changed && value != null) state.update(InternalRow(value))
    else if (changed && state.exists) state.remove()
    results.iterator
  }
}

/** A joined row whenever one side changes; two nulls when what was joined no longer is. */
final class TableTable(keys: Cell, sides: Array[Cell], needLeft: Boolean, needRight: Boolean) extends KeyFunction {
  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val key = keys(keyRow, Keyed.Key)
    val values = new Array[Any](2)
    val times = new Array[Long](2)
    if (state.exists) for (side <- 0 to 1) {
      values(side) = sides(side)(state.get, 2 * side)
      times(side) = state.get.getLong(2 * side + 1)
    }
    def has(side: Int) = values(side) != null
    def joined = if (needLeft && needRight) has(0) && has(1) else has(0) || has(1) && !needLeft
    val results = new ArrayBuffer[InternalRow](rows.length)
    for (row <- Turns.sort(rows)) {
      val side = row.getByte(Turns.Side).toInt
      val other = 1 - side
      val value = sides(side)(row, Turns.First + side)
      times(side) = row.getLong(Turns.Time)
      if (!sides(side).same(values(side), value)) {
        val before = joined
        values(side) = value
        val time = if (!has(other)) times(side) else math.max(times(side), times(other))
        if (joined) results += InternalRow(key, values(0), values(1), time)
        else if (before) results += InternalRow(key, null, null, time)
      }
    }
    if (has(0) || has(1)) state.update(InternalRow(values(0), times(0), values(1), times(1)))
    else if (state.exists) state.remove()
    results.iterator
  }
}

/** What a key's value was and what it becomes. */
final class Changes(keys: Cell, values: Cell) extends KeyFunction {
  override def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow] = {
    val key = keys(keyRow, Keyed.Key)
    val results = new ArrayBuffer[InternalRow](rows.length)
    var old: Any = if (state.exists) values(state.get, 0) else null
    for (row <- Turns.sort(rows)) {
      val next = values(row, Turns.First)
      if (!values.same(old, next)) results += InternalRow(key, old, next, row.getLong(Turns.Time))
      old = next
    }
    if (old != null) state.update(InternalRow(old)) else if (state.exists) state.remove()
    results.iterator
  }
}
