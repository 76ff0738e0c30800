package ottla

import java.time.Duration
import java.util.Arrays
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ConcurrentLinkedQueue, ExecutionException}
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.WakeupException
import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.scheduler.{SparkListener, SparkListenerApplicationEnd}
import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.classic.Frames
import org.apache.spark.sql.types.{BinaryType, DataType}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/** The newest value of each key of a topic, kept in memory by a consumer of its own thread.
  *
  * Each executor has one for a topic; tasks share it. A task waits, before its first look-up, until the table holds all
  * that was committed to the topic when the task began. After a while without tasks the table is closed.
  */
final class GlobalTable private (topic: String, settings: Map[String, String]) {
  import GlobalTable._

  private val values = new ConcurrentHashMap[BytesKey, Array[Byte]]
  private val waiting = new ConcurrentLinkedQueue[CompletableFuture[Unit]]
  private val users = new AtomicInteger
  @volatile private var idleSince = System.nanoTime
  @volatile private var stopping = false
  @volatile private var failure: Throwable = _
  private val consumer = Clients.consumer(settings)
  private val thread = new Thread(() => run(), s"global table $topic")
  thread.setDaemon(true)
  thread.start()

  def get(key: Array[Byte]): Array[Byte] = values.get(new BytesKey(key))

  /** Return when all that is in the topic now is in the table. */
  private def catchUp(): Unit = {
    val caughtUp = new CompletableFuture[Unit]
    waiting.add(caughtUp)
    consumer.wakeup()
    if (failure != null) fail(failure) // the thread may have ended before it saw the request
    try caughtUp.get()
    catch { case error: ExecutionException => throw new IllegalStateException(said(error.getCause), error.getCause) }
  }

  private def close(): Unit = {
    stopping = true
    consumer.wakeup()
  }

  private def run(): Unit =
    try {
      while (!stopping && !closedIdle(this)) {
        val requests = waiting.size
        try {
          if (requests > 0) {
            val ends = consumer.endOffsets(assign())
            while (ends.asScala.exists { case (partition, end) => consumer.position(partition) < end }) take()
            for (_ <- 1 to requests) waiting.poll().complete(())
          } else take()
        } catch { case _: WakeupException => } // there are more requests
      }
      fail(new IllegalStateException("it was closed"))
    } catch { case NonFatal(error) => fail(error) }
    finally {
      forget(this)
      consumer.close(Duration.ZERO)
    }

  /** All partitions of the topic, new ones from their beginning. */
  private def assign(): java.util.Set[TopicPartition] = {
    val partitions = consumer.partitionsFor(topic).asScala.map(info => new TopicPartition(topic, info.partition)).asJava
    if (partitions.isEmpty) throw new IllegalStateException("there is no such topic")
    val added = partitions.asScala.filterNot(consumer.assignment.contains).asJava
    if (!added.isEmpty) {
      consumer.assign(partitions)
      consumer.seekToBeginning(added)
    }
    consumer.assignment
  }

  private def take(): Unit =
    if (consumer.assignment.isEmpty) assign()
    else
      consumer.poll(Pause).forEach { record =>
        if (record.key != null) {
          if (record.value == null) values.remove(new BytesKey(record.key))
          else values.put(new BytesKey(record.key), record.value)
        }
      }

  private def fail(error: Throwable): Unit = {
    failure = error
    Iterator.continually(waiting.poll()).takeWhile(_ != null).foreach(_.completeExceptionally(error))
  }

  private def said(error: Throwable): String = s"the global table of topic $topic cannot be read: ${error.getMessage}"
}

object GlobalTable {
  private val Pause = Duration.ofSeconds(1)
  private val Idle = 60L * 1000 * 1000 * 1000 // nanoseconds without tasks, after which a table is closed

  private val tables = mutable.Map[(String, Map[String, String]), GlobalTable]()
  private val watched = mutable.Set[SparkContext]()

  /** The values of a topic for a column of keys; both as bytes. Null where the topic has no value. */
  def lookup(key: Column, topic: String, settings: java.util.Map[String, String], context: SparkContext): Column = {
    closeWith(context)
    Frames.column(GlobalLookup(Frames.expression(key), topic, settings.asScala.toMap))
  }

  /** The table for the task that asks, caught up. */
  def forTask(topic: String, settings: Map[String, String]): GlobalTable = {
    val table = synchronized {
      val table = tables.getOrElseUpdate((topic, settings), new GlobalTable(topic, settings))
      table.users.incrementAndGet()
      table
    }
    def leave(): Unit = { table.idleSince = System.nanoTime; table.users.decrementAndGet() }
    Option(TaskContext.get()) match {
      case Some(task) => task.addTaskCompletionListener[Unit](_ => leave())
      case None => leave()
    }
    table.catchUp()
    table
  }

  def closeAll(): Unit = synchronized(tables.values.foreach(_.close()))

  /** How many keys the tables of this process have, by topic. */
  def sizes: java.util.Map[String, Int] = synchronized {
    tables.map { case ((topic, _), table) => topic -> table.values.size }.asJava
  }

  private def closedIdle(table: GlobalTable): Boolean = synchronized {
    val idle = table.users.get == 0 && System.nanoTime - table.idleSince > Idle
    if (idle) forget(table)
    idle
  }

  private def forget(table: GlobalTable): Unit = synchronized(tables.filterInPlace((_, known) => known ne table))

  /** Executors end with the application; a driver that is its own executor may go on. */
  private def closeWith(context: SparkContext): Unit = synchronized {
    if (watched.add(context)) context.addSparkListener(new SparkListener {
      override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = {
        closeAll()
        GlobalTable.synchronized(watched.remove(context))
      }
    })
  }
}

/** Bytes that are equal by content. */
final class BytesKey(private val bytes: Array[Byte]) {
  override val hashCode: Int = Murmur3_x86_32.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 42)
  override def equals(other: Any): Boolean = other match {
    case key: BytesKey => Arrays.equals(bytes, key.bytes)
    case _ => false
  }
}

/** The value of a key (bytes) in a topic's global table. It may change from one moment to the next: evaluated once. */
case class GlobalLookup(child: Expression, topic: String, settings: Map[String, String])
    extends UnaryExpression {
  @transient private lazy val table = GlobalTable.forTask(topic, settings) // an expression belongs to one task

  def find(key: Array[Byte]): Array[Byte] = table.get(key)

  override lazy val deterministic: Boolean = false
  override def checkInputDataTypes(): TypeCheckResult =
    if (child.dataType == BinaryType) TypeCheckResult.TypeCheckSuccess
    else TypeCheckResult.TypeCheckFailure(s"a global table is asked by bytes, not by ${child.dataType.catalogString}")
  override def nullable: Boolean = true
  override def dataType: DataType = BinaryType
  override def prettyName: String = "global_lookup"
  override protected def nullSafeEval(key: Any): Any = find(key.asInstanceOf[Array[Byte]])
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val self = context.addReferenceObj("lookup", this)
    nullSafeCodeGen(context, code, key => s"""
      ${code.value} = $self.find($key);
      ${code.isNull} = ${code.value} == null;""")
  }
  override protected def withNewChildInternal(newChild: Expression): GlobalLookup = copy(child = newChild)
}
