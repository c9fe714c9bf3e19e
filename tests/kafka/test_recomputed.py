"""What Kafka gets of a result that is rebuilt: nothing, all of it once, or what differs."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from headwater.runtime.changes.moves import IN_KAFKA
from headwater.runtime.changes.planning import Planned, plan_on
from headwater.runtime.ir.topology import Recomputed, Topic
from headwater.runtime.kafka.worker import offsets_of, positions_to_forget
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.progress.resets import refresh_fully
from headwater.runtime.progress.rewinding import Whence, plan_rewind, rewind
from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.copying import PARTITIONS, Copying, produced, read_all
from headwater.tests.runtime.kafka.topics import recreate

pytestmark = pytest.mark.kafka

MORE = Topic("words", PARTITIONS, "word string", "n bigint, m bigint", writer="p-kafka")
"""The declaration of the rebuilt result."""


@pytest.fixture
def copying(kafka: KafkaBroker, tmp_path: Path) -> Copying:
    """Records of some words are in Kafka."""
    copying = Copying(kafka, tmp_path, kafka.topic(partitions=1), kafka.topic(partitions=3))
    produced(kafka, copying.source, [(f"k{n % 7}", {"n": n, "m": -n}) for n in range(50)])
    assert [result.error for result in copying.run()] == [None, None]
    assert len(written(copying)) == 50
    return copying


def written(copying: Copying) -> list[tuple[str, Any]]:
    """The records of the target, by partition of the target and in their order."""
    messages = (message for each in read_all(copying.broker, copying.target, 3) for message in each)
    return [((m.key() or b"").decode(), None if m.value() is None else json.loads(m.value() or b"")) for m in messages]


def by_key(records: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, value in records:
        found.setdefault(key, []).append(value)
    return found


def test_rebuild_is_refused_before_anything_is_rebuilt(copying: Copying) -> None:
    changed = replace(copying, words=MORE)
    log = PlacedLog(EmbeddedLog(copying.root / "log"))
    planned = Planned("p", copying.root, [changed.incoming, changed.outgoing], {"p-kafka", "p-kafka-out"})
    plans = plan_on(log, "log", planned).applications
    (refused,) = [change for plan in plans for change in plan.changes if change.kind == IN_KAFKA]
    assert str(refused) == (
        f"topic words: {copying.target} in Kafka has records of the present result, which it cannot take back"
    )
    assert [str(way) for way in refused.ways] == [
        "undo the change",
        "apply it from the next record on, and keep existing results: headwater run --continue",
        "write `recomputed: append` under `kafka` of words: all records of the new result follow those that "
        f"{copying.target} has",
        "write another `topic` there: it gets the new result",
    ]
    copy, out = changed.run()
    assert copy.status == "failed"
    assert "write `recomputed: append`" in str(copy.error)
    assert (out.status, out.error) == ("caught_up", None)
    assert not log.places().recomputed
    assert len(written(copying)) == 50


def test_all_records_of_the_rebuilt_result_follow_once(copying: Copying) -> None:
    changed = replace(copying, words=MORE, recomputed="append")
    for _ in range(2):
        assert [(result.status, result.error) for result in changed.run()] == [("caught_up", None)] * 2
    produced(copying.broker, copying.source, [("k0", {"n": 50, "m": 0})])
    changed.run()
    for number, values in enumerate(by_key(written(copying))[f"k{key}"] for key in range(7)):
        numbers = range(number, 50, 7)
        new = [{"n": n, "m": -n} for n in numbers] + ([{"n": 50, "m": 0}] if number == 0 else [])
        assert values == [{"n": n} for n in numbers] + new


def test_only_differences_of_a_table_are_written(copying: Copying, kafka: KafkaBroker) -> None:
    """k5 and k6 are gone from the rebuilt result: the topic in Kafka that it is made of was created again."""
    table = replace(copying, words=replace(MORE, cleanup="compact"), recomputed="changes")
    other = replace(table, source=kafka.topic(partitions=1))
    produced(kafka, other.source, [(f"k{n % 5}", {"n": n, "m": 0}) for n in range(40)])
    produced(kafka, other.source, [("k0", {"n": 1, "m": 2}), ("k7", {"n": 3, "m": 4}), ("k1", None)])
    first = len(written(copying))
    for _ in range(2):
        assert [(result.status, result.error) for result in other.run()] == [("caught_up", None)] * 2
    assert len(written(copying)) == first + 8
    assert {key: values[-1] for key, values in by_key(written(copying)).items()} == {
        "k0": {"n": 1, "m": 2},
        "k1": None,
        "k2": {"n": 37, "m": 0},
        "k3": {"n": 38, "m": 0},
        "k4": {"n": 39, "m": 0},
        "k5": None,
        "k6": None,
        "k7": {"n": 3, "m": 4},
    }
    again = replace(other, words=replace(MORE, cleanup="compact", value="n bigint, m bigint, o string"))
    again.run()
    assert len(written(copying)) == first + 8 + 5  # other columns: the values of all keys differ
    produced(kafka, other.source, [("k0", {"n": 5, "m": 6})])
    again.run()
    assert by_key(written(copying))["k0"][-2:] == [{"n": 1, "m": 2, "o": None}, {"n": 5, "m": 6, "o": None}]


def test_keys_of_a_partition_that_is_empty_now_are_deleted(copying: Copying, kafka: KafkaBroker) -> None:
    table = replace(copying, words=replace(MORE, cleanup="compact"), recomputed="changes")
    emptied = replace(table, source=kafka.topic(partitions=1))
    produced(kafka, emptied.source, [("k0", {"n": 49, "m": -49})])
    emptied.run()
    assert {key: values[-1] for key, values in by_key(written(copying)).items()} == {
        "k0": {"n": 49, "m": -49},
        **{f"k{number}": None for number in range(1, 7)},
    }
    assert [result.status for result in emptied.run()] == ["caught_up"] * 2
    assert len(written(copying)) == 50 + 7


class Killed(BaseException):
    """Ends a run where it is."""


class KillingAt:
    """An observer that ends the run at an event."""

    def __init__(self, events: int) -> None:
        self.left = events

    def on(self, _: object) -> None:
        self.left -= 1
        if not self.left:
            raise Killed


@pytest.mark.parametrize("recomputed", ["append", "changes"])
def test_runs_that_end_at_any_event_lose_and_repeat_nothing(copying: Copying, recomputed: Recomputed) -> None:
    changed = replace(copying, words=replace(MORE, cleanup="compact"), recomputed=recomputed)
    kills = 0
    for event in itertools.count(1):
        killing = KillingAt(event)
        try:
            changed.run(observer=killing)
        except Killed:
            kills += 1
        if killing.left > 0:
            break
    assert kills > 5
    for number, values in enumerate(by_key(written(copying))[f"k{key}"] for key in range(7)):
        new = [{"n": n, "m": -n} for n in range(number, 50, 7)]
        assert values == [{"n": each["n"]} for each in new] + (new if recomputed == "append" else new[-1:])


def test_full_refresh_of_what_writes_to_kafka_writes_all_again(copying: Copying) -> None:
    """Once its positions are gone: before, Kafka knows how far it is."""
    log, mirror = PlacedLog(EmbeddedLog(copying.root / "log")), "p-kafka-out"
    refresh_fully(log, copying.root / "machine", [mirror])
    copying.run()
    assert len(written(copying)) == 50
    forget = positions_to_forget(copying.settings.kafka, mirror)
    refresh_fully(log, copying.root / "machine", [mirror])
    forget()
    copying.run()
    assert len(written(copying)) == 100


@pytest.mark.parametrize(("whence", "numbers"), [("earliest", range(52)), ("latest", range(51, 52))])
def test_target_that_was_created_again_gets_no_record_until_somebody_decides(
    copying: Copying, kafka: KafkaBroker, whence: Literal["earliest", "latest"], numbers: range
) -> None:
    recreate(kafka, copying.target, 3)
    produced(kafka, copying.source, [("k1", {"n": 50, "m": 0})])
    copy, out = copying.run()
    assert (copy.status, out.status) == ("caught_up", "failed")
    assert f"{copying.target} in Kafka was deleted and created again" in str(out.error)
    assert "headwater rewind kafka-out --topic words --to earliest" in str(out.raised and out.raised.hint)
    assert written(copying) == []
    clusters = offsets_of(copying.settings.kafka)
    log = PlacedLog(EmbeddedLog(copying.root / "log"))
    plan = plan_rewind(log, "p-kafka-out", "words", Whence(whence), fed_by="p-seed", kafka=lambda: clusters)
    assert (plan.is_needed, plan.skipped) == (True, 1 if whence == "latest" else 0)
    rewind(log, copying.root / "machine", plan)
    produced(kafka, copying.source, [("k1", {"n": 51, "m": 0})])
    assert [result.error for result in copying.run()] == [None, None]
    assert sorted(value["n"] for _, value in written(copying)) == [*numbers]
