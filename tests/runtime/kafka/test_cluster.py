"""What cannot be reached, or is not allowed, is told with its cause and without secrets."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation, ResourceType

from headwater.errors import UnavailableError
from headwater.runtime.ir.topology import KafkaCluster
from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.cluster import Asking, Connections
from headwater.runtime.kafka.errors import (
    KafkaDeniedError,
    KafkaLoginError,
    KafkaSettingError,
    KafkaTlsError,
    KafkaUnreachableError,
)
from headwater.runtime.kafka.reader import KafkaReader
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.runtime.kafka.topics import allow_only, producer, put, range_of, secured_cluster, values

NOBODY = "127.0.0.1:1"


def test_broker_that_does_not_answer_is_named_with_the_cause() -> None:
    with pytest.raises(KafkaUnreachableError) as caught:
        KafkaAdmin(KafkaCluster(NOBODY), patience=3).topic("t")

    assert f"Kafka at {NOBODY}: no broker answers" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "`bootstrap_servers`" in caught.value.hint


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_question_to_a_broker_that_starts_is_repeated_and_then_an_outage(code: int) -> None:
    answers = [KafkaException(KafkaError(code)), None]

    def ask() -> list[Future[str]]:
        future: Future[str] = Future()
        if (error := answers[0] if len(answers) == 1 else answers.pop(0)) is not None:
            future.set_exception(error)
        else:
            future.set_result("yes")
        return [future]

    def asked(patience: float) -> list[str]:
        asking = Asking(Connections(KafkaCluster(NOBODY)), lambda _: None, patience)
        return asking.answers("reading offsets", ask, ["t"])

    assert asked(60) == ["yes"]
    answers[:] = [KafkaException(KafkaError(code))]
    with pytest.raises(UnavailableError):
        asked(0)


def test_unknown_host_is_named() -> None:
    with pytest.raises(KafkaUnreachableError, match=r"Failed to resolve 'no-such-host\.invalid:9092'"):
        KafkaAdmin(KafkaCluster("no-such-host.invalid:9092"), patience=3).topic("t")


@pytest.mark.parametrize(
    ("setting", "value", "cause"),
    [
        ("foo.bar", "1", 'No such configuration property: "foo.bar"'),
        ("sasl.mechanism", "GSSAPI", "GSSAPI"),
        ("isolation.level", "read_uncommitted", "isolation.level cannot be set"),
    ],
)
def test_setting_that_the_client_does_not_take_is_named(setting: str, value: str, cause: str) -> None:
    with pytest.raises(KafkaSettingError, match=cause):
        KafkaAdmin(KafkaCluster(NOBODY, {setting: value, "security.protocol": "SASL_SSL"})).topic("t")


def test_cluster_does_not_show_its_settings() -> None:
    assert "hush" not in repr(KafkaCluster(NOBODY, {"sasl.password": "hush"}))


def test_missing_client_is_told_with_the_extra_that_has_it() -> None:
    code = (
        "import sys; sys.modules['confluent_kafka'] = None; "
        + "from headwater.runtime.kafka.worker import offsets_of; offsets_of({})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "KafkaClientMissingError" in done.stderr
    assert "pip install 'headwater[kafka]'" in done.stderr


@pytest.mark.kafka
def test_user_with_a_password_reads_over_tls(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1")
    admin, reader = KafkaAdmin(secured_cluster(kafka)), KafkaReader(secured_cluster(kafka), "reader")

    assert values(reader, range_of(admin, topic)) == [(0, b"1")]
    reader.close()


@pytest.mark.kafka
def test_wrong_password_is_told_before_the_patience_ends_and_not_shown(kafka: KafkaBroker) -> None:
    cluster = secured_cluster(kafka, sasl_password="hush-wrong")

    with pytest.raises(KafkaLoginError, match="Invalid username or password") as caught:
        KafkaAdmin(cluster, patience=3600).topic("t")
    assert "hush" not in str(caught.value)
    assert kafka.secured in str(caught.value)


@pytest.mark.kafka
def test_mechanism_that_brokers_do_not_have_is_told(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaLoginError, match="broker's supported mechanisms: PLAIN"):
        KafkaAdmin(secured_cluster(kafka, sasl_mechanism="SCRAM-SHA-512"), patience=3600).topic("t")


@pytest.mark.kafka
def test_unknown_certificate_is_told(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaTlsError, match="certificate could not be verified"):
        KafkaAdmin(secured_cluster(kafka, ssl_ca_pem=None), patience=3600).topic("t")


@pytest.mark.kafka
def test_tls_for_a_broker_without_it_is_told(kafka: KafkaBroker) -> None:
    cluster = KafkaCluster(kafka.bootstrap, secured_cluster(kafka).client)

    with pytest.raises(KafkaTlsError, match="connecting to a PLAINTEXT broker listener"):
        KafkaAdmin(cluster, patience=3600).topic("t")


@pytest.mark.kafka
def test_tls_that_is_missing_is_hinted_at(kafka: KafkaBroker) -> None:
    with pytest.raises(KafkaUnreachableError) as caught:
        KafkaAdmin(KafkaCluster(kafka.secured), patience=2).topic("t")
    assert "`security`" in caught.value.hint


@pytest.mark.kafka
def test_topic_that_a_user_may_not_see_is_told(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    hidden, unread = kafka.topic(), kafka.topic()
    put(producer(kafka), unread, b"1")
    allow_only(kafka, ResourceType.TOPIC, hidden, AclOperation.CREATE)
    allow_only(kafka, ResourceType.TOPIC, unread, AclOperation.DESCRIBE)
    cluster = secured_cluster(kafka, "stranger")

    with pytest.raises(KafkaDeniedError, match=rf"\({hidden}\) is not allowed: .*Topic authorization failed") as caught:
        KafkaAdmin(cluster).topic(hidden)
    assert "Describe" in caught.value.hint
    reader = KafkaReader(cluster, "reader")
    with pytest.raises(KafkaDeniedError, match=f"reading topic {unread} is not allowed"):
        values(reader, range_of(admin, unread))
    reader.close()


@pytest.mark.kafka
def test_denied_group_prevents_no_reading(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1")
    allow_only(kafka, ResourceType.GROUP, f"test-{topic}", AclOperation.DELETE)
    cluster = secured_cluster(kafka, "stranger")
    reader = KafkaReader(cluster, topic)

    assert values(reader, range_of(admin, topic)) == [(0, b"1")]
    with pytest.raises(KafkaDeniedError, match="Group authorization failed"):
        KafkaAdmin(cluster).commit(f"test-{topic}", topic, {0: 1})
    reader.close()


@pytest.mark.kafka
def test_reader_with_a_wrong_password_is_refused_as_questions_are(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    topic = kafka.topic()
    put(producer(kafka), topic, b"1")
    reader = KafkaReader(secured_cluster(kafka, sasl_password="hush-wrong"), "reader", patience=3600)

    with pytest.raises(KafkaLoginError):
        values(reader, range_of(admin, topic))
    reader.close()
