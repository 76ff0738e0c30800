package ottla

import java.nio.ByteBuffer

/** Kafka's big-endian numbers, for which Spark has no expression. Columns.call makes each a static call inside Spark's
  * generated code: no boxing, no UDF. */
object Codec {
  def toShort(bytes: Array[Byte]): Short = ByteBuffer.wrap(bytes).getShort
  def toInt(bytes: Array[Byte]): Int = ByteBuffer.wrap(bytes).getInt
  def toLong(bytes: Array[Byte]): Long = ByteBuffer.wrap(bytes).getLong
  def toFloat(bytes: Array[Byte]): Float = ByteBuffer.wrap(bytes).getFloat
  def toDouble(bytes: Array[Byte]): Double = ByteBuffer.wrap(bytes).getDouble
  def toBoolean(bytes: Array[Byte]): Boolean = bytes(0) == 1

  /** The big-endian number in the 8 bytes that end `before` bytes before the end. */
  def longFromEnd(bytes: Array[Byte], before: Int): Long = ByteBuffer.wrap(bytes).getLong(bytes.length - before - 8)

  def fromShort(value: Short): Array[Byte] = ByteBuffer.allocate(2).putShort(value).array
  def fromInt(value: Int): Array[Byte] = ByteBuffer.allocate(4).putInt(value).array
  def fromLong(value: Long): Array[Byte] = ByteBuffer.allocate(8).putLong(value).array
  def fromFloat(value: Float): Array[Byte] = ByteBuffer.allocate(4).putFloat(value).array
  def fromDouble(value: Double): Array[Byte] = ByteBuffer.allocate(8).putDouble(value).array
  def fromBoolean(value: Boolean): Array[Byte] = Array(if (value) 1.toByte else 0.toByte)
}
