package ottla

import java.io.ByteArrayOutputStream
import java.math.BigInteger

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.avro.{LogicalTypes, Schema}
import org.apache.avro.Schema.Type
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, SpecializedGetters}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Avro's binary form of one value, of one schema, to a value of a Spark type and back. serdes/avro.py says which type
  * is which; it has refused the schemas that have none.
  *
  *   int, long   zigzag, 7 bits a byte, lowest first      string, bytes   long length, bytes
  *   float 4, double 8 bytes, little-endian               union           long number of the branch, the value
  *   array, map  blocks: long count, items; a negative count is its opposite, and a long size in bytes follows; 0 ends
  */
case class AvroCodec(schema: String, dataType: DataType) {
  import AvroCodec._

  @transient private lazy val parsed = new Schema.Parser().setValidateDefaults(false).parse(schema)
  @transient private lazy val reader: Reader = readerOf(parsed)
  @transient private lazy val writer: Writer = writerOf(parsed, dataType)

  /** The value; null where the bytes do not fit. */
  def read(bytes: Array[Byte]): Any =
    try whole(bytes)
    catch { case _: Misfit => null }

  /** Why the bytes do not fit; null where they do. */
  def why(bytes: Array[Byte]): UTF8String =
    try { whole(bytes); null }
    catch { case misfit: Misfit => UTF8String.fromString(misfit.getMessage) }

  /** The bytes of a value, which comes in a row of its own, since primitives have no common kind in generated code. */
  def write(row: InternalRow): Array[Byte] =
    if (row.isNullAt(0)) null
    else {
      val out = new AvroOutput
      try writer(out, row, 0)
      catch { case misfit: Misfit => throw new Rejected(s"a value cannot be written as avro: ${misfit.getMessage}") }
      out.toByteArray
    }

  private def whole(bytes: Array[Byte]): Any = {
    val in = new AvroInput(bytes)
    val value = reader(in)
    if (in.left > 0) throw new Misfit(s"${in.left} bytes more than the value has")
    value
  }
}

object AvroCodec {
  private type Reader = AvroInput => Any
  private type Writer = (AvroOutput, SpecializedGetters, Int) => Unit // the value at a place that is not null

  private def readerOf(schema: Schema): Reader = schema.getType match {
    case Type.NULL => _ => null
    case Type.BOOLEAN => _.boolean()
    case Type.INT => schema.getLogicalType match {
      case _: LogicalTypes.Date => in => Years.date(in.int())
      case _ => _.int()
    }
    case Type.LONG => schema.getLogicalType match {
      case _: LogicalTypes.TimestampMillis => in => Years.time(in.long(), 1000L)
      case _: LogicalTypes.TimestampMicros => in => Years.time(in.long(), 1L)
      case _ => _.long()
    }
    case Type.FLOAT => _.float()
    case Type.DOUBLE => _.double()
    case Type.STRING => _.text()
    case Type.BYTES => decimal(schema).map(exact => (in: AvroInput) => exact(in.bytes())).getOrElse(_.bytes())
    case Type.FIXED =>
      val size = schema.getFixedSize
      decimal(schema).map(exact => (in: AvroInput) => exact(in.fixed(size))).getOrElse(_.fixed(size))
    case Type.ENUM =>
      val symbols = schema.getEnumSymbols.asScala.map(UTF8String.fromString).toArray
      in => symbols(in.choice(symbols.length, "symbol"))
    case Type.UNION =>
      val widened = widening(schema)
      val branches = schema.getTypes.asScala.map(branch => widened(readerOf(branch))).toArray
      in => branches(in.choice(branches.length, "branch"))(in)
    case Type.RECORD =>
      val names = schema.getFields.asScala.map(_.name).toArray
      val readers = schema.getFields.asScala.map(field => readerOf(field.schema)).toArray
      in => {
        val row = new Array[Any](readers.length)
        var i = 0
        try while (i < readers.length) { row(i) = readers(i)(in); i += 1 }
        catch { case inner: Misfit => throw inner.within(names(i)) }
        new GenericInternalRow(row)
      }
    case Type.ARRAY =>
      val reader = readerOf(schema.getElementType)
      in => {
        val values = new ArrayBuffer[Any]
        in.blocks { values += reader(in) }
        new GenericArrayData(values.toArray)
      }
    case Type.MAP =>
      val reader = readerOf(schema.getValueType)
      in => {
        val entries = new java.util.LinkedHashMap[UTF8String, Any]
        in.blocks { entries.put(in.text(), reader(in)) }
        ArrayBasedMapData(entries, identity, identity)
      }
  }

