#!/bin/sh
# confluent-kafka 2.16.1: `Producer.produce_batch` ignores the partition of a message, which its documentation says to override that of
# the batch, and leaves out headers without an error (a timestamp is refused). It also takes any misspelt key. `produce` with
# the same arguments does what they say.
#
# Seen, with 3 partitions: nine messages for partition 2 -> partitions {0, 1, 2}, by their keys; the same in a batch for
# partition 0 -> {0}; headers -> None. By `produce`: {2}, and the headers.
#
# Needs Java 17 or later, and Maven, which fetches the broker (Apache Kafka 4.4.0). It listens on 127.0.0.1.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1
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

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin, producer = AdminClient(SERVER), Producer(SERVER)
messages = [{"key": b"%d" % number, "value": b"", "partition": 2, "headers": [("h", b"x")]} for number in range(9)]


def seen(topic, produce):
    """The partitions and the headers of nine messages."""
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result()
    produce(topic)
    assert producer.flush() == 0
    consumer = Consumer({**SERVER, "group.id": topic})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    records = []
    while len(records) < 9:
        records += consumer.consume(9 - len(records), 1)
    consumer.close()
    return {record.partition() for record in records}, records[0].headers()


one_by_one = seen("one-by-one", lambda topic: [producer.produce(topic, **message) for message in messages])
batch = seen("batch", lambda topic: producer.produce_batch(topic, messages))
batch_of_0 = seen("batch-of-0", lambda topic: producer.produce_batch(topic, messages, partition=0))
print(one_by_one, batch, batch_of_0)
assert one_by_one == ({2}, [("h", b"x")])
assert batch == ({0, 1, 2}, None)
assert batch_of_0 == ({0}, None)
PYTHON
