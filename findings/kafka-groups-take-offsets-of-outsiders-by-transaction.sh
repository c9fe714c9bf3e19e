#!/bin/sh
# Kafka 4.4.0 with confluent-kafka 2.16.1: who may move the offsets of a group that has a live member depends on the call and on the
# group's protocol. A client that is no member is refused by `commit` (UNKNOWN_MEMBER_ID) in both protocols. The same client may set
# the same offset by `send_offsets_to_transaction` in a group of the protocol `classic`, under the feet of the member; in one of
# the protocol `consumer` (KIP-848) it may not. So a program that moved offsets by transactions fails once the group is upgraded.
#
# Seen: classic: commit UNKNOWN_MEMBER_ID, transaction 7 committed; consumer: commit UNKNOWN_MEMBER_ID, transaction UNKNOWN_MEMBER_ID.
# Without a member all four are taken.
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

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

SERVER = {"bootstrap.servers": sys.argv[1], "log_level": 0}
PLACE = [TopicPartition("topic", 0, 7)]
admin = AdminClient(SERVER)
admin.create_topics([NewTopic("topic", 1, 1)])["topic"].result()


def outcome(call):
    """What is committed then, or the error."""
    try:
        return call()[0].offset
    except KafkaException as error:
        return error.args[0].name()


def seen(protocol, alive):
    group = {**SERVER, "group.id": f"{protocol}-{alive}", "group.protocol": protocol}
    member, outsider = Consumer(group), Consumer(group)
    if alive:
        member.subscribe(["topic"])
        while not member.assignment():
            member.poll(0.2)
    outsider.assign([TopicPartition("topic", 0)])
    producer = Producer({**SERVER, "transactional.id": f"{protocol}-{alive}"})
    producer.init_transactions()

    def in_transaction():
        producer.begin_transaction()
        try:
            producer.send_offsets_to_transaction(PLACE, outsider.consumer_group_metadata())
        except KafkaException:
            producer.abort_transaction()
            raise
        producer.commit_transaction()
        return outsider.committed(PLACE, timeout=60)

    found = outcome(lambda: outsider.commit(offsets=PLACE, asynchronous=False)), outcome(in_transaction)
    member.close()
    outsider.close()
    return found


results = {(protocol, alive): seen(protocol, alive) for protocol in ("classic", "consumer") for alive in (False, True)}
print(results)
assert results == {
    ("classic", False): (7, 7),
    ("classic", True): ("UNKNOWN_MEMBER_ID", 7),
    ("consumer", False): (7, 7),
    ("consumer", True): ("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"),
}
PYTHON
