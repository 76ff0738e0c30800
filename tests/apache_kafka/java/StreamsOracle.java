// What Kafka Streams itself makes of records: its test driver runs one program after another.
//
// Lines in:  run WORD...                       a new program (tests/support/streams_programs.py says what the words mean)
//            batch TAB left|right|rows TAB key TAB value TAB timestamp
// Lines out: number of the run TAB batch TAB key TAB value TAB timestamp
// \\N is null. A joined value is LEFT+RIGHT. A window has the key KEY@START-END.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KGroupedTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.test.TestRecord;

import static org.apache.kafka.streams.kstream.Suppressed.BufferConfig.unbounded;

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
                driver = new Program(line.split(" ")).driver();
                inputs.clear();
                for (String topic : new String[] {"left", "right", "rows"})
                    if (line.contains(":" + topic)) inputs.put(topic, driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()));
                output = driver.createOutputTopic("out", new StringDeserializer(), new StringDeserializer());
            } else {
                String[] cells = line.split("\t");
                if (!inputs.containsKey(cells[1])) continue; // no topic of this program
                inputs.get(cells[1]).pipeInput(cell(cells[2]), cell(cells[3]), Long.parseLong(cells[4]));
                for (TestRecord<String, String> result : output.readRecordsToList())
                    out.println(String.join("\t", "" + run, cells[0], text(result.key()), text(result.value()), "" + result.timestamp()));
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
}

/** A program in words: sources come on a stack, a step takes what is on top of it and puts its own result there. */
class Program {
    private final StreamsBuilder builder = new StreamsBuilder();
    private final Map<String, Object> sources = new HashMap<>();
    private final Deque<Object> stack = new ArrayDeque<>();
    private boolean suppressed; // onWindowClose() loses tumbling and hopping windows when time jumps

    Program(String[] words) {
        for (String word : words) if (!word.equals("run")) step(word.split(":"));
        Object last = stack.pop();
        (last instanceof KTable ? this.<KTable<String, String>>as(last).toStream() : this.<KStream<String, String>>as(last))
            .to("out", Produced.with(Serdes.String(), Serdes.String()));
    }

    @SuppressWarnings("unchecked")
    private <T> T as(Object object) {
        return (T) object;
    }

    private <T> T pop() {
        return as(stack.pop());
    }

    private void step(String[] word) {
        Consumed<String, String> text = Consumed.with(Serdes.String(), Serdes.String());
        switch (word[0]) {
            case "stream": stack.push(sources.computeIfAbsent("stream " + word[1], name -> builder.stream(word[1], text))); break;
            case "table": stack.push(sources.computeIfAbsent("table " + word[1], name -> builder.table(word[1], text))); break;
            case "global": stack.push(builder.globalTable(word[1], text)); break;
            case "merge": {
                KStream<String, String> other = pop(), one = pop();
                stack.push(one.merge(other));
                break;
            }
            case "split": {
                Map<String, KStream<String, String>> branches = this.<KStream<String, String>>pop().split()
                    .branch((key, value) -> odd(value), Branched.withFunction(stream -> stream.mapValues(value -> "odd " + value), "a"))
                    .branch((key, value) -> value != null, Branched.withFunction(stream -> stream.mapValues(value -> "even " + value), "b"))
                    .defaultBranch(Branched.withFunction(stream -> stream.mapValues(value -> "none"), "c"));
                stack.push(branches.values().stream().reduce(KStream::merge).get());
                break;
            }
            case "filter":
            case "filter_not": {
                boolean is = word[0].equals("filter");
                Object top = stack.pop();
                if (top instanceof KTable) {
                    KTable<String, String> table = as(top);
                    stack.push(is ? table.filter((key, value) -> odd(value)) : table.filterNot((key, value) -> odd(value)));
                } else {
                    KStream<String, String> stream = as(top);
                    stack.push(is ? stream.filter((key, value) -> odd(value)) : stream.filterNot((key, value) -> odd(value)));
                }
                break;
            }
            case "map_values": {
                Object top = stack.pop();
                stack.push(top instanceof KTable ? this.<KTable<String, String>>as(top).mapValues(value -> loud(value))
                    : this.<KStream<String, String>>as(top).mapValues(value -> loud(value)));
                break;
            }
            case "flat_map_values":
                stack.push(this.<KStream<String, String>>pop().flatMapValues(value -> Arrays.asList(("" + value).split(""))));
                break;
            case "select_key": stack.push(this.<KStream<String, String>>pop().selectKey((key, value) -> letter(value))); break;
            case "to_table": stack.push(this.<KStream<String, String>>pop().toTable()); break;
            case "join": join(word); break;
            case "group_by_key": stack.push(this.<KStream<String, String>>pop().groupByKey()); break;
            case "group_by": {
                Object top = stack.pop();
                if (top instanceof KTable)
                    stack.push(this.<KTable<String, String>>as(top).groupBy((key, value) -> KeyValue.pair(letter(value), value.equals("g9") ? null : value)));
                else stack.push(this.<KStream<String, String>>as(top).groupBy((key, value) -> letter(value)));
                break;
            }
            case "tumbling": case "hopping": case "sliding": case "session": windows(word); break;
            case "count": case "reduce": case "aggregate": stack.push(aggregated(word[0], stack.pop())); break;
            default: throw new IllegalArgumentException(word[0]);
        }
    }

