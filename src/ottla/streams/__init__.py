"""The Streams DSL on Spark: what Kafka Streams is to Java, for Python."""
