package ottla

import java.util.{Arrays, Comparator}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.types.ByteArray

/** In what order the rows of a key take their turns, and where the columns that say so lie.
  *
  * As Kafka Streams takes records: each partition of each side in the order of its offsets; among them the one whose
  * next record has the lowest timestamp, the lower side at equal timestamps. Rows without offsets go by timestamp, then
  * by content, so that a batch that is run again gives the same.
  */
object Turns {
  val Key = 0
  val Side = 1
  val Time = 2 // microseconds
  val Partition = 3
  val Offset = 4
  val First = 5 // of the columns that differ from operator to operator

  def sort(rows: Array[UnsafeRow]): Array[UnsafeRow] =
    if (rows.length < 2) rows
    else {
      Arrays.sort(rows, inPartition)
      if (samePartition(rows.head, rows.last)) rows
      else merge(rows, rows.indices.filter(i => i == 0 || !samePartition(rows(i - 1), rows(i))).toArray)
    }

  private def merge(rows: Array[UnsafeRow], starts: Array[Int]): Array[UnsafeRow] = {
    val ends = starts.tail :+ rows.length
    val next = starts.clone()
    Array.fill(rows.length) {
      var first = -1
      var i = 0
      while (i < next.length) {
        if (next(i) < ends(i) && (first < 0 || time(rows(next(i))) < time(rows(next(first))))) first = i
        i += 1
      }
      next(first) += 1
      rows(next(first) - 1)
    }
  }

  private def time(row: UnsafeRow): Long = row.getLong(Time)

  private def samePartition(a: UnsafeRow, b: UnsafeRow): Boolean =
    a.getByte(Side) == b.getByte(Side) && a.getInt(Partition) == b.getInt(Partition)

  private val inPartition: Comparator[UnsafeRow] = (a, b) => {
    var order = java.lang.Byte.compare(a.getByte(Side), b.getByte(Side))
    if (order == 0) order = Integer.compare(a.getInt(Partition), b.getInt(Partition)) // null reads as 0
    if (order == 0) order = java.lang.Long.compare(a.getLong(Offset), b.getLong(Offset))
    if (order == 0) order = java.lang.Long.compare(time(a), time(b))
    if (order == 0) order = ByteArray.compareBinary(a.getBytes, b.getBytes)
    order
  }
}
