#!/bin/sh
# Kafka Connect's JsonConverter 4.4.0 (org.apache.kafka:connect-json) without schemas: a whole number of more than 64 bits is cut to its
# last 64 bits, without an error. The grammar of JSON (RFC 8259, section 6) has such numbers, and ids of 20 digits, as unsigned
# 64-bit integers have them, come out negative. Python's json keeps them.
#
# Seen: 9223372036854775807 -> the same; 12345678901234567890 -> -6101065172474983726; 18446744073709551617 -> 1.
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
import org.apache.kafka.connect.json.JsonConverter;

public class Seen {
  public static void main(String[] numbers) {
    var converter = new JsonConverter();
    converter.configure(Map.of("schemas.enable", false), false);
    for (String number : numbers) {
      System.out.println(converter.toConnectData("topic", number.getBytes()).value());
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" 9223372036854775807 12345678901234567890 18446744073709551617 >"$folder/seen"
cat "$folder/seen"
cmp - "$folder/seen" <<'EXPECTED'
9223372036854775807
-6101065172474983726
1
EXPECTED
