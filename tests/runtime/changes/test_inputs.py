"""Topics that the log knows otherwise than the project: nobody goes on with them, and the error leads out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.changes.comparison import topic_changes
from headwater.runtime.changes.model import Change, Verdict
from headwater.runtime.ir.topology import GlobalTable, Store, Topic, Topology
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord, SeedSource
from headwater.runtime.log.declared_topics import WriterChangedError, check_writers, declared_topic, gone_with
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.tests.runtime.driver.commits import PROJECT, Applications, part, segment, topic, topology

RAW = topic("raw")
MADE = topic("made", writer="p-old")
MOVED = replace(MADE, writer="p-new")
OLD = topology("old", part("makes", (RAW,), (MADE,)))
NEW = topology("new", part("makes", (RAW,), (MOVED,)))


@pytest.fixture
def log(tmp_path) -> EmbeddedLog:
    return EmbeddedLog(tmp_path / "log")


@pytest.fixture
def applications(log: EmbeddedLog) -> Applications:
    return Applications(log)


def found(log: EmbeddedLog, declared: Topology) -> list[Change]:
    changes = list(topic_changes(declared, Committed(log, declared)))
    assert all(each.verdict is Verdict.ERROR for each in changes)
    return changes


def said(change: Change) -> str:
    return " | ".join((change.what, *change.lines))


def commands(change: Change) -> list[str]:
    return [way.command for way in change.ways if way.command]


def feed(log: EmbeddedLog, fed: Topic, seeded: bool = True) -> None:
    source = SeedSource(fed.name, "1", "seeds/raw.csv") if seeded else None
    record = AppendRecord(0, (segment(fed.name, 3),), source, ExternalTopic.from_topic(fed))
    LogState.load(log.commits(f"{PROJECT}-seed")).commit(record)


@pytest.mark.parametrize(
    "declared",
    [
        NEW,
        topology("reader", part("reads", (MOVED,))),
        topology("holder", part("reads", (RAW,), tables=(GlobalTable("t", MOVED, Store("t", 2, "k", "v")),))),
    ],
    ids=["writer", "reader", "global table"],
)
def test_topic_with_records_of_another_topology_is_refused_with_both_names(
    log: EmbeddedLog, applications: Applications, declared: Topology
) -> None:
    applications.start(OLD)
    assert found(log, declared) == []  # nothing was written yet, so there is nothing to lose
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    (only,) = found(log, declared)
    assert (str(only.subject), only.kind) == ("topic made", "topic.writer")
    assert only.what == "it was written by p-old so far, and is written by p-new now"
    assert commands(only) == [
        "headwater run --full-refresh --select 'new+'",
        "headwater run --full-refresh --select 'old+ new+'",
    ]
    assert found(log, OLD) == []
    with pytest.raises(WriterChangedError):
        check_writers(log, PROJECT, [MOVED])


def test_former_writer_that_writes_the_topic_no_more_is_still_found(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(OLD)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))
    applications.start(topology("old", part("makes", (RAW,))))

    assert [each.kind for each in found(log, NEW)] == ["topic.writer"]


def test_topic_that_is_fed_from_outside_by_now_is_refused(log: EmbeddedLog, applications: Applications) -> None:
    applications.start(OLD)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    (only,) = found(log, topology("reader", part("reads", (replace(MADE, writer=None),))))
    assert only.what == "it was written by p-old so far, and is external now"
    assert commands(only)[-1] == "headwater remove made"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"partitions": 4}, "its partition count was 2, is 4"),
        ({"key": "k int"}, "its key changed since its records were written | ~ k string -> int"),
        ({"windowed": True}, "it has a window in its key now"),
        (
            {"value": "v bigint, u string"},
            "its records cannot be read with its present columns | ~ u int -> string",
        ),
        ({"value": "w int, v int"}, "its records cannot be read with its present columns | ~ v bigint -> int"),
    ],
)
@pytest.mark.parametrize("seeded", [True, False])
def test_topic_declared_otherwise_than_its_records_is_refused_with_a_way_out(
    log: EmbeddedLog, change: dict[str, object], sentence: str, seeded: bool
) -> None:
    fed = replace(RAW, value="v bigint, u int")
    feed(log, fed, seeded)
    assert found(log, topology("t", part("reads", (fed,)))) == []

    (only,) = found(log, topology("t", part("reads", (replace(fed, **change),))))

    assert said(only).startswith(sentence)
    (command,) = commands(only)
    assert (command == "headwater seed raw --full-refresh") == seeded
    assert ("| jq -c 'del(.partition)' |" in command) != seeded


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("u int", "are read with the present ones | - v bigint"),
        ("u int, v bigint", "are read with the present ones | ~ the order of columns"),
        ("w string, v bigint, u int", "have no w: null there | + w string"),
        ("v decimal(19), u double", "are read with the present ones | ~ v bigint -> decimal(19,0) | ~ u int -> double"),
    ],
)
def test_columns_of_a_topic_may_be_left_out_added_and_widened(log: EmbeddedLog, value: str, sentence: str) -> None:
    feed(log, replace(RAW, value="v bigint, u int"))
    declared = topology("t", part("reads", (replace(RAW, value=value),)))
    (change,) = topic_changes(declared, Committed(log, declared))
    assert change.verdict is Verdict.COMPATIBLE
    assert said(change) == f"its columns changed; the earlier records {sentence}"


def test_topic_of_a_writer_that_was_not_fully_refreshed_is_compared_with_what_it_wrote(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(OLD)
    reader = topology("reader", part("reads", (replace(MADE, partitions=4),)))
    assert found(log, reader) == []
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    (only,) = found(log, reader)

    assert only.what == "its partition count was 2, is 4 since its records were written"
    assert commands(only) == ["headwater run --full-refresh --select 'old+'"]


def test_topic_in_the_log_is_that_of_its_writer_and_of_the_last_seed(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(topology("a_reader", part("reads", (replace(MADE, partitions=8), replace(RAW, partitions=8)))))
    applications.start(OLD)
    feed(log, RAW)

    assert declared_topic(log, PROJECT, "made") == MADE
    assert declared_topic(log, PROJECT, "raw") == RAW
    assert declared_topic(log, PROJECT, "made", MOVED) is None
    assert declared_topic(log, PROJECT, "raw", replace(RAW, partitions=4)) == RAW


def test_topologies_that_are_gone_are_fully_refreshed_with_what_they_wrote_and_read(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(OLD)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))
    applications.start(topology("reader", part("reads", (MADE,))))
    applications.start(topology("other", part("reads", (RAW,))))

    assert gone_with(log, {"p-old", "p-reader", "p-other"}, {"p-new"}, {"raw", "made"}) == {"p-old", "p-reader"}
    assert gone_with(log, {"p-reader", "p-other"}, {"p-old"}, {"raw", "made"}) == {"p-reader"}
