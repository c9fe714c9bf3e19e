"""`headwater debug kafka` says before a run what would stop it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import ANY

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclOperation, ResourceType

from headwater.cli.main import main
from headwater.runtime.ir.topology import KafkaCluster
from headwater.runtime.kafka.admin import KafkaAdmin
from headwater.runtime.kafka.inspection import InspectedTopic, KafkaInspection
from headwater.tests.kafka.broker import USERS, KafkaBroker
from headwater.tests.kafka.copying import produced
from headwater.tests.kafka.shop import debug, reported, shop_project
from headwater.tests.runtime.kafka.topics import allowing_only

NOBODY = "127.0.0.1:1"
SECURED = """          security: {{protocol: sasl_ssl, mechanism: PLAIN, username: {user},
                     password: "{{{{ env_var('HUSHED') }}}}", ca: ca.pem}}
"""


@pytest.mark.kafka
def test_usable_topics_are_shown_with_their_last_records(kafka: KafkaBroker, tmp_path: Path) -> None:
    read, written = kafka.topic(partitions=3), kafka.topic(cleanup_policy="compact", max_message_bytes="2000000")
    produced(kafka, read, [(f"c{number}", {"quantity": number}) for number in range(40)] + [("c1", None)])
    shown = debug(tmp_path, kafka.bootstrap, read, written)
    report = reported(debug(tmp_path, kafka.bootstrap, read, written, "--format", "json"))

    assert shown.exit_code == 0, shown.output
    assert f"main at {kafka.bootstrap}: logged in, 1 broker" in shown.output
    assert "orders: the last 10 records in Kafka" in shown.output
    assert "customer=c39  quantity=39" in shown.output
    orders, totals = report["topics"]["orders"], report["topics"]["totals"]
    assert [sample["timestamp"] for sample in orders["samples"]] == list(range(1031, 1041))
    assert (orders["samples"][-1]["key"], orders["samples"][-1]["value"]) == ({"customer": "c1"}, None)
    assert (orders["partitions"], orders["offsets"], totals["partitions"]) == (3, 41, 1)
    assert totals["settings"]["max.message.bytes"] == "2000000"
    assert {right["resource"].split()[0] for right in totals["rights"]} == {"topic", "group", "transactional"}
    assert {"group shop-kafka-out-totals_0", "group shop-kafka-out-totals_1"} <= {
        right["resource"] for right in totals["rights"]
    }
    assert all(right["allowed"] for topic in (orders, totals) for right in topic["rights"])


@pytest.mark.kafka
def test_what_would_stop_a_run_is_told_with_a_way_out(kafka: KafkaBroker, tmp_path: Path) -> None:
    read = kafka.topic()
    produced(kafka, read, [("a", {"quantity": 1}), ("b", {"quantity": "two"})])
    result = debug(tmp_path, kafka.bootstrap, read, "no-such-topic")

    assert result.exit_code == 1
    assert f"{read}[0]@1 is not as declared: its value: column quantity: 'two' is no int" in result.output
    assert "`on_error: skip` or `dead_letter`" in result.output
    assert "there is no topic no-such-topic" in result.output
    row = CliRunner().invoke(main, ["debug", "profile", "kafka", "--project-dir", str(tmp_path)])
    assert row.exit_code == 1
    assert f"kafka    fail  orders: {read}[0]@1 is not as declared" in row.output


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("settings", "keyed", "found", "stops"),
    [
        (
            {"retention_ms": "604800000"},
            True,
            "for 7d after their timestamps, and the first one of totals is 9d",
            False,
        ),
        ({"message_timestamp_before_max_ms": "1000"}, True, "brokers reject records", True),
        ({"message_timestamp_type": "LogAppendTime", "retention_ms": "1000"}, True, "LogAppendTime", False),
        ({"cleanup_policy": "compact", "retention_ms": "1000"}, False, "so its records need keys", True),
        ({"retention_ms": "864000000"}, True, None, False),
    ],
)
def test_settings_that_lose_or_change_written_records_are_told(
    kafka: KafkaBroker, settings: Mapping[str, str], keyed: bool, found: str | None, stops: bool
) -> None:
    nine_days_ago = int(time.time() * 1000) - 9 * 86_400_000 - 1
    topic = InspectedTopic(
        "totals", kafka.topic(**settings), True, "shop-kafka-out", None, ("0_0",), keyed, nine_days_ago
    )
    (report,) = KafkaInspection("main", KafkaCluster(kafka.bootstrap)).report([topic], 1).topics
    assert [(finding.what, finding.stops) for finding in report.findings] == [(ANY, stops)] * (found is not None)
    assert all(found in finding.what for finding in report.findings if found)


@pytest.mark.kafka
def test_group_at_which_a_copy_cannot_begin_is_told(kafka: KafkaBroker, tmp_path: Path) -> None:
    read, written = kafka.topic(), kafka.topic()
    shop_project(tmp_path, kafka.bootstrap, read, written)
    topics = tmp_path / "topics" / "all.yml"
    topics.write_text(topics.read_text().replace("key: string}", f"key: string, start: {{group: old-{read}}}}}", 1))
    shown = CliRunner().invoke(main, ["debug", "kafka", "--project-dir", str(tmp_path)])
    assert shown.exit_code == 1
    assert f"group old-{read} has no offset in {read}" in shown.output
    KafkaAdmin(KafkaCluster(kafka.bootstrap)).commit(f"old-{read}", read, {0: 0})
    assert CliRunner().invoke(main, ["debug", "kafka", "--project-dir", str(tmp_path)]).exit_code == 0


@pytest.mark.kafka
def test_denied_rights_are_told_with_the_command_that_grants_them(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHED", USERS["stranger"])
    (tmp_path / "ca.pem").write_text(kafka.certificate)
    read, written = kafka.topic(), kafka.topic()
    security = SECURED.format(user="stranger")
    with (
        allowing_only(kafka, ResourceType.TOPIC, read, AclOperation.DESCRIBE),
        allowing_only(kafka, ResourceType.TOPIC, written, AclOperation.READ),
        allowing_only(kafka, ResourceType.GROUP, "shop-kafka", AclOperation.DESCRIBE),
        allowing_only(kafka, ResourceType.TRANSACTIONAL_ID, "shop-kafka-out-debug", AclOperation.DESCRIBE),
    ):
        result = debug(tmp_path, kafka.secured, read, written, security=security)

    assert result.exit_code == 1
    assert f"may not read topic {read}" in result.output
    assert f"may not write and describe_configs topic {written}" in result.output
    assert "may not read group shop-kafka" in result.output
    assert "may not write transactional id shop-kafka-out-debug" in result.output
    assert f"kafka-acls --add --allow-principal User:<user> --operation Read --topic {read}" in result.output


@pytest.mark.kafka
def test_wrong_password_is_told_and_shown_nowhere(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHED", "hush-not-this")
    (tmp_path / "ca.pem").write_text(kafka.certificate)
    result = debug(tmp_path, kafka.secured, "a", "b", security=SECURED.format(user="shop"))

    assert result.exit_code == 1
    assert "the brokers do not accept the login" in result.output
    assert "`username`, `password` or `mechanism`" in result.output
    assert "hush" not in result.output


def test_broker_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = debug(tmp_path, NOBODY, "a", "b")
    assert result.exit_code == 1
    assert f"main at {NOBODY}: cannot be used" in result.output
    assert "Connection refused" in result.output


def test_target_without_kafka_is_told(tmp_path: Path) -> None:
    result = debug(tmp_path, NOBODY, "a", "b", "--target", "local")
    assert result.exit_code == 2
    assert "the target local has no cluster of Kafka" in result.output
