// Every administrative request, made by Kafka's own AdminClient. Prints one JSON line for each call: what came back, or
// the name and the message of the exception. Each call stands by itself; what one prepares for another is said.
//
//     java -cp "jars/*" AdminScenario.java BOOTSTRAP

import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class AdminScenario {
    static final ObjectMapper JSON = new ObjectMapper();
    static final TopicPartition FIRST = new TopicPartition("scenario", 0);
    static Admin admin;
    static String bootstrap;
    static int node;

    interface Call {
        Object run() throws Exception;
    }

    /** Prints what a call gives. */
    static void call(String name, Call call) throws Exception {
        Map<String, Object> line = new TreeMap<>();
        line.put("call", name);
        try {
            line.put("result", call.run());
        } catch (Throwable thrown) {
            Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
            line.put("error", cause.getClass().getSimpleName());
            line.put("message", String.valueOf(cause.getMessage()));
        }
        System.out.println(JSON.writeValueAsString(line));
    }

    static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(60, TimeUnit.SECONDS);
    }

    /** Each future's own end: "ok", or the exception's name. */
    static <K> Map<String, String> ends(Map<K, ? extends KafkaFuture<?>> futures) throws Exception {
        Map<String, String> ends = new TreeMap<>();
        for (Map.Entry<K, ? extends KafkaFuture<?>> one : futures.entrySet()) {
            try {
                of(one.getValue());
                ends.put(one.getKey().toString(), "ok");
            } catch (ExecutionException failed) {
                ends.put(one.getKey().toString(), failed.getCause().getClass().getSimpleName());
            }
        }
        return ends;
    }

    static Map<String, Object> config(ConfigResource resource, String key, boolean synonyms) throws Exception {
        DescribeConfigsOptions options =
            new DescribeConfigsOptions().includeSynonyms(synonyms).includeDocumentation(synonyms);
        ConfigEntry entry = of(admin.describeConfigs(List.of(resource), options).all()).get(resource).get(key);
        if (entry == null) {
            return null;
        }
        Map<String, Object> shown = new TreeMap<>();
        shown.put("value", entry.value());
        shown.put("source", entry.source().toString());
        shown.put("type", entry.type().toString());
        shown.put("readOnly", entry.isReadOnly());
        shown.put("sensitive", entry.isSensitive());
        if (synonyms) {
            shown.put("documentation", entry.documentation());
            shown.put("synonyms", entry.synonyms().stream()
                .map(one -> one.name() + "=" + one.value() + " " + one.source()).collect(Collectors.toList()));
        }
        return shown;
    }

    static void alter(ConfigResource resource, AlterConfigOp.OpType operation, String key, String value)
        throws Exception {
        Collection<AlterConfigOp> operations = List.of(new AlterConfigOp(new ConfigEntry(key, value), operation));
        of(admin.incrementalAlterConfigs(Map.of(resource, operations)).all());
    }

    static Object setAndDelete(ConfigResource resource, String key, String value) throws Exception {
        Map<String, Object> seen = new TreeMap<>();
        alter(resource, AlterConfigOp.OpType.SET, key, value);
        seen.put("set", config(resource, key, false));
        alter(resource, AlterConfigOp.OpType.DELETE, key, "");
        seen.put("deleted", config(resource, key, false));
        return seen;
    }

    static Map<String, Object> offset(OffsetSpec spec) throws Exception {
        ListOffsetsResult.ListOffsetsResultInfo found = of(admin.listOffsets(Map.of(FIRST, spec)).partitionResult(FIRST));
        return Map.of("offset", found.offset(), "timestamp", found.timestamp());
    }

    static Map<String, Object> replicaDirs() throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica("scenario", 0, node);
        DescribeReplicaLogDirsResult.ReplicaLogDirInfo info =
            of(admin.describeReplicaLogDirs(List.of(replica)).all()).get(replica);
        Map<String, Object> shown = new TreeMap<>();
        shown.put("current", info.getCurrentReplicaLogDir());
        shown.put("future", info.getFutureReplicaLogDir());
        return shown;
    }

    static String otherDirectory() throws Exception {
        String current = (String) replicaDirs().get("current");
        return of(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node).keySet().stream()
            .filter(path -> !path.equals(current)).findFirst().get();
    }

    static Object moveToOtherDirectory() throws Exception {
        String target = otherDirectory();
        TopicPartitionReplica replica = new TopicPartitionReplica("scenario", 0, node);
        of(admin.alterReplicaLogDirs(Map.of(replica, target)).all());
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (!target.equals(replicaDirs().get("current"))) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("not moved: " + replicaDirs());
            }
        }
        return Map.of("moved", true, "latest", offset(OffsetSpec.latest()));
    }

    static Map<String, Object> features() throws Exception {
        FeatureMetadata metadata = of(admin.describeFeatures().featureMetadata());
        Map<String, Object> shown = new TreeMap<>();
        metadata.supportedFeatures().forEach((name, range) ->
            shown.put(name, List.of(range.minVersion(), range.maxVersion(),
                Optional.ofNullable(metadata.finalizedFeatures().get(name)).map(one -> one.maxVersionLevel()).orElse((short) 0))));
        return shown;
    }

    static Object updateFeature(String name, int level, FeatureUpdate.UpgradeType type, boolean validateOnly)
        throws Exception {
        Map<String, FeatureUpdate> updates = Map.of(name, new FeatureUpdate((short) level, type));
        of(admin.updateFeatures(updates, new UpdateFeaturesOptions().validateOnly(validateOnly)).all());
        return features().get(name);
    }

    static Object reassign(TopicPartition partition, List<Integer> replicas) throws Exception {
        Optional<NewPartitionReassignment> to = Optional.ofNullable(replicas).map(NewPartitionReassignment::new);
        of(admin.alterPartitionReassignments(Map.of(partition, to)).all());
        return of(admin.listPartitionReassignments().reassignments()).size();
    }

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        admin = Admin.create(Map.of(
            "bootstrap.servers", bootstrap, "client.id", "java-admin", "enable.metrics.push", true));
        topics();
        records();
        configs();
        directories();
        leaders();
        cluster();
        clientMetrics();
        removal();
        admin.close(Duration.ofSeconds(30));
    }

    static void topics() throws Exception {
        node = of(admin.describeCluster().nodes()).iterator().next().id();
        call("createTopics", () -> {
            CreateTopicsResult made = admin.createTopics(List.of(
                new NewTopic("scenario", 3, (short) 1).configs(Map.of("retention.ms", "9000000000000"))));
            return Map.of(
                "partitions", of(made.numPartitions("scenario")),
                "factor", of(made.replicationFactor("scenario")),
                "retention", of(made.config("scenario")).get("retention.ms").value(),
                "id", of(made.topicId("scenario")).toString());
        });
        call("createTopics defaults", () -> of(admin.createTopics(List.of(
            new NewTopic("of-defaults", Optional.empty(), Optional.empty()))).numPartitions("of-defaults")));
        call("createTopics validateOnly", () -> {
            of(admin.createTopics(List.of(new NewTopic("never-made", 2, (short) 1)),
                new CreateTopicsOptions().validateOnly(true)).all());
            return of(admin.listTopics().names()).contains("never-made");
        });
        call("createTopics placement", () -> {
            of(admin.createTopics(List.of(new NewTopic("placed", Map.of(0, List.of(node), 1, List.of(node))))).all());
            return of(admin.describeTopics(List.of("placed")).allTopicNames()).get("placed").partitions().size();
        });
        call("createTopics mixed", () -> ends(admin.createTopics(List.of(
            new NewTopic("mixed-good", 1, (short) 1),
            new NewTopic("bad name!", 1, (short) 1),
            new NewTopic("scenario", 1, (short) 1),
            new NewTopic("too-many-replicas", 1, (short) 7),
            new NewTopic("no-partitions", 0, (short) 1),
            new NewTopic("unknown-broker", Map.of(0, List.of(77))),
            new NewTopic("bad-config", 1, (short) 1).configs(Map.of("retention.ms", "soon")))).values()));
        call("describeTopics", () -> {
            TopicDescription found = of(admin.describeTopics(List.of("scenario")).allTopicNames()).get("scenario");
            TopicPartitionInfo first = found.partitions().get(0);
            Uuid id = of(admin.describeTopics(TopicCollection.ofTopicIds(List.of(found.topicId()))).allTopicIds())
                .keySet().iterator().next();
            return Map.of("internal", found.isInternal(), "leader", first.leader().id(), "isr", first.isr().size(),
                "sameId", id.equals(found.topicId()));
        });
        call("describeTopics unknown", () -> of(admin.describeTopics(List.of("nowhere")).allTopicNames()));
        call("createPartitions validateOnly", () -> {
            of(admin.createPartitions(Map.of("scenario", NewPartitions.increaseTo(9)),
                new CreatePartitionsOptions().validateOnly(true)).all());
            return of(admin.describeTopics(List.of("scenario")).allTopicNames()).get("scenario").partitions().size();
        });
        call("createPartitions", () -> {
            of(admin.createPartitions(Map.of("scenario", NewPartitions.increaseTo(4, List.of(List.of(node))))).all());
            return of(admin.describeTopics(List.of("scenario")).allTopicNames()).get("scenario").partitions().size();
        });
        call("createPartitions mixed", () -> ends(admin.createPartitions(Map.of(
            "scenario", NewPartitions.increaseTo(2),
            "placed", NewPartitions.increaseTo(3),
            "nowhere", NewPartitions.increaseTo(2))).values()));
    }

    static void records() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "client.id", "java-producer",
            "enable.idempotence", true, "linger.ms", 0);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int at = 0; at < 10; at++) {
                producer.send(new ProducerRecord<>("scenario", 0, 1_700_000_000_000L + at, "key", "value " + at)).get();
            }
            call("describeProducers", () -> {
                ProducerState state = of(admin.describeProducers(List.of(FIRST)).partitionResult(FIRST))
                    .activeProducers().get(0);
                return Map.of("epoch", state.producerEpoch(), "sequence", state.lastSequence(),
                    "timestamp", state.lastTimestamp(), "inTransaction", state.currentTransactionStartOffset().isPresent());
            });
        }
        call("listOffsets earliest", () -> offset(OffsetSpec.earliest()));
        call("listOffsets latest", () -> offset(OffsetSpec.latest()));
        call("listOffsets maxTimestamp", () -> offset(OffsetSpec.maxTimestamp()));
        call("listOffsets forTimestamp", () -> offset(OffsetSpec.forTimestamp(1_700_000_000_004L)));
        call("listOffsets earliestLocal", () -> offset(OffsetSpec.earliestLocal()));
        call("listOffsets latestTiered", () -> offset(OffsetSpec.latestTiered()));
        call("deleteRecords", () -> {
            long low = of(admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(FIRST))
                .lowWatermark();
            return Map.of("low", low, "earliest", offset(OffsetSpec.earliest()).get("offset"));
        });
        call("deleteRecords beyond", () ->
            of(admin.deleteRecords(Map.of(FIRST, RecordsToDelete.beforeOffset(99))).all()));
    }

    static void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "scenario");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "" + node);
        ConfigResource all = new ConfigResource(ConfigResource.Type.BROKER, "");
        ConfigResource logger = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "" + node);
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java-subscription");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "java-group");
        call("describeConfigs topic", () -> config(topic, "retention.ms", true));
        call("describeConfigs topic default", () -> config(topic, "segment.bytes", true));
        call("describeConfigs broker", () -> config(broker, "num.partitions", true));
        call("describeConfigs unknown topic", () ->
            config(new ConfigResource(ConfigResource.Type.TOPIC, "nowhere"), "retention.ms", false));
        call("alterConfigs topic", () -> setAndDelete(topic, "max.message.bytes", "2000000"));
        call("alterConfigs topic list", () -> {
            alter(topic, AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact");
            Object appended = config(topic, "cleanup.policy", false).get("value");
            alter(topic, AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "delete");
            Object subtracted = config(topic, "cleanup.policy", false).get("value");
            alter(topic, AlterConfigOp.OpType.DELETE, "cleanup.policy", "");
            return List.of(appended, subtracted, config(topic, "cleanup.policy", false).get("value"));
        });
        call("alterConfigs topic bad", () -> {
            alter(topic, AlterConfigOp.OpType.SET, "retention.ms", "soon");
            return "taken";
        });
        call("alterConfigs topic validateOnly", () -> {
            of(admin.incrementalAlterConfigs(
                Map.of(topic, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1"), AlterConfigOp.OpType.SET))),
                new AlterConfigsOptions().validateOnly(true)).all());
            return config(topic, "retention.ms", false).get("value");
        });
        call("alterConfigs broker", () -> setAndDelete(broker, "log.cleaner.threads", "2"));
        call("alterConfigs cluster default", () -> {
            alter(all, AlterConfigOp.OpType.SET, "log.retention.ms", "7200000");
            Map<String, Object> seen = new TreeMap<>();
            seen.put("ofAll", config(all, "log.retention.ms", false));
            seen.put("ofBroker", config(broker, "log.retention.ms", false));
            seen.put("ofTopic", config(new ConfigResource(ConfigResource.Type.TOPIC, "placed"), "retention.ms", true));
            alter(all, AlterConfigOp.OpType.DELETE, "log.retention.ms", "");
            seen.put("afterwards", config(broker, "log.retention.ms", false).get("source"));
            return seen;
        });
        call("alterConfigs broker read-only", () -> {
            alter(broker, AlterConfigOp.OpType.SET, "log.dirs", "/elsewhere");
            return "taken";
        });
        call("alterConfigs logger", () -> {
            String name = of(admin.describeConfigs(List.of(logger)).all()).get(logger).entries().stream()
                .map(ConfigEntry::name).filter(one -> one.contains("ontroller")).findFirst().get();
            return setAndDelete(logger, name, "DEBUG");
        });
        call("alterConfigs logger bad", () -> {
            alter(logger, AlterConfigOp.OpType.SET, "root", "LOUD");
            return "taken";
        });
        call("alterConfigs client metrics", () -> {
            alter(metrics, AlterConfigOp.OpType.SET, "interval.ms", "100");
            alter(metrics, AlterConfigOp.OpType.SET, "metrics", "*");
            alter(metrics, AlterConfigOp.OpType.SET, "match", "client_id=java-metrics.*");
            return config(metrics, "interval.ms", false);
        });
        call("alterConfigs group", () -> setAndDelete(group, "consumer.session.timeout.ms", "50000"));
        call("alterConfigs mixed", () -> ends(admin.incrementalAlterConfigs(Map.of(
            topic, List.of(new AlterConfigOp(new ConfigEntry("no.such.key", "1"), AlterConfigOp.OpType.SET)),
            new ConfigResource(ConfigResource.Type.TOPIC, "placed"),
            List.of(new AlterConfigOp(new ConfigEntry("flush.ms", "1000"), AlterConfigOp.OpType.SET)))).values()));
        call("listConfigResources", () -> of(admin.listConfigResources(
            Set.of(ConfigResource.Type.CLIENT_METRICS, ConfigResource.Type.TOPIC, ConfigResource.Type.BROKER),
            new ListConfigResourcesOptions()).all()).stream()
            .map(one -> one.type() + " " + one.name()).sorted().collect(Collectors.toList()));
        call("listConfigResources all", () -> of(admin.listConfigResources().all()).size() > 5);
    }

    static void directories() throws Exception {
        call("describeLogDirs", () -> {
            Map<String, LogDirDescription> found = of(admin.describeLogDirs(List.of(node)).allDescriptions()).get(node);
            long replicas = found.values().stream().mapToLong(one -> one.replicaInfos().keySet().stream()
                .filter(partition -> partition.topic().equals("scenario")).count()).sum();
            boolean sized = found.values().stream().allMatch(one ->
                one.error() == null && one.totalBytes().orElse(-1) > 0 && one.usableBytes().orElse(-1) >= 0);
            return Map.of("directories", found.size(), "replicas", replicas, "sized", sized);
        });
        call("describeReplicaLogDirs", () -> {
            Map<String, Object> dirs = replicaDirs();
            return Map.of("known", dirs.get("current") != null, "moving", dirs.get("future") != null);
        });
        call("alterReplicaLogDirs", AdminScenario::moveToOtherDirectory);
        call("alterReplicaLogDirs unknown directory", () -> of(admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica("scenario", 0, node), "/no/such/directory")).all()));
    }

    static void leaders() throws Exception {
        call("electLeaders", () -> of(admin.electLeaders(ElectionType.PREFERRED, null).partitions()).size());
        call("electLeaders not needed", () -> of(admin.electLeaders(ElectionType.PREFERRED, Set.of(FIRST)).partitions())
            .get(FIRST).get().getClass().getSimpleName());
        call("electLeaders unclean not needed", () ->
            of(admin.electLeaders(ElectionType.UNCLEAN, Set.of(FIRST)).partitions()).get(FIRST).get().getClass()
                .getSimpleName());
        call("electLeaders unknown", () -> {
            TopicPartition unknown = new TopicPartition("nowhere", 0);
            return of(admin.electLeaders(ElectionType.PREFERRED, Set.of(unknown)).partitions()).get(unknown).get()
                .getClass().getSimpleName();
        });
        call("reassign to itself", () -> reassign(FIRST, List.of(node)));
        call("reassign to an unknown broker", () -> reassign(FIRST, List.of(77)));
        call("reassign to nobody", () -> reassign(FIRST, List.of()));
        call("reassign twice to one", () -> reassign(FIRST, List.of(node, node)));
        call("cancel no reassignment", () -> reassign(FIRST, null));
        call("reassign an unknown partition", () -> reassign(new TopicPartition("nowhere", 0), List.of(node)));
        call("listPartitionReassignments", () -> of(admin.listPartitionReassignments(Set.of(FIRST)).reassignments()).size());
    }

    static void cluster() throws Exception {
        call("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster();
            return Map.of("nodes", of(found.nodes()).size(), "controller", of(found.controller()).id() == node,
                "idLength", of(found.clusterId()).length());
        });
        call("describeFeatures", AdminScenario::features);
        call("updateFeatures validateOnly", () ->
            updateFeature("group.version", 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE, true));
        call("updateFeatures", () -> updateFeature("group.version", 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE, false));
        call("updateFeatures too high", () -> updateFeature("group.version", 9, FeatureUpdate.UpgradeType.UPGRADE, false));
        call("updateFeatures unknown", () -> updateFeature("no.such", 1, FeatureUpdate.UpgradeType.UPGRADE, false));
    }

    static void clientMetrics() throws Exception {
        call("clientInstanceId", () -> {
            // one that connects now that there is a subscription
            try (Admin later = Admin.create(Map.of("bootstrap.servers", bootstrap, "enable.metrics.push", true))) {
                of(later.describeCluster().clusterId());
                return later.clientInstanceId(Duration.ofSeconds(30)).toString();
            }
        });
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "client.id", "java-metrics", "linger.ms", 0);
        KafkaProducer<String, String> producer =
            new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        call("producer clientInstanceId", () -> {
            for (int at = 0; at < 5; at++) {
                producer.send(new ProducerRecord<>("placed", 0, "key", "value " + at)).get();
            }
            return producer.clientInstanceId(Duration.ofSeconds(30)).toString();
        });
        Map<String, Object> reading = Map.of("bootstrap.servers", bootstrap, "client.id", "java-metrics-consumer");
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        call("consumer clientInstanceId", () -> {
            consumer.assign(List.of(new TopicPartition("placed", 0)));
            consumer.seekToBeginning(consumer.assignment());
            int read = 0;
            for (long deadline = System.nanoTime() + 60_000_000_000L; read < 5 && System.nanoTime() < deadline; ) {
                read += consumer.poll(Duration.ofMillis(100)).count();
            }
            return List.of(read, consumer.clientInstanceId(Duration.ofSeconds(30)).toString());
        });
        consumer.close(CloseOptions());
        producer.close(Duration.ofSeconds(30)); // with a last push
    }

    static org.apache.kafka.clients.consumer.CloseOptions CloseOptions() {
        return org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(30));
    }

    static void removal() throws Exception {
        call("deleteTopics", () -> {
            Uuid id = of(admin.describeTopics(List.of("placed")).allTopicNames()).get("placed").topicId();
            of(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
            of(admin.deleteTopics(List.of("mixed-good")).all());
            List<String> left = new ArrayList<>(of(admin.listTopics().names()));
            return left.stream().filter(one -> one.equals("placed") || one.equals("mixed-good")).count();
        });
        call("deleteTopics unknown", () -> of(admin.deleteTopics(List.of("nowhere")).all()));
    }
}
