#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0): an AdminClient that has asked for the offsets of a group once does not find the group's
# coordinator again after its broker was restarted at the same address. Each later request of groups times out, while other
# requests of the same client are answered, and so are groups by a new client.
#
# Seen: before the restart -1001 (no offset); after it, five times, _TIMED_OUT after 5 s; the list of topics is answered; a
# new client says -1001.
# Headwater makes a new client after such an error.
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
"$folder/venv/bin/python" - "$folder" "127.0.0.1:$1" <<'PYTHON'
import subprocess
import sys

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[2], "log_level": 0}


def start():
    process = subprocess.Popen([f"{sys.argv[1]}/kafka", "kafka.Kafka", f"{sys.argv[1]}/properties"])
    client = AdminClient(SERVER)
    while True:
        try:
            client.list_topics(timeout=1)
            return process
        except KafkaException:
            assert process.poll() is None


def offset(client):
    wanted = ConsumerGroupTopicPartitions("group", [TopicPartition("topic", 0)])
    try:
        return client.list_consumer_group_offsets([wanted], request_timeout=5)["group"].result().topic_partitions[0].offset
    except KafkaException as error:
        return error.args[0].name()


broker = start()
try:
    client = AdminClient(SERVER)
    client.create_topics([NewTopic("topic", 1, 1)])["topic"].result()
    before = offset(client)
    while before == "_TIMED_OUT":  # the topic of offsets is being created
        before = offset(client)
    broker.kill()
    broker.wait()
    broker = start()
    new = offset(AdminClient(SERVER))
    while new == "_TIMED_OUT":  # the coordinator reads its log
        new = offset(AdminClient(SERVER))
    after = [offset(client) for _ in range(5)]
    topics = sorted(client.list_topics(timeout=10).topics)
    print(before, after, topics, new)
    assert (before, new) == (-1001, -1001)
    assert after == ["_TIMED_OUT"] * 5
    assert "topic" in topics
finally:
    broker.kill()
    broker.wait()
PYTHON
