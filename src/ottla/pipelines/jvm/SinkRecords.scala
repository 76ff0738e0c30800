package ottla

import java.lang.{Integer => JInteger, Long => JLong}

import org.apache.kafka.clients.producer.{Callback, KafkaProducer, ProducerRecord, RecordMetadata}
import org.apache.kafka.common.header.Header
import org.apache.kafka.common.header.internals.RecordHeader
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Where a record's parts lie in a row (-1: there is no such column), read from rows as Spark holds them.
  *
  *   topic      string, unless the option `topic` says it
  *   partition  int, optional; null: by the key, as producers do
  *   key        binary or string, optional
  *   value      binary or string
  *   headers    array<struct<key string, value binary>>, optional
  *   timestamp  timestamp, optional; null: now
  */
case class Columns(
    fixedTopic: Option[String],
    topic: Int,
    partition: Int,
    key: Int,
    keyIsText: Boolean,
    value: Int,
    valueIsText: Boolean,
    headers: Int,
    timestamp: Int) {

  def keyOf(row: InternalRow): Array[Byte] = bytes(row, key, keyIsText)
  def valueOf(row: InternalRow): Array[Byte] = bytes(row, value, valueIsText)

  def partitionOf(row: InternalRow): JInteger =
    if (partition < 0 || row.isNullAt(partition)) null else row.getInt(partition)

  def timestampOf(row: InternalRow): JLong =
    if (timestamp < 0 || row.isNullAt(timestamp)) null else Math.floorDiv(row.getLong(timestamp), 1000L)

  def headersOf(row: InternalRow): java.util.List[Header] =
    if (headers < 0 || row.isNullAt(headers)) null
    else {
      val array = row.getArray(headers)
      val made = new java.util.ArrayList[Header](array.numElements)
      for (i <- 0 until array.numElements) {
        val pair = array.getStruct(i, 2)
        if (pair.isNullAt(0)) throw new SinkFailure("a header has no key: header keys may not be null")
        made.add(new RecordHeader(pair.getUTF8String(0).toString, if (pair.isNullAt(1)) null else pair.getBinary(1)))
      }
      made
    }

  private def bytes(row: InternalRow, at: Int, isText: Boolean): Array[Byte] =
    if (at < 0 || row.isNullAt(at)) null
    else if (isText) row.getUTF8String(at).getBytes
    else row.getBinary(at)
}

object Columns {
  private val Headers = "array<struct<key string, value binary>>"

  def of(schema: StructType, topic: Option[String]): Columns = {
    val names = schema.fieldNames
    val known = Set("topic", "partition", "key", "value", "headers", "timestamp")
    names.find(!known(_)).foreach { name =>
      throw new SinkFailure(s"the sink knows no column $name: its columns are ${known.mkString(", ")}")
    }
    if (!names.contains("value")) throw new SinkFailure("the sink needs a column value (binary or string)")
    if (!names.contains("topic") && topic.isEmpty)
      throw new SinkFailure("the sink needs a column topic (string), or the option topic")

    def place(name: String, wanted: String, fits: DataType => Boolean): Int = {
      val at = names.indexOf(name)
      if (at >= 0 && !fits(schema(at).dataType))
        throw new SinkFailure(s"the sink's column $name is ${schema(at).dataType.simpleString} and must be $wanted")
      at
    }
    def isText(at: Int) = at >= 0 && schema(at).dataType.isInstanceOf[StringType]
    val plain = (kind: DataType) => kind == BinaryType || kind.isInstanceOf[StringType]
    val key = place("key", "binary or string", plain)
    val value = place("value", "binary or string", plain)
    Columns(
      fixedTopic = topic,
      topic = place("topic", "string", _.isInstanceOf[StringType]),
      partition = place("partition", "int", _ == IntegerType),
      key = key,
      keyIsText = isText(key),
      value = value,
      valueIsText = isText(value),
      headers = place("headers", Headers, {
        case ArrayType(StructType(Array(StructField(_, _: StringType, _, _), StructField(_, BinaryType, _, _))), _) =>
          true
        case _ => false
      }),
      timestamp = place("timestamp", "timestamp", _ == TimestampType)
    )
  }
}

/** Sends the rows of one task; the first record that fails, fails the task. */
class Sender(producer: KafkaProducer[Array[Byte], Array[Byte]], columns: Columns, options: SinkOptions) {
  @volatile private var failed: SinkFailure = _
  private val topics = new java.util.HashMap[UTF8String, OutputTopic]
  private var lastName: UTF8String = _ // most rows go where the row before went
  private var last: OutputTopic = _
  private lazy val fixed = columns.fixedTopic.map(new OutputTopic(_, options))

  private val callback = new Callback {
    override def onCompletion(at: RecordMetadata, error: Exception): Unit =
      if (error != null && failed == null) failed = SinkFailure.of(error, Option(at).map(_.topic).orNull, options)
  }

  def send(row: InternalRow): Unit = {
    check()
    val topic = topicOf(row)
    val partition = columns.partitionOf(row)
    if (partition != null) topic.check(partition)
    val record = new ProducerRecord(
      topic.name, partition, columns.timestampOf(row), columns.keyOf(row), columns.valueOf(row), columns.headersOf(row))
    try producer.send(record, callback)
    catch { case error: Exception => throw SinkFailure.of(error, topic.name, options) }
  }

  /** Returns when all that was sent is acknowledged. */
  def flush(): Unit = {
    if (failed == null) producer.flush()
    check()
  }

  def check(): Unit = if (failed != null) throw failed

  private def topicOf(row: InternalRow): OutputTopic =
    if (columns.topic < 0 || row.isNullAt(columns.topic))
      fixed.getOrElse(throw new SinkFailure("a row's topic is null: each row must say its topic"))
    else {
      val name = row.getUTF8String(columns.topic)
      if (name != lastName) {
        last = topics.get(name)
        if (last == null) {
          last = new OutputTopic(name.toString, options)
          topics.put(name.copy(), last) // the row's memory is used again
        }
        lastName = name.copy()
      }
      last
    }
}
