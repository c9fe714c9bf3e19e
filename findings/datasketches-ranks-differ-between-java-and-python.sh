#!/bin/sh
# datasketches 5.2.0 (Python) beside org.apache.datasketches:datasketches-java 6.2.0: the same bytes of a KLL sketch give other ranks
# and quantiles. Java counts the value itself unless told otherwise (INCLUSIVE), Python does not (inclusive=False).
# So a median that Spark's `kll_sketch_get_quantile` gives, which is Java's, is not the one that Python gives.
#
# Seen, for 1, 2, 3 and 4: median 2.0 in Java, 3.0 in Python; rank of 2: 0.5 in Java, 0.25 in Python. With inclusive=True
# Python has Java's.
#
# Needs Java 17 or later, and Maven.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datasketches==5.2.0
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>seen</groupId><artifactId>seen</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.datasketches</groupId><artifactId>datasketches-java</artifactId><version>6.2.0</version>
    </dependency>
  </dependencies>
</project>
XML
(cd "$folder" && mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars)
cat >"$folder/Seen.java" <<'JAVA'
import java.util.HexFormat;
import org.apache.datasketches.kll.KllDoublesSketch;

public class Seen {
  public static void main(String[] arguments) {
    var sketch = KllDoublesSketch.newHeapInstance(200);
    for (int value = 1; value <= 4; value++) sketch.update(value);
    System.out.println(HexFormat.of().formatHex(sketch.toByteArray()));
    System.out.println(sketch.getQuantile(0.5) + " " + sketch.getRank(2));
  }
}
JAVA
java -cp "$folder/jars/*" "$folder/Seen.java" >"$folder/java"
"$folder/venv/bin/python" - "$folder/java" <<'PYTHON'
import sys

from datasketches import kll_doubles_sketch

with open(sys.argv[1]) as lines:
    data, java = lines.read().splitlines()
sketch = kll_doubles_sketch.deserialize(bytes.fromhex(data))
python = sketch.get_quantile(0.5), sketch.get_rank(2)
inclusive = sketch.get_quantile(0.5, inclusive=True), sketch.get_rank(2, inclusive=True)
print(java, python, inclusive)
assert java == "2.0 0.5"
assert python == (3.0, 0.25)
assert inclusive == (2.0, 0.5)
PYTHON
