package ottla

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata
import org.apache.kafka.common.errors.{InterruptException, TimeoutException}
import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.connector.write.streaming.{StreamingDataWriterFactory, StreamingWrite}

/** The driver's side of exactly once: sees to the marker topic, and when a run of the query begins, asks once which
  * tasks of its first batch are written already.
  *
  * `id`: Spark's id of the query, which lies in its checkpoint.
  */
class ExactlyOnce(options: SinkOptions, columns: Columns, id: String) extends StreamingWrite {
  override def createStreamingWriterFactory(info: PhysicalWriteInfo): StreamingDataWriterFactory = try {
    val batch = SparkContext.getOrCreate().getLocalProperty("streaming.sql.batchId").toLong
    val run = Option(ExactlyOnce.runs.get(id)).filter(_.done == batch - 1)
    val places = run.map(_.places).filter(_ >= info.numPartitions).getOrElse(markers.provide(info.numPartitions))
    val written = if (run.isEmpty) ExactlyOnce.written(markers.all(id), batch, options.query) else Set.empty[Int]
    ExactlyOnce.runs.put(id, ExactlyOnce.Run(batch - 1, places))
    ExactlyOnceFactory(options, columns, id, written)
  } catch {
    // of what fails in the driver Spark keeps only the message: explain.py finds it by its beginning
    case error: Exception => throw new SinkFailure(s"OTTLA: ${SinkFailure.of(error, null, options).getMessage}", error)
  }

  override def useCommitCoordinator(): Boolean = false // transactions do that: a second writer fences the first

  override def commit(batch: Long, messages: Array[WriterCommitMessage]): Unit =
    ExactlyOnce.runs.computeIfPresent(id, (_, run) => run.copy(done = batch))

  override def abort(batch: Long, messages: Array[WriterCommitMessage]): Unit = ExactlyOnce.runs.remove(id)

  private def markers = new Markers(options)
}

object ExactlyOnce {

  /** `done`: the batch that this driver has seen through last; `places`: partitions of the marker topic. */
  private case class Run(done: Long, places: Int)

  private val runs = new ConcurrentHashMap[String, Run] // by the query's id

  private def written(markers: Map[Int, Long], batch: Long, query: String): Set[Int] = {
    markers.values.maxOption.filter(_ > batch).foreach { newest =>
      throw new SinkFailure(
        s"the checkpoint of query $query is older than what it has written: it would run batch $batch, and batch " +
          s"$newest is in the topics already. Go on from the newest checkpoint, or begin anew with an empty one")
    }
    markers.collect { case (task, last) if last == batch => task }.toSet
  }
}

case class ExactlyOnceFactory(options: SinkOptions, columns: Columns, id: String, written: Set[Int])
    extends StreamingDataWriterFactory {
  override def createWriter(task: Int, attempt: Long, batch: Long): DataWriter[InternalRow] =
    new ExactlyOnceWriter(options, columns, id, task, batch, written.contains(task))
}

/** Writes the rows of one task of one batch in one transaction, together with the task's marker, which says that the
  * batch is written. A batch that Spark runs again (it gives the same rows to the same tasks) passes over the tasks
  * whose marker names it. A task without rows needs no transaction: it has none again when it is repeated.
  *
  * No row is written twice, whoever else still runs (a speculative copy, a task of a lost executor, a killed driver's):
  *  - All writers of a task use one transactional id, `query-task`. A writer that has no producer at hand makes one,
  *    and initTransactions ends the transaction of the writer before it, one way or the other, and bars it from others.
  *    Only then does it read the marker, which thus holds whatever has been committed.
  *  - A producer kept from an earlier batch need not ask: while nobody has barred it, nobody else has committed.
  *  - The marker goes first into the transaction. A producer that has been barred learns it there, before the first row
  *    is taken, and a new one does the work; Spark need not repeat the task.
  *  - A writer that is barred later fails at its commit at the latest, and Spark repeats its task.
  */
