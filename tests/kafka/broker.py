"""A real Kafka broker: one node in KRaft mode, on 127.0.0.1 only, with four listeners.

Whoever comes by `bootstrap` may do everything. The others have TLS, and their users may do what no access control list
forbids: `secured` with PLAIN, `login` with SCRAM and OAUTHBEARER, `certified` with a certificate of the client.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headwater.tests.kafka import identities
from headwater.tests.kafka.jars import jars
from headwater.tests.ports import free_ports
from headwater.tests.processes import has_ended
from headwater.tests.waiting import wait_until

USERS = {"shop": "hush-shop", "stranger": "hush-stranger"}
"""Users of `secured` with their passwords. Those of `login` are the same with SCRAM."""

_JAVA: Sequence[str] = ("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_KEY_PASSWORD = "changeit"

_LOG4J = """<Configuration status="ERROR"><Appenders><File name="F" fileName="{file}">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></File></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="F"/></Root></Loggers></Configuration>
"""


@dataclass(frozen=True)
class KafkaBroker:
    """A running broker. `certificate`: its own, which clients trust, as PEM. `log4j`: for its tools.

    `keys`: a folder with `client.key` and `client.pem` for `certified`, and with `issuer.key`, which signs the tokens
    that `login` takes.
    """

    bootstrap: str
    secured: str
    certificate: str
    pid: int
    log4j: str
    login: str = ""
    certified: str = ""
    keys: str = ""

    @classmethod
    def from_json(cls, text: str) -> KafkaBroker:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def topic(self, partitions: int = 1, name: str | None = None, **settings: str) -> str:
        """Create a topic and give its name, which no other test has. `settings`: with _ in place of dots."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        wait_until(lambda: len(self.admin.list_topics(name).topics[name].partitions) == partitions)
        return name

    def tool(self, program: str, *arguments: str, standard_input: str = "") -> str:
        """The output of one of Kafka's own programs, which are classes: `PROGRAMS`. It must succeed."""
        command = [*_JAVA, f"-Dlog4j2.configurationFile={self.log4j}", "-cp", f"{jars()}/*", PROGRAMS[program]]
        servers = ["--bootstrap-server", self.bootstrap]
        done = subprocess.run([*command, *servers, *arguments], capture_output=True, text=True, input=standard_input)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


PROGRAMS = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""The classes of Kafka's own programs, by the names of their scripts."""


@contextmanager
def kafka_broker(folder: Path, java: Sequence[str] = _JAVA, **settings: str) -> Iterator[KafkaBroker]:
    """Start a broker with its files in a folder, and remove them after it. `settings`: with _ in place of dots.

    `java`: the program of Java with its options. Those that are omitted start fast, and stay slow.

    For tests that stop it, or that need settings of their own. All others use the fixture `kafka`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.xml").write_text(_LOG4J.format(file=folder / "server.log"))
    _make_key(folder)
    identities.make_keys(folder)
    process: subprocess.Popen[bytes] | None = None
    try:
        while process is None:
            plain, secured, login, certified, controller = free_ports(5)
            more = identities.listeners(login, certified)
            ours = _settings(folder, plain, secured, controller, more) | identities.settings(folder)
            theirs = {name.replace("_", "."): value for name, value in settings.items()}
            (folder / "properties").write_text(
                "".join(f"{name}={value}\n" for name, value in {**ours, **theirs}.items())
            )
            process = _start(folder, plain, java)
        host = "127.0.0.1"
        certificate = ssl.get_server_certificate((host, secured))
        addresses = [f"{host}:{port}" for port in (plain, secured, login, certified)]
        yield KafkaBroker(
            *addresses[:2], certificate, process.pid, f"{folder}/log4j2.xml", *addresses[2:], keys=str(folder)
        )
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def restarted(folder: Path, broker: KafkaBroker) -> Iterator[None]:
    """Kill a broker of `kafka_broker`, and start it again at its addresses with what is on its disk."""
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: has_ended(broker.pid))
    process = None
    while process is None:
        process = _start(folder, int(broker.bootstrap.rpartition(":")[2]))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _start(folder: Path, port: int, java: Sequence[str] = _JAVA) -> subprocess.Popen[bytes] | None:
    """The broker's process, once it answers; None if somebody else has taken one of its ports."""
    program = [
        *java,
        *identities.flags(folder),
        f"-Dlog4j2.configurationFile={folder}/log4j2.xml",
        "-cp",
        f"{jars()}/*",
    ]
    if not (folder / "data").exists():
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one word, as an id may begin with a dash.
        named = f"--cluster-id={cluster}"
        formatted = [*program, "kafka.tools.StorageTool", "format", named, "-c", folder / "properties"]
        for name, password in USERS.items():
            for mechanism in identities.SCRAM:
                formatted += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        subprocess.run(formatted, check=True, stdout=subprocess.DEVNULL)
    with open(folder / "output", "wb") as output:
        command = [*program, "kafka.Kafka", folder / "properties"]
        # In a session of its own: whom Ctrl-C ends may need the broker until then.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})

    def answers() -> bool:
        try:
            return bool(client.list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    try:
        wait_until(lambda: answers() or has_ended(process.pid))
    except BaseException:
        process.kill()
        raise
    if process.poll() is None:
        return process
    said = "".join((folder / name).read_text() for name in ("output", "server.log") if (folder / name).exists())
    if "Address already in use" in said or "SocketServer failed to bind" in said:
        return None
    raise AssertionError(f"the broker has ended: {said[-3000:]}")


def _make_key(folder: Path) -> None:
    """A key of the broker with its certificate."""
    words = [
        "-alias",
        "broker",
        "-keyalg",
        "EC",
        "-dname",
        "CN=127.0.0.1",
        "-ext",
        "san=ip:127.0.0.1",
        "-validity",
        "30",
    ]
    where = ["-storetype", "PKCS12", "-keystore", folder / "key.p12", "-storepass", _KEY_PASSWORD]
    subprocess.run(["keytool", "-genkeypair", *words, *where], check=True, capture_output=True)


def _settings(folder: Path, plain: int, secured: int, controller: int, more: str) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{secured},{more}"
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,"
        f"{identities.PROTOCOLS}",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": f"{folder}/key.p12",
        "ssl.keystore.password": _KEY_PASSWORD,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
        "log.dirs": f"{folder}/data",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.backoff.ms": "500",
        # The default, 128 MB, is taken at once: too much for a small heap.
        "log.cleaner.dedupe.buffer.size": "8388608",
        # Retention goes by the timestamps of records: those of tests are old.
        "log.retention.ms": "-1",
        "log.retention.check.interval.ms": "1000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
