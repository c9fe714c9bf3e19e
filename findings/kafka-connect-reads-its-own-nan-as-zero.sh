#!/bin/sh
# Kafka Connect's JsonConverter 4.4.0 (org.apache.kafka:connect-json), which Debezium's messages are written with: NaN and
# infinity are written as the texts "NaN" and "Infinity", and the same converter reads these as 0.0, without an error. Its schema
# stands beside the value, so one expects either the number or an error.
#
# Seen: NaN -> "payload":"NaN" -> 0.0; Infinity -> "payload":"Infinity" -> 0.0; 0.1 -> 0.1.
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
    <dependency><groupId>org.apache.kafka</groupId><artifactId>connect-json</artifactId><version>4.4.0</version></dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars)
cat >"$folder/Seen.java" <<'JAVA'
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.json.JsonConverter;

public class Seen {
  public static void main(String[] arguments) {
    var converter = new JsonConverter();
    converter.configure(Map.of("schemas.enable", true), false);
    for (double value : new double[] {Double.NaN, Double.POSITIVE_INFINITY, 0.1}) {
      var written = converter.fromConnectData("topic", Schema.FLOAT64_SCHEMA, value);
      var read = converter.toConnectData("topic", written);
      System.out.println(new String(written).replaceFirst("\"schema\":\\{.*?\\},", "") + " " + read.value());
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp - "$folder/seen" <<'EXPECTED'
{"payload":"NaN"} 0.0
{"payload":"Infinity"} 0.0
{"payload":0.1} 0.1
EXPECTED