class ExactlyOnceWriter(options: SinkOptions, columns: Columns, id: String, task: Int, batch: Long, known: Boolean)
    extends DataWriter[InternalRow] {
  private var written = known // already, by a task before this one
  private var producer: TaskProducer = _
  private var sender: Sender = _

  override def write(row: InternalRow): Unit = {
    if (sender == null && !written) begin()
    if (!written) sender.send(row)
  }

  override def commit(): WriterCommitMessage = {
    if (producer != null) {
      sender.check()
      try producer.commit()
      catch { case error: Exception => sender.check(); throw SinkFailure.of(error, null, options) }
      TaskProducers.keep(producer)
      producer = null
    }
    Written
  }

  override def abort(): Unit = if (producer != null) {
    producer.abandon()
    producer = null
  }

  override def close(): Unit = {}

  private def begin(): Unit =
    try {
      TaskProducers.take(options, task) match {
        case Some(kept) if kept.isWritten(id, batch) || kept.tryBegin(id, batch) => producer = kept
        case _ =>
          producer = TaskProducer.make(options, task)
          if (!producer.isWritten(id, batch)) producer.begin(id, batch)
      }
      if (producer.isWritten(id, batch)) {
        TaskProducers.keep(producer)
        producer = null
        written = true
      } else sender = new Sender(producer.client, columns, options)
    } catch { case error: Exception => throw SinkFailure.of(error, null, options) }
}

/** The producer of one task's transactions, and the marker that is the newest as long as nobody bars the producer. */
class TaskProducer private (val options: SinkOptions, val task: Int, val client: Clients.Producer) {
  private var newest: Option[Marker] = None
  private var next: Marker = _
  private[ottla] var since = 0L // it lies idle, in nanoseconds

  /** Whether the batch has been written; with no transaction open. */
  def isWritten(id: String, batch: Long): Boolean = newest.exists(marker => marker.id == id && marker.batch >= batch)

  def begin(id: String, batch: Long): Unit = {
    next = Marker(id, batch)
    client.beginTransaction()
    client.sendOffsetsToTransaction(
      java.util.Map.of(Markers.place(task), next.offset),
      new ConsumerGroupMetadata(Markers.group(options.query)))
  }

  /** False: the producer is of no more use, and closed; brokers that do not answer are an error all the same. */
  def tryBegin(id: String, batch: Long): Boolean =
    try {
      begin(id, batch)
      true
    } catch {
      case error: Exception =>
        abandon()
        if (error.isInstanceOf[TimeoutException] || error.isInstanceOf[InterruptException]) throw error
        false
    }

  def commit(): Unit = {
    client.commitTransaction()
    newest = Some(next)
  }

  /** Ends the transaction without its records, if the brokers answer soon; else its successor does. */
  def abandon(): Unit = client.close(Duration.ofSeconds(2))
}

object TaskProducer {
  def make(options: SinkOptions, task: Int): TaskProducer = {
    val client = Clients.producer(options.producer + ("transactional.id" -> s"${options.query}-$task"))
    val made = new TaskProducer(options, task, client)
    try {
      client.initTransactions()
      made.newest = new Markers(options).of(task)
    } catch { case error: Exception => made.abandon(); throw error }
    made
  }
}

/** An executor's producers between batches. One that a task uses is not among them, so a second task of that number
  * makes its own and bars the first. Those that nobody takes for a while are closed: each holds on to memory.
  */
object TaskProducers {
  private val AtMost = 256
  private val idle = mutable.LinkedHashMap[(SinkOptions, Int), TaskProducer]() // the longest idle first
  Clients.sweep(before => leave(idle.values.filter(_.since < before)))

  def take(options: SinkOptions, task: Int): Option[TaskProducer] = synchronized(idle.remove((options, task)))

  def keep(producer: TaskProducer): Unit = {
    producer.since = System.nanoTime
    leave(idle.get((producer.options, producer.task)))
    synchronized(idle.put((producer.options, producer.task), producer))
    leave(idle.values.take(idle.size - AtMost))
  }

  private def leave(some: => Iterable[TaskProducer]): Unit = {
    val left = synchronized {
      val found = some.toList
      found.foreach(producer => idle.remove((producer.options, producer.task)))
      found
    }
    left.foreach(_.client.close(Duration.ZERO))
  }
}
