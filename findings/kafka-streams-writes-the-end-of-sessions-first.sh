#!/bin/sh
# Kafka Streams 4.4.0: the windows of keys are written in two ways. A time window is its start, 8 bytes behind the key; a session is
# its end and then its start. A session's end is the time of its last record, so that one record has start = end, while the
# end of a time window, which is not written, is the first moment behind it.
#
# Seen, of the key "a" and a window from 1 to 2: time window 61 0000000000000001, session 61 0000000000000002 0000000000000001; the
# session of one record at 5: start 5, end 5; its window of 1 ms: start 5, end 6.
# Headwater reads and writes both (`java_time`, `java_session`).
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
import java.util.HexFormat;
import java.util.Properties;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedDeserializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindowedDeserializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

public class Seen {
  public static void main(String[] arguments) {
    var time = new TimeWindowedSerializer<>(new StringSerializer()).serialize("", new Windowed<>("a", new TimeWindow(1, 2)));
    var session = new SessionWindowedSerializer<>(new StringSerializer()).serialize("", new Windowed<>("a", new SessionWindow(1, 2)));
    System.out.println(HexFormat.of().formatHex(time) + " " + HexFormat.of().formatHex(session));
    var builder = new StreamsBuilder();
    var grouped = builder.stream("input", Consumed.with(Serdes.String(), Serdes.String())).groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
    grouped.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(1)))
        .count(Materialized.with(Serdes.String(), Serdes.Long())).toStream()
        .to("time", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 1), Serdes.Long()));
    grouped.windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(1)))
        .count(Materialized.with(Serdes.String(), Serdes.Long())).toStream()
        .to("session", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), Serdes.Long()));
    var settings = new Properties();
    settings.put("application.id", "seen");
    settings.put("bootstrap.servers", "none:1");
    settings.put("state.dir", arguments[0]);
    try (var driver = new TopologyTestDriver(builder.build(), settings)) {
      driver.createInputTopic("input", new StringSerializer(), new StringSerializer()).pipeInput("a", "", 5);
      show(driver, "time", new TimeWindowedDeserializer<>(new StringDeserializer(), 1L));
      show(driver, "session", new SessionWindowedDeserializer<>(new StringDeserializer()));
    }
  }

  static void show(TopologyTestDriver driver, String topic, Deserializer<Windowed<String>> keys) {
    var window = driver.createOutputTopic(topic, keys, Serdes.Long().deserializer()).readRecord().key().window();
    System.out.println(topic + " " + window.start() + " " + window.end());
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
610000000000000001 6100000000000000020000000000000001
time 5 6
session 5 5
EXPECTED
