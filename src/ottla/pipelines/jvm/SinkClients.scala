package ottla

import java.time.Duration
import java.util.Properties
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.collection.mutable

import org.apache.kafka.clients.admin.Admin
import org.apache.kafka.clients.consumer.KafkaConsumer
import org.apache.kafka.clients.producer.KafkaProducer

/** Clients are dear to make: each executor keeps them over tasks and batches, until they have long been idle. */
object Clients {
  type Producer = KafkaProducer[Array[Byte], Array[Byte]]
  type Consumer = KafkaConsumer[Array[Byte], Array[Byte]]

  private val admins = new ConcurrentHashMap[Map[String, String], Admin]

  def producer(settings: Map[String, String]): Producer = loaded(new KafkaProducer(properties(settings)))

  def admin(options: SinkOptions): Admin = {
    val patience = options.patience.toMillis
    val times = Map("default.api.timeout.ms" -> patience, "request.timeout.ms" -> Math.min(patience, 30000L))
    admins.computeIfAbsent(
      options.reach ++ times.map { case (name, time) => name -> time.toString },
      settings => loaded(Admin.create(properties(settings))))
  }

  def consumer(options: SinkOptions): Consumer = consumer(options.reach)

  def consumer(settings: Map[String, String]): Consumer = {
    val deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    val kinds = Map("key.deserializer" -> deserializer, "value.deserializer" -> deserializer)
    loaded(new KafkaConsumer(properties(settings ++ kinds)))
  }

  /** Has those closed, now and then, that lie idle since before the moment that it gives (System.nanoTime). */
  def sweep(close: Long => Unit): Unit = {
    val work: Runnable = () => close(System.nanoTime - Idle.toNanos)
    sweeper.scheduleWithFixedDelay(work, Idle.toSeconds, Idle.toSeconds / 2, TimeUnit.SECONDS)
  }

  private val Idle = Duration.ofMinutes(1)
  private lazy val sweeper = Executors.newSingleThreadScheduledExecutor { work =>
    val thread = new Thread(work, "ottla-idle-clients")
    thread.setDaemon(true)
    thread
  }

  /** Kafka's clients look up classes by the thread's class loader, which need not be the one that has them. */
  private def loaded[A](make: => A): A = {
    val thread = Thread.currentThread
    val before = thread.getContextClassLoader
    thread.setContextClassLoader(classOf[KafkaProducer[_, _]].getClassLoader)
    try make
    finally thread.setContextClassLoader(before)
  }

  private def properties(settings: Map[String, String]): Properties = {
    val made = new Properties
    settings.foreach { case (name, value) => made.setProperty(name, value) }
    made
  }
}

/** A producer that the tasks of an executor share. `broken`: a task failed on it; the next one gets a new one. */
class SharedProducer(val producer: Clients.Producer) {
  @volatile var broken = false
  private[ottla] var users = 0
  private[ottla] var since = 0L // nobody uses it, in nanoseconds
}

object SharedProducers {
  private val open = mutable.Map[Map[String, String], SharedProducer]() // by their settings
  Clients.sweep(before => leave(one => one.users == 0 && one.since < before))

  def take(options: SinkOptions): SharedProducer = synchronized {
    val shared = open.get(options.producer).filterNot(_.broken).getOrElse(
      new SharedProducer(Clients.producer(options.producer - "transaction.timeout.ms")))
    open(options.producer) = shared
    shared.users += 1
    shared
  }

  def giveBack(options: SinkOptions, shared: SharedProducer): Unit = {
    val isLeft = synchronized {
      shared.users -= 1
      shared.since = System.nanoTime
      if (shared.broken && open.get(options.producer).contains(shared)) open.remove(options.producer)
      shared.broken && shared.users == 0
    }
    if (isLeft) shared.producer.close(Duration.ZERO)
  }

  private def leave(which: SharedProducer => Boolean): Unit = {
    val left = synchronized {
      val found = open.filter { case (_, shared) => which(shared) }
      open --= found.keys
      found.values.toList
    }
    left.foreach(_.producer.close(Duration.ZERO))
  }
}

/** A topic that is written to: known to be there before a record is sent, since a producer waits a minute for one that
  * is not, and then speaks of metadata. Asking for a topic makes it where brokers make topics of themselves.
  */
class OutputTopic(val name: String, options: SinkOptions) {
  private var partitions = Option(OutputTopic.known.get((options.bootstrap, name))).map(_.intValue).getOrElse(ask())

  def check(partition: Int): Unit = {
    if (partition >= partitions) partitions = ask() // it may have grown
    if (partition < 0 || partition >= partitions)
      throw new SinkFailure(s"a row asks for partition $partition of topic $name, which has $partitions partitions")
  }

  private def ask(): Int = {
    val consumer = Clients.consumer(options)
    try {
      val deadline = System.nanoTime + OutputTopic.Patience.toNanos
      var found = 0
      while (found == 0) {
        found = Option(consumer.partitionsFor(name, options.patience)).map(_.size).getOrElse(0)
        if (found == 0) {
          if (System.nanoTime > deadline) throw new SinkFailure(OutputTopic.missing(name, options))
          Thread.sleep(100)
        }
      }
      OutputTopic.known.put((options.bootstrap, name), found)
      found
    } catch { case error: Exception => throw SinkFailure.of(error, name, options) }
    finally consumer.close(Duration.ZERO)
  }
}

object OutputTopic {
  private val Patience = Duration.ofSeconds(3) // a topic made on asking is there a moment later
  private val known = new ConcurrentHashMap[(String, String), Integer] // partitions, by bootstrap and topic

  def missing(topic: String, options: SinkOptions) =
    s"there is no topic $topic at ${options.bootstrap}, and its brokers do not make it: create it"
}
