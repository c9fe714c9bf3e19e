#!/bin/sh
# Kafka Streams 4.4.0: a left join of streams gives a record without a match, and then the same record with one. The first comes when
# stream time passes the window and its grace, and says that no match can come any more. A record of the other side that comes
# then is not dropped, as the documentation of JoinWindows says of late records, as long as the store still has its partner.
#
# Seen, within 5 ms, without grace: an order at 10 and stream time 16 -> "order+null"; then a payment at 10 -> "order+payment". A
# windowed count drops a record of the same lateness. At stream time 100 the store has lost the order, and nothing comes.
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
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

public class Seen {
  record Input(String topic, String key, String value, long time) {}

  static List<String> results(StreamsBuilder builder, String state, Input... inputs) {
    var settings = new Properties();
    settings.put("application.id", "seen");
    settings.put("bootstrap.servers", "none:1");
    settings.put("state.dir", state);
    var results = new ArrayList<String>();
    try (var driver = new TopologyTestDriver(builder.build(), settings)) {
      for (var input : inputs) {
        driver.createInputTopic(input.topic, new StringSerializer(), new StringSerializer()).pipeInput(input.key, input.value, input.time);
      }
      results.addAll(driver.createOutputTopic("results", new StringDeserializer(), new StringDeserializer()).readValuesToList());
    }
    return results;
  }

  static StreamsBuilder join() {
    var builder = new StreamsBuilder();
    var strings = Consumed.with(Serdes.String(), Serdes.String());
    builder.stream("orders", strings)
        .leftJoin(builder.stream("payments", strings), (order, payment) -> order + "+" + payment,
            JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(5)),
            StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()))
        .to("results", Produced.with(Serdes.String(), Serdes.String()));
    return builder;
  }

  static StreamsBuilder count() {
    var builder = new StreamsBuilder();
    builder.stream("orders", Consumed.with(Serdes.String(), Serdes.String()))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(5)))
        .count(Materialized.with(Serdes.String(), Serdes.Long()))
        .toStream((key, count) -> key.key())
        .mapValues((key, count) -> key + count)
        .to("results", Produced.with(Serdes.String(), Serdes.String()));
    return builder;
  }

  public static void main(String[] arguments) {
    var order = new Input("orders", "a", "order", 10);
    var payment = new Input("payments", "a", "payment", 10);
    for (long now : new long[] {16, 100}) {
      System.out.println(results(join(), arguments[0], order, new Input("orders", "b", "other", now), payment));
    }
    System.out.println(results(count(), arguments[0], order, new Input("orders", "b", "other", 16), order));
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
[order+null, order+payment]
[order+null]
[a1, b1]
EXPECTED
