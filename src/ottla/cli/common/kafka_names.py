"""The names by which Kafka's users know the commands: Kafka's scripts, and the classes behind them.

Each script is installed with and without `.sh` (`kafka-topics`, `kafka-topics.sh`), and stands in `bin/` of the
repository; classes are what the texts give to `kafka-run-class.sh`.
"""

from __future__ import annotations

SCRIPTS = {
    "kafka-broker-api-versions": "broker-api-versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console-consumer",
    "kafka-console-producer": "console-producer",
    "kafka-consumer-groups": "consumer-groups",
    "kafka-consumer-perf-test": "consumer-perf-test",
    "kafka-delete-records": "delete-records",
    "kafka-dump-log": "dump-log",
    "kafka-e2e-latency": "e2e-latency",
    "kafka-features": "features",
    "kafka-get-offsets": "get-offsets",
    "kafka-leader-election": "leader-election",
    "kafka-log-dirs": "log-dirs",
    "kafka-performance-producer": "producer-perf-test",  # a text's name for it (A2 MM-031)
    "kafka-preferred-replica-election": "preferred-replica-election",
    "kafka-producer-perf-test": "producer-perf-test",
    "kafka-reassign-partitions": "reassign-partitions",
    "kafka-replica-validation": "replica-verification",
    "kafka-replica-verification": "replica-verification",
    "kafka-run-class": "run-class",
    "kafka-server-start": "server-start",
    "kafka-server-stop": "server-stop",
    "kafka-topics": "topics",
    "kafka-verifiable-consumer": "verifiable-consumer",
    "kafka-verifiable-producer": "verifiable-producer",
}

CLASSES = {
    "kafka.Kafka": "server-start",
    "kafka.admin.BrokerApiVersionsCommand": "broker-api-versions",
    "kafka.admin.ConfigCommand": "configs",
    "kafka.admin.ConsumerGroupCommand": "consumer-groups",
    "kafka.admin.DeleteRecordsCommand": "delete-records",
    "kafka.admin.LeaderElectionCommand": "leader-election",
    "kafka.admin.LogDirsCommand": "log-dirs",
    "kafka.admin.PreferredReplicaLeaderElectionCommand": "preferred-replica-election",
    "kafka.admin.ReassignPartitionsCommand": "reassign-partitions",
    "kafka.admin.TopicCommand": "topics",
    "kafka.tools.ConsoleConsumer": "console-consumer",
    "kafka.tools.ConsoleProducer": "console-producer",
    "kafka.tools.ConsumerOffsetChecker": "consumer-groups",
    "kafka.tools.ConsumerPerformance": "consumer-perf-test",
    "kafka.tools.DumpLogSegments": "dump-log",
    "kafka.tools.EndToEndLatency": "e2e-latency",
    "kafka.tools.ExportZkOffsets": "export-offsets",
    "kafka.tools.GetOffsetShell": "get-offsets",
    "kafka.tools.ImportZkOffsets": "import-offsets",
    "kafka.tools.ProducerPerformance": "producer-perf-test",
    "kafka.tools.ReplicaVerificationTool": "replica-verification",
    "org.apache.kafka.tools.BrokerApiVersionsCommand": "broker-api-versions",
    "org.apache.kafka.tools.ClusterTool": "cluster",
    "org.apache.kafka.tools.ConfigCommand": "configs",
    "org.apache.kafka.tools.ConsumerPerformance": "consumer-perf-test",
    "org.apache.kafka.tools.DeleteRecordsCommand": "delete-records",
    "org.apache.kafka.tools.DumpLogSegments": "dump-log",
    "org.apache.kafka.tools.EndToEndLatency": "e2e-latency",
    "org.apache.kafka.tools.FeatureCommand": "features",
    "org.apache.kafka.tools.GetOffsetShell": "get-offsets",
    "org.apache.kafka.tools.LeaderElectionCommand": "leader-election",
    "org.apache.kafka.tools.LogDirsCommand": "log-dirs",
    "org.apache.kafka.tools.ProducerPerformance": "producer-perf-test",
    "org.apache.kafka.tools.ReplicaVerificationTool": "replica-verification",
    "org.apache.kafka.tools.TopicCommand": "topics",
    "org.apache.kafka.tools.VerifiableConsumer": "verifiable-consumer",
    "org.apache.kafka.tools.VerifiableProducer": "verifiable-producer",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "console-consumer",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "consumer-groups",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommand": "reassign-partitions",
}

# Classes that texts call and that nothing answers to: what serves the need instead
REPLACED = {
    "kafka.tools.JmxTool": "there is no JMX; the broker gives its metrics to Prometheus (metrics.listener)",
    "kafka.tools.MirrorMaker": "mirroring is not there yet",
    "kafka.tools.ReplayLogProducer": "pipe console-consumer --topic A --from-beginning into console-producer --topic B",
    "kafka.tools.SimpleConsumerShell": "use console-consumer --topic TOPIC --partition NUMBER --offset OFFSET",
    "kafka.tools.StateChangeLogMerger": "there is no log of state changes; the broker's log tells them",
    "kafka.tools.StorageTool": "a data directory needs no formatting; a broker sets it up when it starts",
    "kafka.tools.VerifyConsumerRebalance": "consumer-groups --describe --members --verbose shows the assignment",
    "kafka.admin.ZkSecurityMigrator": "one node keeps its metadata in a file of its own, not in ZooKeeper",
    "org.apache.kafka.tools.JmxTool": "there is no JMX; the broker gives its metrics to Prometheus (metrics.listener)",
    "org.apache.kafka.tools.StreamsResetter": "Streams are not there yet",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": "ottla brings no ZooKeeper, and one broker needs none",
}
