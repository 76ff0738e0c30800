package ottla

import java.time.Duration
import java.{util => ju}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.catalog.{SupportsWrite, Table, TableCapability}
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}
import org.apache.spark.sql.internal.connector.{SimpleTableProvider, SupportsStreamingUpdateAsAppend}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Rows into topics: `df.writeStream.format("ottla.Sink")`, and at least once `df.write.format("ottla.Sink")`.
  *
  * Columns: those of [[Columns]]. Options:
  *   kafka.*    settings of the producer, kafka.bootstrap.servers among them
  *   delivery   at_least_once (as it stands unless told otherwise) or exactly_once
  *   query      exactly_once: the name under which the query's transactions and markers go; one running query per name
  *   topic      where there is no column `topic`
  *
  * at_least_once: tasks share a producer per executor ([[SharedProducers]]); a task ends when its records are
  * acknowledged. exactly_once: see [[ExactlyOnceWriter]].
  */
class Sink extends SimpleTableProvider {
  override def getTable(options: CaseInsensitiveStringMap): Table = new SinkTable
}

class SinkTable extends Table with SupportsWrite {
  override def name(): String = "ottla.Sink"
  override def schema(): StructType = new StructType()
  override def capabilities(): ju.Set[TableCapability] =
    ju.EnumSet.of(TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA)

  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder =
    new WriteBuilder with SupportsStreamingUpdateAsAppend {
      override def build(): Write = {
        val options = SinkOptions.of(info.options)
        val columns = Columns.of(info.schema, options.topic)
        new Write {
          override def description(): String = s"ottla.Sink ${options.bootstrap}"
          override def toBatch: BatchWrite = new AtLeastOnceBatch(options, columns)
          override def toStreaming: StreamingWrite =
            if (options.exactlyOnce) new ExactlyOnce(options, columns, info.queryId)
            else new AtLeastOnce(options, columns)
        }
      }
    }
}

/** What the sink was told; `producer` are the settings of Kafka's producer, ours where none are given. */
case class SinkOptions(
    producer: Map[String, String],
    exactlyOnce: Boolean,
    query: String,
    topic: Option[String]) {
  def bootstrap: String = producer("bootstrap.servers")

  /** How long brokers may take to answer. */
  def patience: Duration = Duration.ofMillis(producer("max.block.ms").toLong)

  /** The settings that reach the brokers, for clients that do not produce. */
  def reach: Map[String, String] = producer.filter { case (name, _) =>
    name == "bootstrap.servers" || name == "client.dns.lookup" || SinkOptions.Security.exists(name.startsWith)
  }
}

object SinkOptions {
  private val Security = Seq("security.", "sasl.", "ssl.")

  // Batches are sent when full, or when the task's last row is in: a long linger costs no time.
  private val Defaults = Map(
    "acks" -> "all",
    "max.block.ms" -> "60000",
    "linger.ms" -> "100",
    "batch.size" -> (256 * 1024).toString,
    "buffer.memory" -> (32 * 1024 * 1024).toString,
    "transaction.timeout.ms" -> "600000" // a task may take that long; its successor ends what it left open
  )
  private val OwnProducer = Map("buffer.memory" -> (8 * 1024 * 1024).toString) // of which there is one for each task
  private val Fixed = Map(
    "key.serializer" -> "org.apache.kafka.common.serialization.ByteArraySerializer",
    "value.serializer" -> "org.apache.kafka.common.serialization.ByteArraySerializer"
  )

  def of(options: CaseInsensitiveStringMap): SinkOptions = {
    val kafka = options.asCaseSensitiveMap.asScala.collect {
      case (name, value) if name.toLowerCase.startsWith("kafka.") => name.drop("kafka.".length) -> value
    }.toMap
    if (!kafka.contains("bootstrap.servers"))
      throw new SinkFailure("the sink needs the option kafka.bootstrap.servers")
    val delivery = options.getOrDefault("delivery", "at_least_once")
    if (delivery != "at_least_once" && delivery != "exactly_once")
      throw new SinkFailure(s"delivery is at_least_once or exactly_once, not $delivery")
    val query = options.getOrDefault("query", "")
    if (delivery == "exactly_once" && query.isEmpty)
      throw new SinkFailure("exactly_once needs the option query: the name of the query, its own in the cluster")
    val defaults = if (delivery == "exactly_once") Defaults ++ OwnProducer else Defaults
    SinkOptions(defaults ++ kafka ++ Fixed, delivery == "exactly_once", query, Option(options.get("topic")))
  }
}

case object Written extends WriterCommitMessage

class AtLeastOnce(options: SinkOptions, columns: Columns) extends StreamingWrite {
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory =
    AtLeastOnceFactory(options, columns)
  override def useCommitCoordinator(): Boolean = false
  override def commit(batch: Long, messages: Array[WriterCommitMessage]): Unit = {}
  override def abort(batch: Long, messages: Array[WriterCommitMessage]): Unit = {}
}

class AtLeastOnceBatch(options: SinkOptions, columns: Columns) extends BatchWrite {
  if (options.exactlyOnce)
    throw new SinkFailure("exactly_once is for streaming queries: a batch write has no checkpoint to go on from")
  override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory =
    AtLeastOnceFactory(options, columns)
  override def useCommitCoordinator(): Boolean = false
  override def commit(messages: Array[WriterCommitMessage]): Unit = {}
  override def abort(messages: Array[WriterCommitMessage]): Unit = {}
}

case class AtLeastOnceFactory(options: SinkOptions, columns: Columns)
    extends StreamingDataWriterFactory with DataWriterFactory {
  override def createWriter(task: Int, attempt: Long): DataWriter[InternalRow] =
    new AtLeastOnceWriter(options, columns)
  override def createWriter(task: Int, attempt: Long, batch: Long): DataWriter[InternalRow] =
    new AtLeastOnceWriter(options, columns)
}

class AtLeastOnceWriter(options: SinkOptions, columns: Columns) extends DataWriter[InternalRow] {
  private var shared: SharedProducer = _
  private var sender: Sender = _

  override def write(row: InternalRow): Unit = {
    if (sender == null) {
      shared =
        try SharedProducers.take(options)
        catch { case error: Exception => throw SinkFailure.of(error, null, options) }
      sender = new Sender(shared.producer, columns, options)
    }
    sender.send(row)
  }

  override def commit(): WriterCommitMessage = {
    if (sender != null) sender.flush()
    Written
  }

  override def abort(): Unit = if (shared != null) shared.broken = true

  override def close(): Unit = if (shared != null) {
    SharedProducers.giveBack(options, shared)
    shared = null
  }
}
