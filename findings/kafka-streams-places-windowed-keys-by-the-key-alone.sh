#!/bin/sh
# Kafka Streams 4.4.0: a windowed result goes to the partition of its key without the window, not to the one of the bytes that are
# written as the key. So who writes or looks up the same key bytes by Kafka's default partitioner (murmur2 of the key's bytes,
# as `KafkaProducer` does) is mostly in another partition, and such a topic is not co-partitioned with one that others write.
#
# Seen, 20 keys in 4 partitions: all 20 results are in the partition of the plain key, 4 in the one of the written bytes.
# Headwater places `java_time` and `java_session` keys by the key without its window too.
#
# Needs Java 17 or later, and Maven, which fetches the broker (Apache Kafka 4.4.0). It listens on 127.0.0.1.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>seen</groupId><artifactId>seen</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars)
# shellcheck disable=SC2046
set -- $(python3 -c 'from socket import create_server as s
print(*(p.getsockname()[1] for p in [s(("127.0.0.1", 0)), s(("127.0.0.1", 0))]))')
cat >"$folder/properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$2
listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
controller.listener.names=CONTROLLER
log.dirs=$folder/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=8388608
PROPERTIES
cat >"$folder/kafka" <<KAFKA
#!/bin/sh
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$folder/jars/*" "\$@" >>"$folder/log" 2>&1
KAFKA
chmod +x "$folder/kafka"
"$folder/kafka" kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c "$folder/properties"
"$folder/kafka" kafka.Kafka "$folder/properties" &
broker=$!
trap 'kill -9 "$broker"; wait "$broker" 2>/dev/null || true; rm -rf "$folder"' EXIT
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $1))" 2>/dev/null; do kill -0 "$broker"; sleep 0.3; done
cat >"$folder/Seen.java" <<'JAVA'
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;

public class Seen {
  static Properties settings(String server, Map<String, Object> more) {
    var settings = new Properties();
    settings.put("bootstrap.servers", server);
    settings.putAll(more);
    return settings;
  }

  /** The partitions of 20 records of a topic, by their keys. */
  static Map<String, Integer> partitions(String server, String topic) {
    var found = new HashMap<String, Integer>();
    var more = Map.<String, Object>of("group.id", topic, "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(settings(server, more), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.subscribe(List.of(topic));
      while (found.size() < 20) {
        for (var record : consumer.poll(Duration.ofMillis(500))) {
          found.put(new String(record.key(), java.nio.charset.StandardCharsets.ISO_8859_1), record.partition());
        }
      }
    }
    return found;
  }

  public static void main(String[] arguments) throws Exception {
    String server = arguments[0];
    try (var admin = Admin.create(settings(server, Map.of()))) {
      var topics = List.of("input", "plain", "windowed", "copy");
      admin.createTopics(topics.stream().map(topic -> new NewTopic(topic, 4, (short) 1)).toList()).all().get();
    }
    try (var producer = new KafkaProducer<>(settings(server, Map.of()), new ByteArraySerializer(), new ByteArraySerializer())) {
      for (int number = 0; number < 20; number++) {
        producer.send(new ProducerRecord<>("input", null, 1000L, ("k" + number).getBytes(), new byte[0])).get();
      }
      var builder = new StreamsBuilder();
      var input = builder.stream("input", Consumed.with(Serdes.String(), Serdes.ByteArray()));
      input.to("plain", Produced.with(Serdes.String(), Serdes.ByteArray()));
      input.groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
          .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(1)))
          .count(Materialized.with(Serdes.String(), Serdes.Long()))
          .toStream()
          .to("windowed", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 1000), Serdes.Long()));
      var more = Map.<String, Object>of("application.id", "seen", "state.dir", arguments[1], "auto.offset.reset", "earliest");
      try (var streams = new KafkaStreams(builder.build(), settings(server, more))) {
        streams.start();
        var plain = partitions(server, "plain");
        var windowed = partitions(server, "windowed");
        for (String key : windowed.keySet()) {
          producer.send(new ProducerRecord<>("copy", key.getBytes(java.nio.charset.StandardCharsets.ISO_8859_1), new byte[0])).get();
        }
        var copy = partitions(server, "copy");
        var keys = windowed.keySet();
        System.out.println(keys.stream().filter(key -> windowed.get(key).equals(plain.get(key.substring(0, key.length() - 8)))).count());
        System.out.println(keys.stream().filter(key -> windowed.get(key).equals(copy.get(key))).count());
      }
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "127.0.0.1:$1" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
20
4
EXPECTED
