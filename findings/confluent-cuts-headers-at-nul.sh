#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0): names of headers, and values of headers that are given as text, end at their first NUL,
# without an error. Two names that differ behind it become one. A value given as bytes is whole, and so is the same text as
# the key or the value of a record. The protocol gives names and values a length, and kafka-python 3.0.12 writes them whole.
#
# Seen, read by kafka-python, of the text "x\0y": as name of a header "x", as its value b"x", as bytes b"x\0y", as key b"x\0y"; of a
# header by kafka-python the name "x\0y". confluent-kafka reads that name as "x" too.
#
# Needs Java 17 or later, and Maven, which fetches the broker (Apache Kafka 4.4.0). It listens on 127.0.0.1.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1 kafka-python==3.0.12
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>seen</groupId><artifactId>seen</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.4.0</version></dependency>
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
"$folder/venv/bin/python" - "127.0.0.1:$1" <<'PYTHON'
import sys

import kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
TEXT = "x\0y"
admin = AdminClient(SERVER)
admin.create_topics([NewTopic("headers", 1, 1)])["headers"].result()
producer = Producer(SERVER)
producer.produce("headers", b"", key=TEXT, headers=[(TEXT, TEXT), ("bytes", TEXT.encode())])
assert producer.flush() == 0
kafka.KafkaProducer(bootstrap_servers=sys.argv[1]).send("headers", b"", headers=[(TEXT, TEXT.encode())]).get()

by_python = kafka.KafkaConsumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
by_python.assign([kafka.TopicPartition("headers", 0)])
by_python.seek_to_beginning()
first, second = next(by_python), next(by_python)
by_python.close()
consumer = Consumer({**SERVER, "group.id": "headers"})
consumer.assign([TopicPartition("headers", 0, 1)])
again = None
while again is None:
    again = consumer.poll(1)
consumer.close()
print(first.key, first.headers, second.headers, again.headers())
assert first.key == b"x\0y"
assert list(first.headers) == [("x", b"x"), ("bytes", b"x\0y")]
assert list(second.headers) == [("x\0y", b"x\0y")]
assert again.headers() == [("x", b"x\0y")]
PYTHON
