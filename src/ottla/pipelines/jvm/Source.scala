package ottla {
  import java.{util => ju}

  import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
  import org.apache.spark.sql.classic.Dataset
  import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
  import org.apache.spark.sql.connector.metric.CustomMetric
  import org.apache.spark.sql.connector.read._
  import org.apache.spark.sql.connector.read.streaming._
  import org.apache.spark.sql.internal.connector.SimpleTableProvider
  import org.apache.spark.sql.kafka010.Ranges
  import org.apache.spark.sql.types.StructType
  import org.apache.spark.sql.util.CaseInsensitiveStringMap

  /** Spark's Kafka source, for exactly once: `readStream.format("ottla.Source")`, with the options of `kafka`.
    *
    * Spark's own gives the partitions of a batch to its tasks in the order of a hash map; for up to four partitions it
    * is another one when the batch is run again from the checkpoint. Here they come in the order of topic, partition
    * and offset, so that a batch that is run again has the same rows in the same tasks.
    */
  class Source extends SimpleTableProvider {
    override def getTable(options: CaseInsensitiveStringMap): Table = {
      val kafka = Class.forName("org.apache.spark.sql.kafka010.KafkaSourceProvider", true, getClass.getClassLoader)
      new OrderedTable(
        kafka.getConstructor().newInstance().asInstanceOf[SimpleTableProvider].getTable(options)
          .asInstanceOf[Table with SupportsRead])
    }
  }

  object Source {

    /** Whether the frame reads topics by Spark's own source. */
    def isUnordered(frame: Dataset[_]): Boolean = frame.queryExecution.analyzed.exists {
      case relation: StreamingRelationV2 => relation.sourceName == "kafka"
      case _ => false
    }
  }

  class OrderedTable(kafka: Table with SupportsRead) extends Table with SupportsRead {
    override def name(): String = kafka.name
    override def schema(): StructType = kafka.schema
    override def capabilities(): ju.Set[TableCapability] = ju.EnumSet.of(TableCapability.MICRO_BATCH_READ)
    override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () =>
      new OrderedScan(kafka.newScanBuilder(options).build())
  }

  class OrderedScan(kafka: Scan) extends Scan {
    override def readSchema(): StructType = kafka.readSchema
    override def description(): String = kafka.description
    override def supportedCustomMetrics(): Array[CustomMetric] = kafka.supportedCustomMetrics
    override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
      new OrderedStream(
        kafka.toMicroBatchStream(checkpoint)
          .asInstanceOf[MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics])
  }

  class OrderedStream(kafka: MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics)
      extends MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics {
    override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
      kafka.planInputPartitions(start, end).sortBy(Ranges.place)

    override def createReaderFactory(): PartitionReaderFactory = kafka.createReaderFactory()
    override def initialOffset(): Offset = kafka.initialOffset()
    override def latestOffset(): Offset = kafka.latestOffset()
    override def latestOffset(start: Offset, limit: ReadLimit): Offset = kafka.latestOffset(start, limit)
    override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
    override def getDefaultReadLimit(): ReadLimit = kafka.getDefaultReadLimit()
    override def prepareForTriggerAvailableNow(): Unit = kafka.prepareForTriggerAvailableNow()
    override def metrics(latest: ju.Optional[Offset]): ju.Map[String, String] = kafka.metrics(latest)
    override def deserializeOffset(json: String): Offset = kafka.deserializeOffset(json)
    override def commit(end: Offset): Unit = kafka.commit(end)
    override def stop(): Unit = kafka.stop()
    override def toString: String = kafka.toString
  }
}

package org.apache.spark.sql.kafka010 {
  import org.apache.spark.sql.connector.read.InputPartition

  /** What only the connector's own package may see. */
  object Ranges {
    def place(partition: InputPartition): (String, Int, Long) = {
      val range = partition.asInstanceOf[KafkaBatchInputPartition].offsetRange
      (range.topicPartition.topic, range.topicPartition.partition, range.fromOffset)
    }
  }
}
