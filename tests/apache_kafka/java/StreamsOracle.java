// What Kafka Streams itself makes of records: its test driver runs one operator after another.
//
// Lines in:  run OPERATOR ARGUMENT...          a new application
//            left|right TAB key TAB value TAB timestamp
// Lines out: number of the run TAB key TAB value TAB timestamp
// \\N is null. A joined value is LEFT+RIGHT. A window has the key KEY@START-END and as value those of its records, sorted,
// with commas between.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.test.TestRecord;

public class StreamsOracle {
    static final PrintStream out = new PrintStream(System.out, true);

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        TopologyTestDriver driver = null;
        Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
        TestOutputTopic<String, String> output = null;
        int run = -1;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("run ")) {
                if (driver != null) driver.close();
                run++;
                driver = driver(line.split(" "));
                inputs.clear();
                for (String side : new String[] {"left", "right"})
                    inputs.put(side, driver.createInputTopic(side, new StringSerializer(), new StringSerializer()));
                output = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
            } else {
                String[] cells = line.split("\t");
                inputs.get(cells[0]).pipeInput(cell(cells[1]), cell(cells[2]), Long.parseLong(cells[3]));
                for (TestRecord<String, String> result : output.readRecordsToList())
                    out.println(run + "\t" + text(result.key()) + "\t" + text(result.value()) + "\t" + result.timestamp());
            }
        }
        if (driver != null) driver.close();
    }

    static String cell(String text) {
        return text.equals("\\N") ? null : text;
    }

    static String text(String cell) {
        return cell == null ? "\\N" : cell;
    }

    static TopologyTestDriver driver(String[] words) {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> text = Consumed.with(Serdes.String(), Serdes.String());
        ValueJoiner<String, String, String> joiner = (left, right) -> left + "+" + right;
        long[] numbers = Arrays.stream(words).skip(2).filter(word -> word.matches("\\d+")).mapToLong(Long::parseLong).toArray();
        String how = words[words.length - 1];
        KStream<String, String> results;
        switch (words[1]) {
            case "stream_table": {
                KStream<String, String> left = builder.stream("left", text);
                KTable<String, String> right = builder.table("right", text);
                results = how.equals("inner") ? left.join(right, joiner) : left.leftJoin(right, joiner);
                break;
            }
            case "table_table": {
                KTable<String, String> left = builder.table("left", text), right = builder.table("right", text);
                KTable<String, String> joined = how.equals("inner") ? left.join(right, joiner)
                    : how.equals("left") ? left.leftJoin(right, joiner) : left.outerJoin(right, joiner);
                results = joined.toStream();
                break;
            }
            case "stream_stream": {
                KStream<String, String> left = builder.stream("left", text), right = builder.stream("right", text);
                JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, Duration.ofMillis(numbers[2]))
                    .before(Duration.ofMillis(numbers[0])).after(Duration.ofMillis(numbers[1]));
                results = how.equals("inner") ? left.join(right, joiner, windows)
                    : how.equals("left") ? left.leftJoin(right, joiner, windows) : left.outerJoin(right, joiner, windows);
                break;
            }
            case "sessions": {
                SessionWindows windows = SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(numbers[0]), Duration.ofMillis(numbers[1]));
                results = named(builder.stream("left", text).groupByKey().windowedBy(windows).emitStrategy(strategy(how))
                    .aggregate(() -> "", (key, value, all) -> merged(all, value), (key, one, other) -> merged(one, other)));
                break;
            }
            case "sliding": {
                SlidingWindows windows = SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(numbers[0]), Duration.ofMillis(numbers[1]));
                results = named(builder.stream("left", text).groupByKey().windowedBy(windows).emitStrategy(strategy(how))
                    .aggregate(() -> "", (key, value, all) -> merged(all, value)));
                break;
            }
            default:
                throw new IllegalArgumentException(words[1]);
        }
        results.to("out", Produced.with(Serdes.String(), Serdes.String()));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "unused:9092");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // Results of closed windows come at most once a second of the wall clock; here whenever they are due.
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        return new TopologyTestDriver(builder.build(), settings, Instant.ofEpochMilli(0));
    }

    static EmitStrategy strategy(String how) {
        return how.equals("final") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    }

    static String merged(String one, String other) {
        return Stream.of(one, other).flatMap(all -> Arrays.stream(all.split(","))).filter(value -> !value.isEmpty())
            .sorted().collect(Collectors.joining(","));
    }

    static KStream<String, String> named(KTable<Windowed<String>, String> windows) {
        return windows.toStream((window, all) -> window.key() + "@" + window.window().start() + "-" + window.window().end());
    }
}
