"""A reader that is moved in its topic: what its next run reads, on the real loop and log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.log.commit.records import EpochRecord
from headwater.runtime.log.errors import GenerationError
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.resets import CommittedMeanwhileError
from headwater.runtime.progress.rewinding import (
    EARLIEST,
    LATEST,
    NotReadError,
    OutOfRangeError,
    Rewind,
    RewoundStateError,
    Whence,
    plan_rewind,
    rewind,
)
from headwater.tests.runtime.local.local_application import APPLICATION, PROJECT, LocalApplication, part
from headwater.tests.runtime.local.summing import COPIED, PARTITIONS, WORDS, summed

RECORDS = 30


@pytest.fixture(params=["embedded", "sparse"])
def copying(request: pytest.FixtureRequest, tmp_path: Path) -> LocalApplication:
    """An application without stores, which has read all. Record x of a partition has the timestamp 10 * x."""
    nodes = (Source(WORDS, ("f",)), Sink("f", COPIED, "each_update"))
    app = LocalApplication(tmp_path, [part("copies", PARTITIONS, ((nodes, {}, {}),))], request.param)
    feed(app)
    app.run(max_records=7)
    return app


def feed(app: LocalApplication, start: int = 0) -> None:
    for partition in range(PARTITIONS):
        for first in range(start, start + RECORDS, 10):
            records = [((f"k{partition}",), (x,), 10 * x) for x in range(first, first + 10)]
            app.append(WORDS, records, partition)


def planned(app: LocalApplication, whence: Whence, *partitions: int, **options: bool) -> Rewind:
    return plan_rewind(app.log, APPLICATION, "words", whence, partitions, fed_by=f"{PROJECT}-seed", **options)


def moved(app: LocalApplication, whence: Whence, *partitions: int, **options: bool) -> list[list[int]]:
    """What a run after it reads, by partition."""
    before = [len(each) for each in copies(app)]
    found = planned(app, whence, *partitions, **options)
    rewind(app.log, app.path / "state", found)
    app.run()
    read = [each[count:] for each, count in zip(copies(app), before, strict=True)]
    then = {move.partition: move.then for move in found.moves}
    assert [len(each) for number, each in enumerate(read) if number in then] == list(then.values())
    return read


def copies(app: LocalApplication) -> list[list[int]]:
    rows = app.read(COPIED)
    """By the partition that they were read from."""
    return [[row["value.x"] for row in rows if row["key.k"] == f"k{each}"] for each in range(PARTITIONS)]


@pytest.mark.parametrize(
    ("whence", "first"),
    [
        (EARLIEST, 0),
        (LATEST, RECORDS),
        (Whence("offset", 0), 0),
        (Whence("offset", 14), 14),
        (Whence("offset", RECORDS), RECORDS),
        (Whence("time", 0), 0),
        (Whence("time", 141), 15),
        (Whence("time", 200), 20),
        (Whence("time", 10_000), RECORDS),
    ],
    ids=str,
)
def test_moved_reader_goes_on_exactly_there_in_each_partition(
    copying: LocalApplication, whence: Whence, first: int
) -> None:
    if whence.kind != "offset":
        assert moved(copying, whence) == [list(range(first, RECORDS))] * PARTITIONS
        return
    state = LogState.load(copying.log.commits(f"{PROJECT}-seed"))
    ranges = state.ranges("words", 0)  # offsets may have holes
    offsets = [int(each) for within in ranges for found in copying.log.read(within) for each in found.offsets]
    there = [*offsets, state.end("words", 0)][whence.number]
    assert moved(copying, Whence("offset", there), 0) == [list(range(first, RECORDS)), *[[]] * (PARTITIONS - 1)]


def test_records_that_were_not_read_yet_are_passed_over_in_the_named_partitions_only(copying: LocalApplication) -> None:
    feed(copying, RECORDS)
    found = planned(copying, LATEST, 1)
    assert [(move.partition, move.unread, move.then, move.skipped) for move in found.moves] == [(1, 30, 0, 30)]
    rest = list(range(RECORDS, 2 * RECORDS))
    assert moved(copying, LATEST, 1) == [rest, [], rest, rest]


def test_driver_from_before_and_a_plan_from_before_change_nothing_any_more(copying: LocalApplication) -> None:
    driver = LogState.load(copying.log.commits(APPLICATION))
    old = planned(copying, EARLIEST)
    rewind(copying.log, copying.path / "state", planned(copying, Whence("time", 100)))
    with pytest.raises(CommittedMeanwhileError):
        rewind(copying.log, copying.path / "state", old)
    driver.refresh()
    with pytest.raises(GenerationError):
        driver.commit(EpochRecord(driver.generation - 1, 99, 0, (), driver.incarnation))


def test_what_cannot_be_moved_is_refused(copying: LocalApplication) -> None:
    with pytest.raises(NotReadError, match=r"it does not read it \(it reads words"):
        plan_rewind(copying.log, APPLICATION, "others", EARLIEST, fed_by=f"{PROJECT}-seed")
    with pytest.raises(NotReadError, match="the topic has 4"):
        planned(copying, EARLIEST, 4)
    with pytest.raises(OutOfRangeError, match="before 999999"):
        planned(copying, Whence("offset", 999_999))


def test_records_that_stores_hold_already_are_read_again_only_when_that_is_said(
    application: Callable[..., LocalApplication],
) -> None:
    app = application(summed())
    feed(app)
    app.run()
    with pytest.raises(
        RewoundStateError, match="would read 40 records again, which stores have already: totals of test-app"
    ) as refused:
        planned(app, Whence("offset", 20))
    assert "headwater reset 'app+'" in str(refused.value.hint)
    assert planned(app, LATEST).again == 0
    found = planned(app, Whence("offset", 20), keep_state=True)
    rewind(app.log, app.path / "state", found)
    app.run()
    last = {row["key.k"]: row["value.n"] for row in app.read(app.parts[0].subtopology.sinks[0])}
    assert last == {f"k{partition}": RECORDS + 10 for partition in range(PARTITIONS)}
