package ottla

import java.util.concurrent.ExecutionException

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{ListConsumerGroupOffsetsOptions, ListConsumerGroupOffsetsSpec}
import org.apache.kafka.clients.admin.{NewPartitions, NewTopic}
import org.apache.kafka.clients.consumer.OffsetAndMetadata
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors._

/** Says that a task has written a batch of the query whose checkpoint has this id. */
case class Marker(id: String, batch: Long) {
  def offset: OffsetAndMetadata = new OffsetAndMetadata(0, s"batch $batch of query $id")
}

object Marker {
  private val Text = "batch (\\d+) of query (\\S+)".r

  def of(offset: OffsetAndMetadata): Option[Marker] = Option(offset).map(_.metadata).collect {
    case Text(batch, id) => Marker(id, batch.toLong)
  }
}

/** The markers of a query: offsets of the group `query-exactly-once`, of partition n for task n, in a topic that all
  * queries share and that stays empty. All offsets are 0, so that the group has no lag, and the marker is in the
  * offset's metadata. A checkpoint begun anew under an old name has an id of its own, and so no markers.
  *
  * Brokers drop offsets that are not renewed for offsets.retention.minutes: a query that died amid a batch and is
  * started again later than that writes the batch's finished tasks again.
  */
class Markers(options: SinkOptions) {
  private val admin = Clients.admin(options)

  /** Sees to it that there is a partition for each task; how many there are. */
  def provide(tasks: Int): Int = answer {
    val there = count()
    if (there == 0) attempt {
      admin.createTopics(java.util.List.of(new NewTopic(Markers.Topic, Math.max(tasks, 8), -1.toShort))).all.get
    }
    else if (there < tasks) attempt {
      admin.createPartitions(java.util.Map.of(Markers.Topic, NewPartitions.increaseTo(tasks))).all.get
    }
    Math.max(there, tasks)
  }

  /** The last batch of this checkpoint that each task has written. What is not yet settled is not among them. */
  def all(id: String): Map[Int, Long] = answer {
    admin.listConsumerGroupOffsets(Markers.group(options.query)).partitionsToOffsetAndMetadata.get.asScala.flatMap {
      case (place, offset) => Marker.of(offset).filter(_.id == id).map(place.partition -> _.batch)
    }.toMap
  }

  /** The marker of a task, settled. */
  def of(task: Int): Option[Marker] = answer {
    val place = Markers.place(task)
    val group = Markers.group(options.query)
    val asked = new ListConsumerGroupOffsetsSpec().topicPartitions(java.util.List.of(place))
    val settled = new ListConsumerGroupOffsetsOptions().requireStable(true)
    val told = admin.listConsumerGroupOffsets(java.util.Map.of(group, asked), settled)
    Marker.of(told.partitionsToOffsetAndMetadata(group).get.get(place))
  }

  private def count(): Int =
    try admin.describeTopics(java.util.List.of(Markers.Topic)).allTopicNames.get.get(Markers.Topic).partitions.size
    catch { case error: ExecutionException if error.getCause.isInstanceOf[UnknownTopicOrPartitionException] => 0 }

  /** Somebody else may have done it meanwhile. */
  private def attempt(create: => Any): Unit =
    try create
    catch {
      case error: ExecutionException
          if error.getCause.isInstanceOf[TopicExistsException] ||
            error.getCause.isInstanceOf[InvalidPartitionsException] =>
    }

  private def answer[A](ask: => A): A =
    try ask
    catch {
      case error: ExecutionException =>
        throw (error.getCause match {
          case _: TopicAuthorizationException =>
            new SinkFailure(s"not authorised to create or describe topic ${Markers.Topic}, which exactly_once needs")
          case cause => SinkFailure.of(cause, null, options)
        })
    }
}

object Markers {
  val Topic = "__ottla_markers"

  def group(query: String): String = s"$query-exactly-once"
  def place(task: Int): TopicPartition = new TopicPartition(Topic, task)
}
