#!/bin/sh
# Kafka Streams 4.4.0: under `exactly_once_v2` the dead letter of the record that ends the application is lost. A handler that fails
# (LogAndFailExceptionHandler, the default) gives a dead letter since 4.2 (KIP-1034) where
# `errors.dead.letter.queue.topic.name` is set, but it is written in the transaction that is then given up. So the one
# record that a person has to look at is in the log of the application only. Under `at_least_once` the dead letter is there.
#
# Seen, of one record that has no integer as its value: at_least_once 1 dead letter, exactly_once_v2 0; both end with an error.
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
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;

public class Seen {
  static Properties settings(String server, Map<String, Object> more) {
    var settings = new Properties();
    settings.put("bootstrap.servers", server);
    settings.putAll(more);
    return settings;
  }

  static int count(String server, String topic) {
    var place = new TopicPartition(topic, 0);
    int count = 0;
    var more = Map.<String, Object>of("isolation.level", "read_committed");
    try (var consumer = new KafkaConsumer<>(settings(server, more), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.assign(List.of(place));
      consumer.seekToBeginning(List.of(place));
      long end = consumer.endOffsets(List.of(place)).get(place);
      while (consumer.position(place) < end) count += consumer.poll(Duration.ofMillis(200)).count();
    }
    return count;
  }

  public static void main(String[] arguments) throws Exception {
    String server = arguments[0];
    for (String guarantee : List.of("at_least_once", "exactly_once_v2")) {
      String input = "input-" + guarantee, dead = "dead-" + guarantee;
      try (var admin = Admin.create(settings(server, Map.of()))) {
        admin.createTopics(List.of(new NewTopic(input, 1, (short) 1), new NewTopic(dead, 1, (short) 1))).all().get();
      }
      try (var producer = new KafkaProducer<>(settings(server, Map.of()), new StringSerializer(), new StringSerializer())) {
        producer.send(new ProducerRecord<>(input, "key", "no integer")).get();
      }
      var builder = new StreamsBuilder();
      builder.stream(input, Consumed.with(Serdes.String(), Serdes.Integer())).foreach((key, value) -> {});
      var more = Map.<String, Object>of(
          "application.id", guarantee, "state.dir", arguments[1], "auto.offset.reset", "earliest",
          "processing.guarantee", guarantee, "errors.dead.letter.queue.topic.name", dead);
      var streams = new KafkaStreams(builder.build(), settings(server, more));
      streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.SHUTDOWN_CLIENT);
      streams.start();
      while (streams.state() != KafkaStreams.State.ERROR) Thread.sleep(100);
      streams.close(Duration.ofMinutes(1));
      System.out.println(guarantee + " " + count(server, dead));
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "127.0.0.1:$1" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
at_least_once 1
exactly_once_v2 0
EXPECTED
