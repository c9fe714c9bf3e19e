"""Where a topology begins that has not read a topic yet: at its first record, after the last, or at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.changes.found import changes_of
from headwater.runtime.changes.model import Verdict
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Topology
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.tests.runtime.local.local_application import APPLICATION, PROJECT, LocalApplication, part
from headwater.tests.runtime.local.summing import COPIED, PARTITIONS, WORDS

RECORDS = 30


def feed(app: LocalApplication, start: int = 0) -> None:
    """Record x of a partition has the timestamp 1000 * x, but for the last: that of an earlier one."""
    for partition in range(PARTITIONS):
        times = [*range(start, start + RECORDS - 1), start]
        records = [((f"k{partition}",), (x,), 1000 * time) for x, time in enumerate(times, start)]
        app.append(WORDS, records, partition)


def copying(path: Path, log: str = "embedded") -> LocalApplication:
    nodes = (Source(WORDS, ("f",)), Sink("f", COPIED, "each_update"))
    return LocalApplication(path, [part("copies", PARTITIONS, ((nodes, {}, {}),))], log)


def starting(app: LocalApplication, start: str | None) -> Topology:
    """The topology whose flow says `start`."""
    (only,) = app.topology.subtopologies
    return replace(app.topology, subtopologies=(replace(only, starts={"words": start} if start else {}),))


def copies(app: LocalApplication) -> list[list[int]]:
    """By the partition that they were read from."""
    rows = app.read(COPIED)
    return [[row["value.x"] for row in rows if row["key.k"] == f"k{each}"] for each in range(PARTITIONS)]


@pytest.mark.parametrize("log", ["embedded", "sparse"])
@pytest.mark.parametrize(
    ("start", "first"),
    [
        (None, 0),
        ("earliest", 0),
        ("latest", RECORDS),
        ("1970-01-01T00:00:10Z", 10),
        ("1970-01-01T01:00:09.001+01:00", 10),
        ("1970-01-02", RECORDS),
    ],
)
def test_new_reader_begins_where_start_says_and_reads_all_that_comes_later(
    tmp_path: Path, log: str, start: str | None, first: int
) -> None:
    app = copying(tmp_path, log)
    feed(app)
    app.topology = starting(app, start)
    app.run(max_records=7)
    assert copies(app) == [list(range(first, RECORDS))] * PARTITIONS
    feed(app, RECORDS)
    app.run()
    assert copies(app) == [list(range(first, 2 * RECORDS))] * PARTITIONS


def test_position_that_is_there_stays_where_it_is_and_the_plan_says_so(tmp_path: Path) -> None:
    app = copying(tmp_path)
    feed(app)
    app.run()
    feed(app, RECORDS)
    app.topology = starting(app, "latest")
    (change,) = changes_of(app.topology, Committed(app.log, app.topology))
    assert (change.kind, change.verdict) == ("topic.start", Verdict.COMPATIBLE)
    assert str(change) == (
        "topic words: its start was earliest, is latest: that applies to new readers only, and the position of app "
        "stays"
    )
    assert [way.command for way in change.ways] == ["headwater rewind app --topic words --to latest"]
    app.run()
    assert copies(app) == [list(range(2 * RECORDS))] * PARTITIONS
    assert not changes_of(app.topology, Committed(app.log, app.topology))


def test_place_to_begin_at_is_settled_by_the_first_claim_also_in_an_empty_topic(tmp_path: Path) -> None:
    app = copying(tmp_path)
    app.append(WORDS, [(("k1",), (0,), 0)], 1)
    app.topology = starting(app, "latest")
    app.run()
    state = LogState.load(app.log.commits(APPLICATION))
    assert state.application == f"{PROJECT}-app"
    assert {task.partition: task.positions["words"] for task in state.tasks.all()}[1] == {0: 1}
    feed(app, RECORDS)
    app.topology = starting(app, "1980-01-01")  # another start, which comes too late
    app.run()
    assert copies(app) == [list(range(RECORDS, 2 * RECORDS))] * PARTITIONS