  /** [int, long] is a bigint, [float, double] a double. */
  private def widening(union: Schema): Reader => Reader = {
    val kinds = union.getTypes.asScala.map(_.getType).toSet
    if (kinds(Type.INT) && kinds(Type.LONG)) reader => in => reader(in) match { case n: Int => n.toLong; case n => n }
    else if (kinds(Type.FLOAT) && kinds(Type.DOUBLE))
      reader => in => reader(in) match { case n: Float => n.toDouble; case n => n }
    else identity
  }

  private def decimal(schema: Schema): Option[Array[Byte] => Decimal] = schema.getLogicalType match {
    case kind: LogicalTypes.Decimal => Some(bytes => {
      if (bytes.isEmpty) throw new Misfit("a decimal without digits")
      val number = new java.math.BigDecimal(new BigInteger(bytes), kind.getScale)
      if (number.precision > kind.getPrecision) throw new Misfit(s"$number has more than ${kind.getPrecision} digits")
      Decimal(number, kind.getPrecision, kind.getScale)
    })
    case _ => None
  }

  private def writerOf(schema: Schema, dataType: DataType): Writer = schema.getType match {
    case Type.BOOLEAN => (out, row, at) => out.write(if (row.getBoolean(at)) 1 else 0)
    case Type.INT => (out, row, at) => out.long(row.getInt(at))
    case Type.LONG => schema.getLogicalType match {
      case _: LogicalTypes.TimestampMillis => (out, row, at) => out.long(Math.floorDiv(row.getLong(at), 1000L))
      case _ => (out, row, at) => out.long(row.getLong(at))
    }
    case Type.FLOAT => (out, row, at) => out.float(row.getFloat(at))
    case Type.DOUBLE => (out, row, at) => out.double(row.getDouble(at))
    case Type.STRING => (out, row, at) => out.bytes(row.getUTF8String(at).getBytes)
    case Type.BYTES => schema.getLogicalType match {
      case kind: LogicalTypes.Decimal => (out, row, at) => out.bytes(unscaled(row, at, kind).toByteArray)
      case _ => (out, row, at) => out.bytes(row.getBinary(at))
    }
    case Type.FIXED =>
      val size = schema.getFixedSize
      schema.getLogicalType match {
        case kind: LogicalTypes.Decimal => (out, row, at) => out.padded(unscaled(row, at, kind).toByteArray, size)
        case _ => (out, row, at) => {
          val bytes = row.getBinary(at)
          if (bytes.length != size) throw new Misfit(s"${bytes.length} bytes are not $size")
          out.write(bytes)
        }
      }
    case Type.ENUM =>
      val places = schema.getEnumSymbols.asScala.map(UTF8String.fromString).zipWithIndex.toMap
      (out, row, at) => {
        val symbol = row.getUTF8String(at)
        out.long(places.getOrElse(symbol, throw new Misfit(s"$symbol is no symbol of ${schema.getName}")).toLong)
      }
    case Type.UNION =>
      val branches = schema.getTypes.asScala.toSeq
      val widest = branches.filter(_.getType != Type.NULL).maxBy(_.getType match {
        case Type.LONG | Type.DOUBLE => 1
        case _ => 0
      })
      val (place, writer) = (branches.indexOf(widest), writerOf(widest, dataType))
      (out, row, at) => { out.long(place); writer(out, row, at) }
    case Type.RECORD =>
      val struct = dataType.asInstanceOf[StructType]
      val names = struct.fieldNames
      val writers = schema.getFields.asScala.zip(struct.fields).map {
        case (field, typed) => orNull(field.schema, typed.dataType)
      }.toArray
      (out, row, at) => {
        val inner = row.getStruct(at, writers.length)
        var i = 0
        try while (i < writers.length) { writers(i)(out, inner, i); i += 1 }
        catch { case misfit: Misfit => throw misfit.within(names(i)) }
      }
    case Type.ARRAY =>
      val element = orNull(schema.getElementType, dataType.asInstanceOf[ArrayType].elementType)
      (out, row, at) => {
        val array = row.getArray(at)
        out.items(array.numElements)(i => element(out, array, i))
      }
    case Type.MAP =>
      val value = orNull(schema.getValueType, dataType.asInstanceOf[MapType].valueType)
      (out, row, at) => {
        val map = row.getMap(at)
        val (keys, values) = (map.keyArray, map.valueArray)
        out.items(map.numElements) { i =>
          out.bytes(keys.getUTF8String(i).getBytes)
          value(out, values, i)
        }
      }
    case Type.NULL => throw new IllegalArgumentException("null alone")
  }

