import java.io.FileReader;
import java.io.Reader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * The topologies of the bench in the Streams DSL, as its documentation writes them.
 *
 * <p>StreamsBench TOPOLOGY INPUT TABLE OUTPUT FILE.properties: runs until it is told to stop. Text in and out; counts are
 * longs.
 */
public final class StreamsBench {
    private static final Duration WINDOW = Duration.ofSeconds(1);
    private static final Duration GRACE = Duration.ofSeconds(10);

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        try (Reader file = new FileReader(arguments[4])) {
            settings.load(file);
        }
        StreamsBuilder builder = new StreamsBuilder();
        topology(builder, arguments[0], builder.stream(arguments[1]), arguments[2], arguments[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static void topology(
            StreamsBuilder builder, String name, KStream<String, String> input, String table, String output) {
        switch (name) {
            case "map":
                input.mapValues(value -> value.toUpperCase()).to(output);
                break;
            case "count":
                input.groupByKey().count().toStream().to(output, Produced.with(Serdes.String(), Serdes.Long()));
                break;
            case "window":
                input.groupByKey()
                        .windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE))
                        .count()
                        .toStream()
                        .to(output, Produced.with(
                                WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
                break;
            case "words":
                input.flatMapValues(line -> Arrays.asList(line.toLowerCase().split(" ")))
                        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                        .count()
                        .toStream()
                        .to(output, Produced.with(Serdes.String(), Serdes.Long()));
                break;
            case "join":
                KTable<String, String> users = builder.table(table);
                input.join(users, (value, user) -> value + " " + user).to(output);
                break;
            default:
                throw new IllegalArgumentException("no topology " + name);
        }
    }
}
