"""Topics that the log knows otherwise than the project: nobody goes on with them, and the error leads out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from commits import PROJECT, Applications, part, segment, topic, topology

from headwater.runtime.log.commit_records import AppendRecord, SeedSource
from headwater.runtime.log.declared_topics import WriterChangedError, declared_topic, gone_with
from headwater.runtime.log.descriptions import FedTopic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import TopicChangedError
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.inputs import check_topics
from headwater.runtime.topology import GlobalTable, Store, Topic, Topology

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


def check(log: EmbeddedLog, declared: Topology) -> None:
    check_topics(declared, Committed(log, declared))


def feed(log: EmbeddedLog, fed: Topic, seeded: bool = True) -> None:
    source = SeedSource(fed.name, "1", "seeds/raw.csv") if seeded else None
    record = AppendRecord(0, (segment(fed.name, 3),), source, FedTopic.of(fed))
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
    check(log, declared)  # nothing was written yet, so there is nothing to lose
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    with pytest.raises(WriterChangedError) as raised:
        check(log, declared)

    assert raised.value.message == "topic made was written by p-old so far, and is written by p-new now"
    assert "headwater run --full-refresh --select 'new+'" in str(raised.value.hint)
    check(log, OLD)


def test_former_writer_that_writes_the_topic_no_more_is_still_found(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(OLD)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))
    applications.start(topology("old", part("makes", (RAW,))))

    with pytest.raises(WriterChangedError):
        check(log, NEW)


def test_topic_that_is_fed_from_outside_by_now_is_refused(log: EmbeddedLog, applications: Applications) -> None:
    applications.start(OLD)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    with pytest.raises(WriterChangedError) as raised:
        check(log, topology("reader", part("reads", (replace(MADE, writer=None),))))

    assert raised.value.message == "topic made was written by p-old so far, and is fed from outside now"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"partitions": 4}, "partitions was 2 and is 4"),
        ({"key": "k int"}, "key was 'k string' and is 'k int'"),
        ({"windowed": True}, "windowed was False and is True"),
        ({"value": "v bigint, w int"}, "value was 'v bigint, u int' and is 'v bigint, w int'"),
    ],
)
@pytest.mark.parametrize("seeded", [True, False])
def test_topic_declared_otherwise_than_its_records_is_refused_with_a_way_out(
    log: EmbeddedLog, change: dict[str, object], said: str, seeded: bool
) -> None:
    fed = replace(RAW, value="v bigint, u int")
    feed(log, fed, seeded)
    check(log, topology("t", part("reads", (fed,))))

    with pytest.raises(TopicChangedError, match=said) as raised:
        check(log, topology("t", part("reads", (replace(fed, **change),))))

    assert ("headwater seed raw --full-refresh" in str(raised.value.hint)) == seeded
    assert ("| jq -c 'del(.partition)' |" in str(raised.value.hint)) != seeded


def test_columns_may_be_left_out_by_a_reader(log: EmbeddedLog) -> None:
    feed(log, replace(RAW, value="v bigint, u int"))
    check(log, topology("t", part("reads", (replace(RAW, value="u int"),))))


def test_topic_of_a_writer_that_was_not_fully_refreshed_is_compared_with_what_it_wrote(
    log: EmbeddedLog, applications: Applications
) -> None:
    applications.start(OLD)
    reader = topology("reader", part("reads", (replace(MADE, partitions=4),)))
    check(log, reader)
    applications.commit("old", "makes", 0, {"raw": {0: 1}}, segment("made", 1))

    with pytest.raises(TopicChangedError, match="partitions was 2 and is 4") as raised:
        check(log, reader)

    assert "--full-refresh --select 'old+'" in str(raised.value.hint)


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
