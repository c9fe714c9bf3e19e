#!/bin/sh
# Avro's own library for Java 1.12.2: SchemaCompatibility and the reader compare the types below logical types only. So decimals of
# another scale and timestamps of another unit are "compatible", and a reader that evolves gets other values without
# an error. Avro 1.12.0, "Decimal", says that two decimals match if their scales and precisions match. fastavro 1.13.1 goes by
# the writer's logical type, so it keeps the value, and Java and Python read different values from the same bytes.
#
# Seen, of Java and of fastavro:
#   decimal(10, 2) read as decimal(10, 3)                COMPATIBLE    1.25 -> 0.125; 1.25
#   timestamp-millis read as timestamp-micros            COMPATIBLE    10:30 of 1 January 2020 -> 19 January 1970; the same
#   date read as timestamp-millis                        COMPATIBLE    1 January 2020 -> 18 seconds of 1970; the same
#   long read as int                                     INCOMPATIBLE  both refuse it
#
# Needs Java 17 or later, and Maven.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check fastavro==1.13.1
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>seen</groupId><artifactId>seen</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.avro</groupId><artifactId>avro</artifactId><version>1.12.2</version></dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars)
cat >"$folder/Seen.java" <<'JAVA'
import java.util.HexFormat;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;

public class Seen {
  public static void main(String[] arguments) {
    var writer = new Schema.Parser().parse(arguments[0]);
    var reader = new Schema.Parser().parse(arguments[1]);
    var data = new GenericData();
    data.addLogicalTypeConversion(new Conversions.DecimalConversion());
    data.addLogicalTypeConversion(new TimeConversions.DateConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
    System.out.println(SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType());
    try {
      var decoder = DecoderFactory.get().binaryDecoder(HexFormat.of().parseHex(arguments[2]), null);
      System.out.println(new GenericDatumReader<Object>(writer, reader, data).read(null, decoder));
    } catch (Exception error) {
      System.out.println(error.getClass().getSimpleName());
    }
  }
}
JAVA
javac -cp "$folder/jars/*" -d "$folder" "$folder/Seen.java"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import io
import json
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal

import fastavro
from fastavro.read import SchemaResolutionError

CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MOMENT = datetime(2020, 1, 1, 10, 30, tzinfo=timezone.utc)
CASES = (
    (CENTS, CENTS | {"scale": 3}, Decimal("1.25"), ["COMPATIBLE", "0.125"], Decimal("1.25")),
    (MILLIS, MILLIS | {"logicalType": "timestamp-micros"}, MOMENT, ["COMPATIBLE", "1970-01-19T06:17:54.600Z"], MOMENT),
    ({"type": "int", "logicalType": "date"}, MILLIS, date(2020, 1, 1), ["COMPATIBLE", "1970-01-01T00:00:18.262Z"], date(2020, 1, 1)),
    ("long", "int", 5, ["INCOMPATIBLE", "AvroTypeException"], "SchemaResolutionError"),
)


def by_java(writer, reader, data):
    command = ["java", "-cp", f"{sys.argv[1]}:{sys.argv[1]}/jars/*", "Seen", json.dumps(writer), json.dumps(reader), data.hex()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def by_fastavro(writer, reader, data):
    try:
        return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    except SchemaResolutionError as error:
        return type(error).__name__


for writer, reader, value, java, python in CASES:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, fastavro.parse_schema(writer), value)
    seen = by_java(writer, reader, sink.getvalue()), by_fastavro(writer, reader, sink.getvalue())
    print(value, *seen)
    assert seen == (java, python)
PYTHON
