#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0) beside Kafka's client for Java 4.4.0: what becomes of a producer whose transaction the broker
# has aborted, as it took longer than transaction.timeout.ms. librdkafka reports that a newer instance has fenced it, though
# there is none, and is of no more use: abort and a new transaction fail as well. Java's producer aborts and goes on. So code
# that goes by the word "fenced", or by Java's example, ends programs that only were slow.
#
# Seen, after one more record: librdkafka's commit _FENCED, fatal, without txn_requires_abort, and errors of abort and begin too; a new
# producer of the same name works. Java: commit InvalidProducerEpochException, then abort and another transaction without an error.
# Headwater makes a new producer after a fatal error.
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
transaction.abort.timed.out.transaction.cleanup.interval.ms=500
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
cat >"$folder/Seen.java" <<'JAVA'
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

public class Seen {
  public static void main(String[] arguments) throws Exception {
    var settings = new Properties();
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("transactional.id", "java");
    settings.put("transaction.timeout.ms", "1000");
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      producer.initTransactions();
      producer.beginTransaction();
      producer.send(new ProducerRecord<>("java", "")).get();
      System.out.println("written");
      System.in.read();
      try {
        producer.send(new ProducerRecord<>("java", ""));
        producer.commitTransaction();
      } catch (KafkaException error) {
        System.out.println(error.getClass().getSimpleName());
      }
      producer.abortTransaction();
      System.out.println("aborted");
      producer.beginTransaction();
      producer.send(new ProducerRecord<>("java", "")).get();
      producer.commitTransaction();
      System.out.println("committed");
    }
  }
}
JAVA
"$folder/venv/bin/python" - "$folder" "127.0.0.1:$1" <<'PYTHON'
import subprocess
import sys
import time

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

FOLDER, SERVER = sys.argv[1], {"bootstrap.servers": sys.argv[2], "log_level": 0}
admin = AdminClient(SERVER)
for topic in ("python", "java"):
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()


def wait_for_abort(topic):
    """Wait until its one record and the marker of the abort are there."""
    place, level = TopicPartition(topic, 0), IsolationLevel.READ_COMMITTED
    while admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=level)[place].result().offset < 2:
        time.sleep(0.5)


def outcome(call):
    try:
        call()
        return "ok"
    except KafkaException as error:
        kind = error.args[0]
        return kind.name(), kind.fatal(), kind.txn_requires_abort()


def producer():
    made = Producer({**SERVER, "transactional.id": "python", "transaction.timeout.ms": 1000})
    made.init_transactions()
    return made


slow = producer()
slow.begin_transaction()
slow.produce("python", b"")
assert slow.flush() == 0
wait_for_abort("python")
slow.produce("python", b"")
python = [outcome(call) for call in (slow.commit_transaction, slow.abort_transaction, slow.begin_transaction)]
new = producer()
again = [outcome(call) for call in (new.begin_transaction, new.commit_transaction)]

command = ["java", "-cp", f"{FOLDER}/jars/*", f"{FOLDER}/Seen.java", sys.argv[2]]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
    assert process.stdout.readline() == "written\n"
    wait_for_abort("java")
    java = process.communicate("go on\n")[0].splitlines()
print(python, again, java, sep="\n")
assert python[0] == ("_FENCED", True, False)
assert "ok" not in python
assert again == ["ok", "ok"]
assert java == ["InvalidProducerEpochException", "aborted", "committed"]
PYTHON
