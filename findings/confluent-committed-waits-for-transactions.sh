#!/bin/sh
# confluent-kafka 2.16.1 with Kafka 4.4.0: `Consumer.committed`, which is documented to give the committed offsets, does not give them
# while a transaction carries a newer offset of the group. With the default isolation.level it asks again until it times
# out (the broker answers UNSTABLE_OFFSET_COMMIT, KIP-447), though the older offset is committed and counts until the
# transaction ends. A transaction that nobody ends blocks a reader of positions for its timeout, a minute by default.
#
# Seen, with offset 1 committed and 2 in an open transaction: _TIMED_OUT after 5 s; with isolation.level=read_uncommitted, and by
# AdminClient.list_consumer_group_offsets, 1; after the commit 2 by all.
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

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
admin = AdminClient(SERVER)
admin.create_topics([NewTopic("topic", 1, 1)])["topic"].result()


def committed(isolation):
    consumer = Consumer({**SERVER, "group.id": "group", "isolation.level": isolation})
    try:
        return consumer.committed([TopicPartition("topic", 0)], timeout=5)[0].offset
    except KafkaException as error:
        return error.args[0].name()
    finally:
        consumer.close()


def seen():
    wanted = ConsumerGroupTopicPartitions("group", [TopicPartition("topic", 0)])
    listed = admin.list_consumer_group_offsets([wanted])["group"].result().topic_partitions[0].offset
    return committed("read_committed"), committed("read_uncommitted"), listed


producer = Producer({**SERVER, "transactional.id": "seen"})
producer.init_transactions()
group = Consumer({**SERVER, "group.id": "group"}).consumer_group_metadata()
for offset in (1, 2):
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("topic", 0, offset)], group)
    if offset == 1:
        producer.commit_transaction()
        while (before := committed("read_committed")) == "_TIMED_OUT":  # the markers of the commit are being written
            pass
during = seen()
producer.commit_transaction()
while committed("read_committed") == "_TIMED_OUT":
    pass
after = seen()
print(before, during, after)
assert before == 1
assert during == ("_TIMED_OUT", 1, 1)
assert after == (2, 2, 2)
PYTHON
