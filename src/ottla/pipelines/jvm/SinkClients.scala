package ottla

import java.time.Duration
import java.util.Properties
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

import org.apache.kafka.clients.admin.Admin
import org.apache.kafka.clients.consumer.KafkaConsumer
import org.apache.kafka.clients.producer.KafkaProducer

/** Clients are dear to make: each executor keeps them over tasks and batches. */
object Clients {
  type Producer = KafkaProducer[Array[Byte], Array[Byte]]
  type Consumer = KafkaConsumer[Array[Byte], Array[Byte]]

  private val admins = new ConcurrentHashMap[Map[String, String], Admin]

  def producer(settings: Map[String, String]): Producer = loaded(new KafkaProducer(properties(settings)))

  def admin(options: SinkOptions): Admin =
    admins.computeIfAbsent(options.reach, reach => loaded(Admin.create(properties(reach))))

  def consumer(options: SinkOptions): Consumer = consumer(options.reach)

  def consumer(settings: Map[String, String]): Consumer = {
    val deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    val kinds = Map("key.deserializer" -> deserializer, "value.deserializer" -> deserializer)
    loaded(new KafkaConsumer(properties(settings ++ kinds)))
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
}

object SharedProducers {
  private val open = mutable.Map[SinkOptions, SharedProducer]()

  def take(options: SinkOptions): SharedProducer = synchronized {
    val settings = options.producer - "transaction.timeout.ms"
    val known = open.get(options).filterNot(_.broken)
    val shared = known.getOrElse(new SharedProducer(Clients.producer(settings)))
    open(options) = shared
    shared.users += 1
    shared
  }

  def giveBack(options: SinkOptions, shared: SharedProducer): Unit = {
    val unused = synchronized {
      shared.users -= 1
      if (shared.broken && open.get(options).contains(shared)) open.remove(options)
      shared.broken && shared.users == 0
    }
    if (unused) shared.producer.close(Duration.ZERO)
  }
}

/** The topics that are written to: known to be there before a record is sent, since a producer waits a minute for one
  * that is not, and then speaks of metadata. Asking for a topic makes it where brokers make topics of themselves.
  */
object OutputTopics {
  private val Patience = Duration.ofSeconds(5) // a topic made on asking is there a moment later
  private val partitions = new ConcurrentHashMap[(String, String), Integer]

  def check(topic: String, partition: Int, options: SinkOptions): Unit = {
    val known = partitions.get((options.bootstrap, topic))
    if (known == null || partition >= known) {
      val count = ask(topic, options)
      partitions.put((options.bootstrap, topic), count)
      if (partition < 0 || partition >= count)
        throw new SinkFailure(s"a row asks for partition $partition of topic $topic, which has $count partitions")
    }
  }

  def missing(topic: String, options: SinkOptions) =
    s"there is no topic $topic at ${options.bootstrap}, and its brokers do not make it: create it"

  private def ask(topic: String, options: SinkOptions): Int = {
    val consumer = Clients.consumer(options)
    try {
      val deadline = System.nanoTime + Patience.toNanos
      var found = 0
      while (found == 0) {
        val told = consumer.partitionsFor(topic, Duration.ofSeconds(20))
        found = if (told == null) 0 else told.size
        if (found == 0) {
          if (System.nanoTime > deadline) throw new SinkFailure(missing(topic, options))
          Thread.sleep(100)
        }
      }
      found
    } catch { case error: Exception => throw SinkFailure.of(error, topic, options) }
    finally consumer.close(Duration.ZERO)
  }
}
