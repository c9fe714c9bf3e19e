#!/bin/sh
# Kafka Streams 4.4.0: a result that has waited carries the headers of the record that makes it come out, which may be one of any
# other key. So it is with records of a left join without a match and with windows of EmitStrategy.onWindowClose(); a
# trace id or a schema id in the headers then belongs to something else. Results of `suppress` have their own headers.
#
# Seen, of key a with header "mine" and then key b with header "other": left join and window close: other, suppress: mine.
# Headwater's left join does the same as Kafka Streams.
#
# Needs Java 17 or later, and Maven.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>seen</groupId><artifactId>seen</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>4.4.0</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams-test-utils</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars)
cat >"$folder/Seen.java" <<'JAVA'
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.test.TestRecord;

public class Seen {
  static void see(String name, String state, Consumer<StreamsBuilder> topology) {
    var builder = new StreamsBuilder();
    topology.accept(builder);
    var settings = new Properties();
    settings.put("application.id", "seen");
    settings.put("bootstrap.servers", "none:1");
    settings.put("state.dir", state);
    try (var driver = new TopologyTestDriver(builder.build(), settings)) {
      var input = driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
      input.pipeInput(new TestRecord<>("a", "1", new RecordHeaders().add("of", "mine".getBytes()), 0L));
      input.pipeInput(new TestRecord<>("b", "1", new RecordHeaders().add("of", "other".getBytes()), 10L));
      var result = driver.createOutputTopic("results", new StringDeserializer(), new StringDeserializer()).readRecord();
      System.out.println(name + ": " + result.key() + " " + new String(result.headers().lastHeader("of").value()));
    }
  }

  static KStream<String, String> stream(StreamsBuilder builder, String topic) {
    return builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()));
  }

  static void write(KStream<String, String> results) {
    results.to("results", Produced.with(Serdes.String(), Serdes.String()));
  }

  public static void main(String[] arguments) {
    see("left join", arguments[0], builder -> write(stream(builder, "input").leftJoin(
        stream(builder, "others"), (one, other) -> one + other, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(5)),
        StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))));
    see("window close", arguments[0], builder -> write(stream(builder, "input")
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(5)))
        .emitStrategy(EmitStrategy.onWindowClose())
        .reduce((one, other) -> one + other, Materialized.with(Serdes.String(), Serdes.String()))
        .toStream((key, value) -> key.key())));
    see("suppress", arguments[0], builder -> write(stream(builder, "input")
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(5)))
        .reduce((one, other) -> one + other, Materialized.with(Serdes.String(), Serdes.String()))
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
        .toStream((key, value) -> key.key())));
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
left join: a other
window close: a other
suppress: a mine
EXPECTED
