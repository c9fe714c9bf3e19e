import static org.apache.kafka.streams.kstream.WindowedSerdes.sessionWindowedSerdeFrom;
import static org.apache.kafka.streams.kstream.WindowedSerdes.timeWindowedSerdeFrom;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.function.IntFunction;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.BooleanSerializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.ShortSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.UUIDSerializer;
import org.apache.kafka.connect.json.JsonSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * What programs in Java do with topics, for tests: Kafka Streams, its deserializers, and the partitioner of the producer.
 *
 * <p>A command is a line of words on standard input, its answer a line of JSON on standard output. Arguments: the
 * bootstrap servers, and a folder for states.
 */
public class Interop {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration HOUR = Duration.ofHours(1);

    final String servers;
    final String folder;
    final Map<String, KafkaStreams> running = new HashMap<>();

    Interop(String servers, String folder) {
        this.servers = servers;
        this.folder = folder;
    }

    public static void main(String[] arguments) throws Exception {
        Interop here = new Interop(arguments[0], arguments[1]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(here.answer(line.split(" "))));
        }
        System.exit(0);
    }

    Object answer(String[] words) throws Exception {
        switch (words[0]) {
            case "count":
                return count(words[1], words[2], words[3], words[4], words[5]);
            case "produce":
                return produce(words[1], words[2]);
            case "windows":
                return windowed(words[1], new TimeWindowedDeserializer<>(new StringDeserializer(), HOUR.toMillis()));
            case "sessions":
                return windowed(words[1], new SessionWindowedDeserializer<>(new StringDeserializer()));
            case "global":
                return global(words[1], words[2]);
            case "forward":
                return forward(words[1], words[2], words[3], Long.parseLong(words[4]));
            case "totals":
                totals(words[1], words[2], words[3], words[4]);
                awaitEnd(words[1], words[2]);
                running.remove(words[1]).close();
                return true;
            case "start":
                totals(words[1], words[2], words[3], words[4]);
                return true;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    /** Count the words of a topic by the hour, in sessions, and as a table of those counts that are even. */
    Object count(String application, String source, String hours, String sessions, String table) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, Long> words =
            builder.stream(source, Consumed.with(Serdes.String(), Serdes.Long())).groupByKey();
        words.windowedBy(TimeWindows.ofSizeAndGrace(HOUR, HOUR)).count().toStream()
            .to(hours, Produced.with(timeWindowedSerdeFrom(String.class, HOUR.toMillis()), Serdes.Long()));
        words.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMinutes(30), HOUR)).count().toStream()
            .to(sessions, Produced.with(sessionWindowedSerdeFrom(String.class), Serdes.Long()));
        words.count().filter((word, times) -> times % 2 == 0).toStream()
            .to(table, Produced.with(Serdes.String(), Serdes.Long()));
        start(application, builder, 50);
        awaitEnd(application, source);
        running.remove(application).close();
        return true;
    }

    /** Write the records of a topic to another one, and stop in the midst of them, once so many are committed. */
    Object forward(String application, String source, String target, long enough) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.String(), Serdes.Long()))
            .peek((word, number) -> pause())
            .to(target, Produced.with(Serdes.String(), Serdes.Long()));
        start(application, builder, 50);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            while (committed(admin, application) < enough) {
                Thread.sleep(5);
            }
            // Else its members stay in the group until their session times out.
            running.remove(application).close(
                CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
            return committed(admin, application);
        }
    }

    static long committed(Admin admin, String application) throws Exception {
        return admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get().values().stream()
            .mapToLong(position -> position.offset()).sum();
    }

    static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** What a reading is in JSON. */
    public static class Reading {
        public long n;
        public double degrees;
        public String note;
    }

    /** How many readings a sensor has, and the sum of their numbers. */
    public static class Totals {
        public long readings;
        public long total;
    }

    /** Count and sum JSON values by key. */
    void totals(String application, String source, String target, String commitMs) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.String(), json(Reading.class))).groupByKey()
            .aggregate(
                Totals::new,
                (key, reading, totals) -> {
                    totals.readings++;
                    totals.total += reading.n;
                    return totals;
                },
                Materialized.with(Serdes.String(), json(Totals.class)))
            .toStream().to(target, Produced.with(Serdes.String(), json(Totals.class)));
        start(application, builder, Integer.parseInt(commitMs));
    }

    static <T> Serde<T> json(Class<T> type) {
        ObjectReader reader = JSON.readerFor(type);
        ObjectWriter writer = JSON.writerFor(type);
        return Serdes.serdeFrom(
            (topic, value) -> {
                try {
                    return value == null ? null : writer.writeValueAsBytes(value);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            },
            (topic, bytes) -> {
                try {
                    return bytes == null ? null : reader.readValue(bytes);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
    }

    void start(String application, StreamsBuilder builder, int commitMs) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commitMs);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // Room for all keys of a benchmark: without it, keys that have changed are written before the commit.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 << 20);
        settings.put("auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        running.put(application, streams);
        streams.start();
    }

    /** Wait until an application has committed the ends of a topic. */
    void awaitEnd(String application, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            Map<TopicPartition, OffsetSpec> latest = partitions(admin, topic).stream()
                .collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
            var ends = admin.listOffsets(latest, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get();
            while (true) {
                if (running.get(application).state() == KafkaStreams.State.ERROR) {
                    throw new IllegalStateException(application + " has failed");
                }
                var committed = admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get();
                boolean all = ends.entrySet().stream().allMatch(end -> {
                    var position = committed.get(end.getKey());
                    return end.getValue().offset() == 0 || position != null && position.offset() >= end.getValue().offset();
                });
                if (all) {
                    return;
                }
                Thread.sleep(20);
            }
        }
    }

    static List<TopicPartition> partitions(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().stream()
            .map(partition -> new TopicPartition(topic, partition.partition())).collect(Collectors.toList());
    }

    /** Produce 10,000 keys of a format. The producer chooses their partitions. */
    Object produce(String format, String topic) {
        switch (format) {
            case "string": return produce(topic, new StringSerializer(), number -> "key " + number + " ü");
            case "uuid": return produce(topic, new UUIDSerializer(), number -> new UUID(number, -number));
            case "binary": return produce(topic, new ByteArraySerializer(),
                number -> ByteBuffer.allocate(5).putInt(number).array());
            case "boolean": return produce(topic, new BooleanSerializer(), number -> number % 2 == 0);
            case "smallint": return produce(topic, new ShortSerializer(), number -> (short) (number - 5000));
            case "int": return produce(topic, new IntegerSerializer(), number -> number * 200_003 - 1_000_000_000);
            case "bigint": return produce(topic, new LongSerializer(), number -> (number - 5000L) << 40);
            case "float": return produce(topic, new FloatSerializer(), number -> number / 7f - 700);
            case "double": return produce(topic, new DoubleSerializer(), number -> number / 7d - 700);
            case "json": return produce(topic, new JsonSerializer(), Interop::json);
            default: throw new IllegalArgumentException(format);
        }
    }

    static JsonNode json(int number) {
        ObjectNode key = JSON.createObjectNode();
        key.put("id", "k" + number);
        return key;
    }

    <K> Object produce(String topic, Serializer<K> serializer, IntFunction<K> key) {
        try (KafkaProducer<K, Long> producer =
                 new KafkaProducer<>(Map.of("bootstrap.servers", servers), serializer, new LongSerializer())) {
            for (int number = 0; number < 10_000; number++) {
                producer.send(new ProducerRecord<>(topic, null, 1000L + number, key.apply(number), (long) number));
            }
        }
        return true;
    }

    /** The records of a topic, as [partition, key, start, end, value]. */
    Object windowed(String topic, Deserializer<Windowed<String>> keys) throws Exception {
        List<Object> records = new ArrayList<>();
        for (ConsumerRecord<Windowed<String>, Long> record : read(topic, keys)) {
            Windowed<String> key = record.key();
            records.add(java.util.Arrays.asList(
                record.partition(), key.key(), key.window().start(), key.window().end(), record.value()));
        }
        return records;
    }

    <K> List<ConsumerRecord<K, Long>> read(String topic, Deserializer<K> keys) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "isolation.level", "read_committed");
        List<ConsumerRecord<K, Long>> records = new ArrayList<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers));
             KafkaConsumer<K, Long> consumer = new KafkaConsumer<>(settings, keys, new LongDeserializer())) {
            List<TopicPartition> partitions = partitions(admin, topic);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    /** The rows of a topic as a GlobalKTable. */
    Object global(String application, String topic) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.globalTable(topic, Consumed.with(Serdes.String(), Serdes.Long()), Materialized.as("rows"));
        start(application, builder, 50);
        KafkaStreams streams = running.get(application);
        while (streams.state() != KafkaStreams.State.RUNNING) {
            Thread.sleep(20);
        }
        Map<String, Long> rows = new HashMap<>();
        var store = streams.store(StoreQueryParameters.fromNameAndType("rows", QueryableStoreTypes.<String, Long>keyValueStore()));
        try (KeyValueIterator<String, Long> all = store.all()) {
            while (all.hasNext()) {
                KeyValue<String, Long> row = all.next();
                rows.put(row.key, row.value);
            }
        }
        running.remove(application).close();
        return rows;
    }
}
