package ottla

import java.util.concurrent.ExecutionException

import org.apache.kafka.common.KafkaException
import org.apache.kafka.common.config.ConfigException
import org.apache.kafka.common.errors._

/** What went wrong in the sink, in one line for the person who runs the query. */
class SinkFailure(message: String, cause: Throwable = null) extends RuntimeException(message, cause)

object SinkFailure {

  /** `topic`: where the record was to go; null if it is about none. */
  def of(error: Throwable, topic: String, options: SinkOptions): SinkFailure = error match {
    case failure: SinkFailure => failure
    case wrapped: ExecutionException if wrapped.getCause != null => of(wrapped.getCause, topic, options)
    case _: KafkaException if error.getCause.isInstanceOf[ConfigException] =>
      new SinkFailure(s"the settings of the sink do not do: ${error.getCause.getMessage}", error)
    case _ => new SinkFailure(words(error, topic, options), error)
  }

  private def words(error: Throwable, topic: String, options: SinkOptions): String = {
    val said = Option(error.getMessage).getOrElse(error.toString)
    error match {
      case _: RecordTooLargeException | _: RecordBatchTooLargeException =>
        s"a record for topic $topic is too large ($said): raise kafka.max.request.size of the sink and " +
          s"max.message.bytes of the topic"
      case _: TopicAuthorizationException => s"not authorised to write to topic $topic"
      case _: TransactionalIdAuthorizationException =>
        s"not authorised to use transactional ids that begin with ${options.query}-"
      case _: GroupAuthorizationException => s"not authorised to use the group ${Markers.group(options.query)}"
      case _: ClusterAuthorizationException => s"not authorised by the cluster at ${options.bootstrap}: $said"
      case _: AuthenticationException => s"the brokers at ${options.bootstrap} do not let us in: $said"
      case _: UnknownTopicOrPartitionException | _: InvalidTopicException => OutputTopic.missing(topic, options)
      case _: InvalidTxnTimeoutException =>
        s"kafka.transaction.timeout.ms of ${options.producer("transaction.timeout.ms")} is more than the brokers " +
          "allow (transaction.max.timeout.ms)"
      case _: ProducerFencedException | _: InvalidProducerEpochException | _: FencedInstanceIdException =>
        s"another task or another run of the query ${options.query} has taken over, or a transaction took longer " +
          s"than kafka.transaction.timeout.ms=${options.producer("transaction.timeout.ms")}"
      case _: TimeoutException | _: DisconnectException | _: NetworkException =>
        s"the brokers at ${options.bootstrap} do not answer" + about(topic) + s": $said"
      case _ => s"the brokers at ${options.bootstrap} refused what was sent" + about(topic) + s": $said"
    }
  }

  private def about(topic: String) = if (topic == null) "" else s", writing to topic $topic"
}
