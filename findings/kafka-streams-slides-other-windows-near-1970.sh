#!/bin/sh
# Kafka Streams 4.4.0: the windows of a sliding aggregation depend on how far its records are from 1970. A window ends at a record's time
# and begins `timeDifference` before it; near time 0, where that would be negative, a record is counted in the window from 0
# in its place. So the same records a little later give other windows, which are other counts (test data often begins at 0).
#
# Seen, of two records 2 ms apart and a difference of 10 ms: at 103 and 105 [93, 103] 1, [104, 114] 1, [95, 105] 2; at 3 and 5
# [0, 10] 1, [4, 14] 1, [0, 10] 2. Both begin with a window for each record, but near 0 the two have one key.
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
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SlidingWindows;

public class Seen {
  public static void main(String[] arguments) {
    var builder = new StreamsBuilder();
    builder.stream("input", Consumed.with(Serdes.String(), Serdes.String()))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(10)))
        .count(Materialized.with(Serdes.String(), Serdes.Long()))
        .toStream((key, count) -> "[" + key.window().start() + ", " + key.window().end() + "]")
        .mapValues((key, count) -> key + " " + count)
        .to("results", Produced.with(Serdes.String(), Serdes.String()));
    var settings = new Properties();
    settings.put("application.id", "seen");
    settings.put("bootstrap.servers", "none:1");
    settings.put("state.dir", arguments[0]);
    for (long time : new long[] {103, 3}) {
      try (var driver = new TopologyTestDriver(builder.build(), settings)) {
        var input = driver.createInputTopic("input", new StringSerializer(), new StringSerializer());
        input.pipeInput("a", "", time);
        input.pipeInput("a", "", time + 2);
        System.out.println(driver.createOutputTopic("results", new StringDeserializer(), new StringDeserializer()).readValuesToList());
      }
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
[[93, 103] 1, [104, 114] 1, [95, 105] 2]
[[0, 10] 1, [4, 14] 1, [0, 10] 2]
EXPECTED