  /** Also where the place is null, which only a union with null takes. */
  private def orNull(schema: Schema, dataType: DataType): Writer = {
    val some = writerOf(schema, dataType)
    val place = if (schema.isUnion) schema.getTypes.asScala.indexWhere(_.getType == Type.NULL) else -1
    if (place < 0) (out, row, at) =>
      if (row.isNullAt(at)) throw new Misfit("null, and it must not be") else some(out, row, at)
    else (out, row, at) => if (row.isNullAt(at)) out.long(place) else some(out, row, at)
  }

  private def unscaled(row: SpecializedGetters, at: Int, kind: LogicalTypes.Decimal): BigInteger =
    row.getDecimal(at, kind.getPrecision, kind.getScale).toJavaBigDecimal.setScale(kind.getScale).unscaledValue
}

/** Reads with an eye on what is left: bytes may be anything. */
class AvroInput(data: Array[Byte]) {
  private var at = 0

  def left: Int = data.length - at

  def long(): Long = {
    var (value, shift) = (0L, 0)
    var byte = 0
    do {
      if (shift > 63) throw new Misfit("a number of more than 64 bits")
      byte = one()
      value |= (byte & 0x7fL) << shift
      shift += 7
    } while ((byte & 0x80) != 0)
    (value >>> 1) ^ -(value & 1)
  }

  def int(): Int = {
    val value = long()
    if (value != value.toInt) throw new Misfit(s"$value is no int")
    value.toInt
  }

  def boolean(): Boolean = one() match {
    case 0 => false
    case 1 => true
    case other => throw new Misfit(s"$other is no boolean")
  }

  def float(): Float = java.lang.Float.intBitsToFloat(little(4).toInt)
  def double(): Double = java.lang.Double.longBitsToDouble(little(8))

  def bytes(): Array[Byte] = {
    val length = long()
    if (length < 0) throw new Misfit(s"$length bytes")
    if (length > left) throw short
    fixed(length.toInt)
  }

  def text(): UTF8String = {
    val read = UTF8String.fromBytes(bytes())
    if (!read.isValid) throw new Misfit("a text is not UTF-8")
    read
  }

  def fixed(size: Int): Array[Byte] = {
    if (size > left) throw short
    at += size
    java.util.Arrays.copyOfRange(data, at - size, at)
  }

  def choice(among: Int, what: String): Int = {
    val chosen = long()
    if (chosen < 0 || chosen >= among) throw new Misfit(s"there is no $what $chosen")
    chosen.toInt
  }

  /** Items have a byte at least, or their number could be anything. */
  def blocks(item: => Unit): Unit = {
    var count = long()
    while (count != 0) {
      if (count < 0) { long(); count = -count }
      if (count < 0 || count > left) throw short
      while (count > 0) { item; count -= 1 }
      count = long()
    }
  }

  private def one(): Int = {
    if (at == data.length) throw short
    at += 1
    data(at - 1) & 0xff
  }

  private def little(size: Int): Long = {
    if (size > left) throw short
    var value = 0L
    var i = size
    while (i > 0) { i -= 1; value = value << 8 | (data(at + i) & 0xff) }
    at += size
    value
  }

  private def short = new Misfit("it ends too early")
}

class AvroOutput extends ByteArrayOutputStream {
  def long(value: Long): Unit = {
    var rest = value << 1 ^ value >> 63
    while ((rest & ~0x7fL) != 0) {
      write((rest & 0x7f | 0x80).toInt)
      rest >>>= 7
    }
    write(rest.toInt)
  }

  def float(value: Float): Unit = little(java.lang.Float.floatToRawIntBits(value), 4)
  def double(value: Double): Unit = little(java.lang.Double.doubleToRawLongBits(value), 8)

  def bytes(value: Array[Byte]): Unit = {
    long(value.length)
    write(value)
  }

  /** Two's complement, to a fixed size. */
  def padded(value: Array[Byte], size: Int): Unit = {
    if (value.length > size) throw new Misfit(s"a decimal of ${value.length} bytes in $size")
    for (_ <- value.length until size) write(if (value(0) < 0) 0xff else 0)
    write(value)
  }

  def items(count: Int)(item: Int => Unit): Unit = {
    if (count > 0) {
      long(count)
      var i = 0
      while (i < count) { item(i); i += 1 }
    }
    long(0)
  }

  private def little(bits: Long, size: Int): Unit = for (i <- 0 until size) write((bits >>> 8 * i).toInt & 0xff)
}
