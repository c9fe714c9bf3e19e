#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0) with Kafka 4.4.0: a position in a topic outlives the topic. If the topic is deleted and
# created again while a consumer is paused, the consumer goes on in the new topic at the old one's offset and skips what
# stands before, without an error, also with auto.offset.reset=error. Since Kafka 2.8 (KIP-516) topics have ids, which would tell
# the two apart; they only show in `describe_topics`.
#
# Seen: old0 to old4 of the old topic, then new5, new6, new7 of the new one; no error; two ids. If the new topic ends before
# the position, there is the error _AUTO_OFFSET_RESET.
# Headwater commits the topic's id with each position, and compares them.
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

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(SERVER)


def create(topic, word, count):
    """Create the topic with some records, and give its id."""
    while True:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
            break
        except KafkaException as error:  # it is still being deleted
            assert error.args[0].name() == "TOPIC_ALREADY_EXISTS"
    producer = Producer(SERVER)
    for number in range(count):
        producer.produce(topic, f"{word}{number}")
    assert producer.flush() == 0
    return str(admin.describe_topics(TopicCollection([topic]))[topic].result().topic_id)


def seen(topic, count):
    """What one consumer reads of a topic that is replaced by one of so many records."""
    consumer = Consumer({**SERVER, "group.id": topic, "auto.offset.reset": "error"})
    place = TopicPartition(topic, 0, 0)
    ids = [create(topic, "old", 5)]
    consumer.assign([place])
    read = []
    while len(read) < 5:
        read += [message.value().decode() for message in consumer.consume(5 - len(read), 1)]
    consumer.pause([place])
    admin.delete_topics([topic])[topic].result()
    ids.append(create(topic, "new", count))
    assert consumer.poll(1) is None
    consumer.resume([place])
    while len(read) < 8 and not read[-1].startswith("_"):
        read += [message.error().name() if message.error() else message.value().decode() for message in consumer.consume(1, 1)]
    consumer.close()
    assert len(set(ids)) == 2
    return read


longer, shorter = seen("longer", 8), seen("shorter", 2)
print(longer, shorter, sep="\n")
old = ["old0", "old1", "old2", "old3", "old4"]
assert longer == [*old, "new5", "new6", "new7"]
assert shorter == [*old, "_AUTO_OFFSET_RESET"]
PYTHON
