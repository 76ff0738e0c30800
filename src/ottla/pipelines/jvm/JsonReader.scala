package ottla

import java.math.BigDecimal
import java.util.Base64

import scala.collection.mutable.ArrayBuffer

import com.fasterxml.jackson.core.{JsonFactory, JsonParser, JsonProcessingException, JsonToken}
import com.fasterxml.jackson.core.JsonToken._
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, DateTimeUtils, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** What does not fit and where, from outermost to innermost; no stack trace, since it is ordinary input. */
class Misfit(val found: String, val places: List[String] = Nil) extends RuntimeException(null, null, false, false) {
  def within(place: String): Misfit = new Misfit(found, place :: places)
  override def getMessage: String = if (places.isEmpty) found else places.mkString(".") + ": " + found
}

/** Dates and times of the years 1 to 9999: Python has no others, and Spark none that it could show. */
object Years {
  private val (leastDay, mostDay) = (-719162, 2932896)
  private val (least, most) = (leastDay * 86400000000L, (mostDay + 1) * 86400000000L)

  def date(day: Int): Int = if (day < leastDay || day > mostDay) throw new Misfit(s"$day days is no date") else day

  /** In microseconds, from a number of units of so many. */
  def time(number: Long, micros: Long): Long = {
    if (number < least / micros || number >= most / micros) throw new Misfit(s"$number is no time")
    number * micros
  }
}

/** Bytes of JSON to a value of a Spark type, in one pass and strictly: Spark's from_json takes a number for a text, the
  * first of several values, and what does not fit for null. Here a field may be absent or null (unless NOT NULL),
  * fields that the type does not have are passed over, and everything else that does not fit makes the record a misfit,
  * with a reason that names the place. */
case class JsonReader(dataType: DataType) {
  import JsonReader._

  @transient private lazy val reader: Reader = readerOf(dataType)

  /** The value; null where the bytes do not fit, and for JSON's null. */
  def read(bytes: Array[Byte]): Any =
    try parse(bytes, reader)
    catch { case _: Misfit | _: JsonProcessingException => null }

  /** Why the bytes do not fit; null where they do. */
  def why(bytes: Array[Byte]): UTF8String =
    try { parse(bytes, reader); null }
    catch { case fault @ (_: Misfit | _: JsonProcessingException) => UTF8String.fromString(told(fault)) }
}

object JsonReader {
  /** Reads the value whose first token is the current one. */
  private type Reader = JsonParser => Any

  private val factory = new JsonFactory()

  /** The bytes are one JSON value in UTF-8. */
  def isJson(bytes: Array[Byte]): Boolean =
    try { parse(bytes, skip); true }
    catch { case _: Misfit | _: JsonProcessingException => false }

  /** Why the bytes are not one JSON value; null where they are. */
  def whyNotJson(bytes: Array[Byte]): UTF8String =
    try { parse(bytes, skip); null }
    catch { case fault @ (_: Misfit | _: JsonProcessingException) => UTF8String.fromString(told(fault)) }

  private val skip: Reader = parser => { parser.skipChildren(); null }

  private def parse(bytes: Array[Byte], reader: Reader): Any = {
    if (!UTF8String.fromBytes(bytes).isValid) throw new Misfit("not UTF-8")
    if (otherEncoding(bytes)) throw new Misfit("a zero byte or a byte order mark at its start")
    val parser = factory.createParser(bytes)
    try {
      if (parser.nextToken() == null) throw new Misfit("empty, and that is no JSON")
      val value = reader(parser)
      if (parser.nextToken() != null) throw new Misfit("more than one JSON value")
      value
    } finally parser.close()
  }

  /** Jackson would take the bytes for UTF-16 or UTF-32, or skip their first three. */
  private def otherEncoding(bytes: Array[Byte]): Boolean = {
    var i = 0
    while (i < 4 && i < bytes.length) { if (bytes(i) == 0) return true; i += 1 }
    bytes.length > 2 && bytes(0) == 0xef.toByte && bytes(1) == 0xbb.toByte && bytes(2) == 0xbf.toByte
  }

  private def told(fault: Throwable): String = fault match {
    case json: JsonProcessingException =>
      val words = json.getOriginalMessage.replaceAll(" \\(start marker at .*\\)", "") // a place in a source not shown
      s"$words at byte ${json.getLocation.getByteOffset}"
    case other => other.getMessage
  }

  private def readerOf(dataType: DataType): Reader = {
    val some = someReaderOf(dataType)
    parser => if (parser.currentToken == VALUE_NULL) null else some(parser)
  }