    private void join(String[] word) {
        ValueJoiner<String, String, String> joiner = (one, other) -> one + "+" + other;
        String how = word[1];
        Object right = stack.pop(), left = stack.pop();
        if (right instanceof GlobalKTable) {
            KStream<String, String> stream = as(left);
            GlobalKTable<String, String> table = as(right);
            stack.push(how.equals("inner") ? stream.join(table, (key, value) -> found(key, value), joiner)
                : stream.leftJoin(table, (key, value) -> found(key, value), joiner));
        } else if (left instanceof KTable) {
            KTable<String, String> one = as(left), other = as(right);
            stack.push(how.equals("inner") ? one.join(other, joiner) : how.equals("left") ? one.leftJoin(other, joiner) : one.outerJoin(other, joiner));
        } else if (right instanceof KTable) {
            KStream<String, String> stream = as(left);
            KTable<String, String> table = as(right);
            stack.push(how.equals("inner") ? stream.join(table, joiner) : stream.leftJoin(table, joiner));
        } else {
            KStream<String, String> one = as(left), other = as(right);
            JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, ms(word[4])).before(ms(word[2])).after(ms(word[3]));
            stack.push(how.equals("inner") ? one.join(other, joiner, windows)
                : how.equals("left") ? one.leftJoin(other, joiner, windows) : one.outerJoin(other, joiner, windows));
        }
    }

    private void windows(String[] word) {
        KGroupedStream<String, String> grouped = pop();
        boolean onlyFinal = word[word.length - 1].equals("final");
        EmitStrategy strategy = onlyFinal ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        suppressed = onlyFinal && !word[0].equals("sliding") && !word[0].equals("session");
        Duration size = ms(word[1]);
        switch (word[0]) {
            case "tumbling": stack.push(grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, ms(word[2])))); break;
            case "hopping": stack.push(grouped.windowedBy(TimeWindows.ofSizeAndGrace(size, ms(word[3])).advanceBy(ms(word[2])))); break;
            case "sliding": stack.push(grouped.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, ms(word[2]))).emitStrategy(strategy)); break;
            default: stack.push(grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(size, ms(word[2]))).emitStrategy(strategy));
        }
    }

    private Object aggregated(String how, Object grouped) {
        if (grouped instanceof KGroupedTable) {
            KGroupedTable<String, String> table = as(grouped);
            return how.equals("count") ? table.count().mapValues(String::valueOf)
                : how.equals("reduce") ? table.reduce(Program::merged, Program::without)
                : table.aggregate(() -> "", (key, value, all) -> merged(all, value), (key, value, all) -> without(all, value));
        }
        if (grouped instanceof TimeWindowedKStream) {
            TimeWindowedKStream<String, String> windows = as(grouped);
            return how.equals("count") ? named(windows.count()) : how.equals("reduce") ? named(windows.reduce(Program::merged))
                : named(windows.aggregate(() -> "", (key, value, all) -> merged(all, value)));
        }
        if (grouped instanceof SessionWindowedKStream) {
            SessionWindowedKStream<String, String> windows = as(grouped);
            return how.equals("count") ? named(windows.count()) : how.equals("reduce") ? named(windows.reduce(Program::merged))
                : named(windows.aggregate(() -> "", (key, value, all) -> merged(all, value), (key, one, other) -> merged(one, other)));
        }
        KGroupedStream<String, String> stream = as(grouped);
        return how.equals("count") ? stream.count().mapValues(String::valueOf)
            : how.equals("reduce") ? stream.reduce((one, other) -> other.startsWith("c") ? null : one + other)
            : stream.aggregate(() -> "", (key, value, all) -> value.startsWith("c") ? null : all + value);
    }

    private <V> KStream<String, String> named(KTable<Windowed<String>, V> windows) {
        return (suppressed ? windows.suppress(Suppressed.untilWindowCloses(unbounded())) : windows).toStream((window, all) -> window.key() + "@" + window.window().start() + "-" + window.window().end())
            .mapValues(value -> value == null ? null : "" + value);
    }

    // -- functions of values, which are a letter and a digit

    private static boolean odd(String value) {
        return value != null && "13579".indexOf(value.charAt(value.length() - 1)) >= 0;
    }

    private static String loud(String value) {
        return value == null ? "none" : value.startsWith("d") ? null : value.toUpperCase();
    }

    private static String letter(String value) {
        return value == null || value.startsWith("f") ? null : value.substring(0, 1);
    }

    private static String found(String key, String value) {
        return value == null ? key : value.startsWith("f") ? null : "k" + value.substring(1);
    }

    private static String merged(String one, String other) {
        return Stream.of("" + one, "" + other).flatMap(all -> Arrays.stream(all.split(","))).filter(value -> !value.isEmpty())
            .sorted().collect(Collectors.joining(","));
    }

    private static String without(String all, String value) {
        List<String> values = new ArrayList<>(Arrays.asList(all.split(",")));
        values.remove(value);
        return String.join(",", values);
    }

    private static Duration ms(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }

    TopologyTestDriver driver() {
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
}
