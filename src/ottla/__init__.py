"""ottla: a streaming platform that Kafka's clients take for Kafka."""

__version__ = "0.1.0"