  private def someReaderOf(dataType: DataType): Reader = dataType match {
    case StringType => parser => if (parser.currentToken == VALUE_STRING) text(parser) else misfit(parser, dataType)
    case BooleanType => parser => parser.currentToken match {
      case VALUE_TRUE => true
      case VALUE_FALSE => false
      case _ => misfit(parser, dataType)
    }
    case ByteType => integer(dataType, Byte.MinValue, Byte.MaxValue, _.toByte)
    case ShortType => integer(dataType, Short.MinValue, Short.MaxValue, _.toShort)
    case IntegerType => integer(dataType, Int.MinValue, Int.MaxValue, _.toInt)
    case LongType => integer(dataType, Long.MinValue, Long.MaxValue, identity)
    case FloatType => floating(dataType, _.getFloatValue, java.lang.Float.parseFloat)
    case DoubleType => floating(dataType, _.getDoubleValue, java.lang.Double.parseDouble)
    case decimal: DecimalType => parser =>
      if (!parser.currentToken.isNumeric) misfit(parser, dataType)
      val number: BigDecimal = parser.getDecimalValue.stripTrailingZeros
      val whole = number.precision - number.scale
      if (number.scale > decimal.scale || whole > decimal.precision - decimal.scale) misfit(parser, dataType)
      Decimal(number, decimal.precision, decimal.scale)
    case BinaryType => parser => parsed(parser, dataType)(written => Base64.getDecoder.decode(written))
    case DateType => parser =>
      parsed(parser, dataType)(written => Years.date(DateTimeUtils.stringToDate(UTF8String.fromString(written)).get))
    case TimestampType => parser =>
      parsed(parser, dataType)(written =>
        Years.time(DateTimeUtils.stringToTimestamp(UTF8String.fromString(written), UTC).get, 1L))
    case ArrayType(element, containsNull) =>
      val reader = readerOf(element)
      parser => {
        if (parser.currentToken != START_ARRAY) misfit(parser, dataType)
        val values = new ArrayBuffer[Any]
        while (parser.nextToken() != END_ARRAY)
          values += at(s"[${values.size}]")(required(reader(parser), containsNull))
        new GenericArrayData(values.toArray)
      }
    case MapType(StringType, element, containsNull) =>
      val reader = readerOf(element)
      parser => {
        if (parser.currentToken != START_OBJECT) misfit(parser, dataType)
        val entries = new java.util.LinkedHashMap[UTF8String, Any]
        while (parser.nextToken() != END_OBJECT) {
          val name = parser.currentName
          parser.nextToken()
          entries.put(UTF8String.fromString(name), at(name)(required(reader(parser), containsNull)))
        }
        ArrayBasedMapData(entries, identity, identity)
      }
    case StructType(fields) => struct(dataType, fields)
    case other => throw new IllegalArgumentException(s"no JSON for ${other.sql}")
  }

  private def struct(dataType: DataType, fields: Array[StructField]): Reader = {
    val readers = fields.map(field => readerOf(field.dataType))
    val places = new java.util.HashMap[String, Integer]
    for (i <- fields.indices) places.put(fields(i).name, i)
    val needed = fields.indices.filter(!fields(_).nullable).toArray
    parser => {
      if (parser.currentToken != START_OBJECT) misfit(parser, dataType)
      val row = new Array[Any](fields.length)
      while (parser.nextToken() != END_OBJECT) {
        val place = places.get(parser.currentName)
        parser.nextToken()
        if (place == null) parser.skipChildren()
        else
          try row(place) = readers(place)(parser)
          catch { case inner: Misfit => throw inner.within(fields(place).name) }
      }
      for (i <- needed) if (row(i) == null) throw new Misfit("missing, and it must not be", List(fields(i).name))
      new GenericInternalRow(row)
    }
  }

  private def integer(dataType: DataType, least: Long, most: Long, narrow: Long => Any): Reader = parser => {
    if (parser.currentToken != VALUE_NUMBER_INT) misfit(parser, dataType)
    if (parser.getNumberType == JsonParser.NumberType.BIG_INTEGER) misfit(parser, dataType)
    val number = parser.getLongValue
    if (number < least || number > most) misfit(parser, dataType)
    narrow(number)
  }

  /** Not a number and the infinities are quoted, as to_json writes them. */
  private def floating(dataType: DataType, number: JsonParser => Any, named: String => Any): Reader = parser =>
    if (parser.currentToken.isNumeric) number(parser)
    else if (parser.currentToken != VALUE_STRING) misfit(parser, dataType)
    else parser.getText match {
      case name @ ("NaN" | "Infinity" | "-Infinity") => named(name)
      case _ => misfit(parser, dataType)
    }

  private def parsed(parser: JsonParser, dataType: DataType)(parse: String => Any): Any =
    if (parser.currentToken != VALUE_STRING) misfit(parser, dataType)
    else
      try parse(parser.getText)
      catch { case _: IllegalArgumentException | _: NoSuchElementException => misfit(parser, dataType) }

  private def text(parser: JsonParser): UTF8String = UTF8String.fromString(parser.getText)

  private def required(value: Any, mayBeNull: Boolean): Any =
    if (value == null && !mayBeNull) throw new Misfit("null, and it must not be") else value

  private def at(place: String)(read: => Any): Any =
    try read
    catch { case inner: Misfit => throw inner.within(place) }

  private def misfit(parser: JsonParser, dataType: DataType): Nothing = {
    val found = parser.currentToken match {
      case START_OBJECT => "an object"
      case START_ARRAY => "an array"
      case VALUE_STRING => "\"" + shortened(parser.getText) + "\""
      case _ => shortened(parser.getText)
    }
    throw new Misfit(s"$found is no ${dataType.catalogString.takeWhile(_ != '<')}")
  }

  private def shortened(text: String): String = if (text.length <= 40) text else text.take(39) + "…"

  private val UTC = java.time.ZoneOffset.UTC
}
