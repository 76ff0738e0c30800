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
    *
    * With the option `wake`, a query that goes on from its checkpoint begins with a batch even if nothing has come
    * ([[Woken]]): what its state has to say by then, timers that are due and windows that have closed, waits for no
    * record.
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
      new OrderedScan(kafka.newScanBuilder(options).build(), options.getBoolean("wake", false))
  }

  class OrderedScan(kafka: Scan, wake: Boolean) extends Scan {
    override def readSchema(): StructType = kafka.readSchema
    override def description(): String = kafka.description
    override def supportedCustomMetrics(): Array[CustomMetric] = kafka.supportedCustomMetrics
    override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
      new OrderedStream(
        kafka.toMicroBatchStream(checkpoint)
          .asInstanceOf[MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics],
        wake)
  }

  /** The same place, said in other words, so that Spark takes it for a new one and runs a batch of no records. */
  case class Woken(place: Offset) extends Offset {
    override def json(): String = place.json + Woken.Mark
  }

  object Woken {
    val Mark = " "

    def place(offset: Offset): Offset = offset match {
      case Woken(place) => place
      case place => place
    }
  }

  class OrderedStream(
      kafka: MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics,
      wake: Boolean)
      extends MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics {
    private var wakes = wake // unless the query has no checkpoint yet, or ends with what is there
    private var first: Option[Offset] = None // what the first batch of a query that goes on was told

    override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] =
      kafka.planInputPartitions(Woken.place(start), Woken.place(end)).sortBy(Ranges.place)

    override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
      val place = kafka.latestOffset(Woken.place(start), limit)
      if (first.isEmpty) first = Some(if (wakes && place == Woken.place(start)) other(start, place) else place)
      first.filter(Woken.place(_) == place).getOrElse(place)
    }

    private def other(start: Offset, place: Offset): Offset = start match {
      case Woken(_) => place
      case _ => Woken(place)
    }

    override def deserializeOffset(json: String): Offset =
      if (json.endsWith(Woken.Mark)) Woken(kafka.deserializeOffset(json.trim)) else kafka.deserializeOffset(json)

    override def initialOffset(): Offset = {
      wakes = false
      kafka.initialOffset()
    }

    override def prepareForTriggerAvailableNow(): Unit = {
      wakes = false
      kafka.prepareForTriggerAvailableNow()
    }

    override def createReaderFactory(): PartitionReaderFactory = kafka.createReaderFactory()
    override def latestOffset(): Offset = kafka.latestOffset()
    override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
    override def getDefaultReadLimit(): ReadLimit = kafka.getDefaultReadLimit()
    override def metrics(latest: ju.Optional[Offset]): ju.Map[String, String] =
      kafka.metrics(latest.map[Offset](Woken.place(_)))
    override def commit(end: Offset): Unit = kafka.commit(Woken.place(end))
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
