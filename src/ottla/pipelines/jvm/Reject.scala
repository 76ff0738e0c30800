package ottla

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.{Callback, ProducerRecord, RecordMetadata}
import org.apache.kafka.common.header.Header
import org.apache.kafka.common.header.internals.RecordHeader
import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.LongAccumulator
import org.json4s._
import org.json4s.jackson.JsonMethods.compact

/** A record that a step cannot take, and the policy is to fail; explain.py finds the message in Spark's. */
class Rejected(message: String) extends RuntimeException(message)

/** What happens to a record that a step cannot take: the query fails, or the record is counted and left out, and sent
  * to a topic of dead letters where there is one. The filter of poison.py calls it for such records only.
  *
  * A record is the struct (topic, partition, offset, timestamp, key, value, headers); each may be null. */
case class Rejector(step: String, fails: Boolean, letters: Option[LetterBox], count: LongAccumulator) {

  /** Whether the row goes on: never. */
  def keep(reason: UTF8String, kind: UTF8String, record: InternalRow): Boolean = {
    if (fails) throw new Rejected(s"step $step cannot take the record at ${place(record)}: $reason")
    letters.foreach(box => DeadLetters.send(box, step, reason, kind, record))
    count.add(1)
    false
  }

  private def place(record: InternalRow): String =
    if (record.isNullAt(0)) "a place that is not known any more"
    else s"topic ${record.getUTF8String(0)}, partition ${record.getInt(1)}, offset ${record.getLong(2)}"
}

object Rejector {
  private val counts = new ConcurrentHashMap[String, LongAccumulator]

  /** `topic`: of the dead letters, or null; `settings`: kafka.* of the producer that writes them. */
  def make(step: String, fails: Boolean, topic: String, settings: java.util.Map[String, String]): Rejector = {
    val count = counts.computeIfAbsent(
      step, name => SparkSession.active.sparkContext.longAccumulator(s"rejected_$name"))
    val letters = Option(topic).map(LetterBox(_, SinkOptions.of(new CaseInsensitiveStringMap(settings))))
    Rejector(step, fails, letters, count)
  }

  /** Records left out by now, by step, as JSON: Python would ask for the entries of a map one by one. */
  def rejected(): String =
    compact(JObject(counts.asScala.map { case (step, count) => JField(step, JLong(count.value)) }.toList))
}

/** Where dead letters go. */
case class LetterBox(topic: String, options: SinkOptions)

/** Sends dead letters in the executors. Those of a task are acknowledged before it is done, and one that cannot be
  * written fails it: it is run again, and sends all of them again. */
object DeadLetters {
  private val tasks = new ConcurrentHashMap[Long, TaskLetters]

  def send(box: LetterBox, step: String, reason: UTF8String, kind: UTF8String, record: InternalRow): Unit =
    ofTask(TaskContext.get).send(box, step, reason, kind, record)

  private def ofTask(task: TaskContext): TaskLetters = tasks.computeIfAbsent(task.taskAttemptId, id => {
    val letters = new TaskLetters
    task.addTaskCompletionListener[Unit](ended => {
      tasks.remove(id)
      letters.end(flushed = !ended.isFailed && !ended.isInterrupted)
    })
    letters
  })
}

class TaskLetters extends Callback {
  private val producers = new java.util.HashMap[SinkOptions, SharedProducer]
  @volatile private var failed: SinkFailure = _
  private var options: SinkOptions = _

  def send(box: LetterBox, step: String, reason: UTF8String, kind: UTF8String, record: InternalRow): Unit =
    synchronized {
      if (failed != null) throw failed
      new OutputTopic(box.topic, box.options) // which is there
      options = box.options
      val shared = producers.computeIfAbsent(box.options, SharedProducers.take(_))
      shared.producer.send(letter(box.topic, step, reason, kind, record), this)
    }

  override def onCompletion(at: RecordMetadata, error: Exception): Unit =
    if (error != null && failed == null) failed = SinkFailure.of(error, Option(at).map(_.topic).orNull, options)

  def flush(): Unit = {
    if (failed == null) producers.values.forEach(_.producer.flush())
    if (failed != null) throw failed
  }

  def end(flushed: Boolean): Unit =
    try if (flushed) flush()
    catch {
      // Spark keeps only the message of what a listener throws
      case failure: SinkFailure => throw new SinkFailure(s"ottla.SinkFailure: ${failure.getMessage}")
    } finally
      producers.forEach { (options, shared) =>
        if (failed != null) shared.broken = true
        SharedProducers.giveBack(options, shared)
      }

  private def letter(topic: String, step: String, reason: UTF8String, kind: UTF8String, record: InternalRow) = {
    import TaskLetters.columns
    val headers = columns.headersOf(record) match {
      case null => new java.util.ArrayList[Header]
      case given => given
    }
    def add(name: String, text: String): Unit =
      headers.add(new RecordHeader(s"ottla.error.$name", text.getBytes(UTF_8)))
    add("reason", reason.toString)
    add("exception", kind.toString)
    add("step", step)
    if (!record.isNullAt(0)) add("topic", record.getUTF8String(0).toString)
    if (!record.isNullAt(1)) add("partition", record.getInt(1).toString)
    if (!record.isNullAt(2)) add("offset", record.getLong(2).toString)
    val timestamp = columns.timestampOf(record)
    if (timestamp != null) add("timestamp", timestamp.toString)
    val time = if (timestamp == null || timestamp < 0) null else timestamp
    new ProducerRecord(topic, null, time, columns.keyOf(record), columns.valueOf(record), headers)
  }
}

object TaskLetters {
  private[ottla] val columns = Columns(
    fixedTopic = None,
    topic = 0,
    partition = 1,
    key = 4,
    keyIsText = false,
    value = 5,
    valueIsText = false,
    headers = 6,
    timestamp = 3)
}
