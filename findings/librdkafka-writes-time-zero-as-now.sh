#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0): a record with the timestamp 0, 1 January 1970, is written with the present time. 1 and
# numbers before 1970 are written as they are. In the protocol 0 is a timestamp like any other (none is -1), and
# kafka-python 3.0.12 writes it.
#
# Seen: confluent-kafka 1 -> 1, -5 -> -5, 0 -> the present time; kafka-python 0 -> 0.
# Headwater writes 1 in place of 0 and of earlier times.
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
import time

import kafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(SERVER)
admin.create_topics([NewTopic("times", 1, 1)])["times"].result()
began = int(time.time() * 1000)
producer = Producer(SERVER)
for timestamp in (1, -5, 0):
    producer.produce("times", b"", timestamp=timestamp)
assert producer.flush() == 0
kafka.KafkaProducer(bootstrap_servers=sys.argv[1]).send("times", b"", timestamp_ms=0).get()
consumer = Consumer({**SERVER, "group.id": "times"})
consumer.assign([TopicPartition("times", 0, 0)])
records = []
while len(records) < 4:
    records += consumer.consume(4 - len(records), 1)
consumer.close()
times = [record.timestamp()[1] for record in records]
print(times, "began", began)
assert times[:2] == [1, -5]
assert times[2] >= began
assert times[3] == 0
PYTHON
