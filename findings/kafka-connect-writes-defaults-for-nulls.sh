#!/bin/sh
# Kafka Connect's JsonConverter 4.4.0, which Debezium's messages are written with: a field that is null and has a default is written as the
# default. So a column of a database that is NULL, but has a DEFAULT, arrives as that default, as if the row had it, and no reader can
# tell the two apart. The converter does not with `replace.null.with.default: false`; the omitted value is true.
#
# Seen, of two optional fields that were set to null, the first with the default 7: {"with":7,"without":null}; with false
# {"with":null,"without":null}.
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
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

public class Seen {
  public static void main(String[] arguments) {
    var schema = SchemaBuilder.struct()
        .field("with", SchemaBuilder.int64().optional().defaultValue(7L).build())
        .field("without", Schema.OPTIONAL_INT64_SCHEMA)
        .build();
    var row = new Struct(schema).put("with", null).put("without", null);
    for (var more : new Map<?, ?>[] {Map.of(), Map.of("replace.null.with.default", false)}) {
      var settings = new java.util.HashMap<String, Object>(); more.forEach((name, value) -> settings.put((String) name, value));
      settings.put("schemas.enable", false);
      var converter = new JsonConverter();
      converter.configure(settings, false);
      System.out.println(new String(converter.fromConnectData("topic", schema, row)));
    }
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" "$folder/state" >"$folder/seen" 2>"$folder/errors" || { cat "$folder/errors"; exit 1; }
cat "$folder/seen"
cmp "$folder/seen" - <<'EXPECTED'
{"with":7,"without":null}
{"with":null,"without":null}
EXPECTED
