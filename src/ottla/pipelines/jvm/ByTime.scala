package ottla

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.streaming.GroupState

object ByTime {
  /** Where the first of these, which are in the order of time, lies that is not before this time. */
  def position(length: Int, time: Long)(at: Int => Long): Int = {
    var low = 0
    var high = length
    while (low < high) {
      val middle = (low + high) >>> 1
      if (at(middle) < time) low = middle + 1 else high = middle
    }
    low
  }

  /** Call the key's function again once the watermark is past this time (microseconds). */
  def wake(state: GroupState[InternalRow], time: Long): Unit =
    state.setTimeoutTimestamp(math.max(1, math.max(state.getCurrentWatermarkMs(), Math.floorDiv(time, 1000L))))
}
