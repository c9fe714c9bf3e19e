"""The trace of a run: the real loop on real logs and stores, in this process, and what viewers of traces read of it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.driver.events import EpochCommitted, EpochTraced, Event, TraceNotWritten
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.observe.tracing import Trace, recording_trace
from headwater.tests.disks import small_disk
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import (
    PARTITIONS,
    RECORDS,
    WHOLE_SUMS,
    fed,
    last_sums,
    passed_through,
    summed,
    summed_by_text,
)

pytestmark = pytest.mark.usefixtures("at_once")


@dataclass(frozen=True)
class Drawn:
    """A slice as a viewer draws it, in microseconds: on a track, `depth` others around it."""

    name: str
    start: int
    end: int
    depth: int
    parent: str | None


def drawn(path: Path) -> dict[tuple[str, str], list[Drawn]]:
    """The slices of each track (process, thread), in the order of the file.

    Fails where the file is not what the format asks for: complete events with the fields that it names, in the order of
    starts on each track, nested or apart; and a name for each track.
    """
    names: dict[Any, str] = {}
    tracks: dict[tuple[int, int], list[Drawn]] = defaultdict(list)
    around: dict[tuple[int, int], list[Drawn]] = defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        at = event["pid"], event["tid"]
        if event["ph"] == "M":
            names[event["name"], event["pid"] if event["name"].startswith("process") else at] = event["args"]
            continue
        assert event["ph"] == "X"
        start, end = event["ts"], event["ts"] + event["dur"]
        assert 0 <= start <= end
        while around[at] and around[at][-1].end <= start and (around[at][-1].end < end or event["dur"]):
            around[at].pop()
        if around[at]:
            assert end <= around[at][-1].end, (event, around[at])
        if tracks[at]:
            assert tracks[at][-1].start <= start
        parent = around[at][-1].name if around[at] else None
        found = Drawn(event["name"], start, end, len(around[at]), parent)
        around[at].append(found)
        tracks[at].append(found)
    return {
        (names["process_name", at[0]]["name"], names["thread_name", at]["name"]): found  # type: ignore[index]
        for at, found in tracks.items()
    }


class Told:
    """The epochs that a run has told of."""

    def __init__(self) -> None:
        self.events: list[EpochTraced] = []

    def on(self, event: Event) -> None:
        if isinstance(event, EpochTraced):
            self.events.append(event)


def run_traced(
    app: LocalApplication, trace: Trace, max_records: int = 7, clients: int = 1, threads: int = 1
) -> tuple[ApplicationResult, Told]:
    told = Told()
    with recording_trace(trace, app.settings(max_records, clients), told) as (settings, observer):
        cluster = LocalCluster(threads, app.expressions)
        return app.attempt(settings, cluster, observer), told


def within(outer: Drawn, found: list[Drawn]) -> list[Drawn]:
    return [each for each in found if outer.start <= each.start and each.end <= outer.end and each is not outer]


def test_every_epoch_is_a_slice_that_its_parts_fill_and_its_tasks_lie_within(application, tmp_path):
    app = fed(application(passed_through(lambda batches: (batch for batch in batches))))
    with Trace(tmp_path / "run.json") as trace:
        result, told = run_traced(app, trace, threads=2)

    assert (result.error, last_sums(app)) == (None, WHOLE_SUMS)
    tracks = drawn(tmp_path / "run.json")
    threads = [f"sums, thread {thread}, Python stage {stage}" for thread in (1, 2) for stage in (1, 2)]
    assert set(tracks) == {
        ("test-app", "driver"),
        ("test-app", "epochs of sums on client-1"),
        *(("test-app on client-1", thread) for thread in threads),
    }
    found = tracks["test-app", "epochs of sums on client-1"]
    epochs = [each for each in found if each.depth == 0]
    assert [each.name for each in epochs] == [f"epoch {each.trace.epoch}" for each in told.events]
    assert len(epochs) == -(-RECORDS // 7)
    for epoch in epochs:
        parts = within(epoch, found)
        planning, job, commit = (each for each in parts if each.depth == 1)
        assert [planning.name, job.name, commit.name] == ["planning", "job", "commit"]
        assert (planning.start, planning.end, job.end, commit.end) == (epoch.start, job.start, commit.start, epoch.end)
        start, tasks, answers = (each for each in parts if each.parent == "job")
        assert (start.start, start.end, tasks.end, answers.end) == (job.start, tasks.start, answers.start, job.end)
        for stage in (1, 2):
            done = [
                each
                for track in threads
                if track.endswith(f"{stage}")
                for each in tracks["test-app on client-1", track]
            ]
            names = [each.name for each in within(tasks, done) if each.depth == 0]
            assert sorted(names) == [f"task 0_{partition}" for partition in range(PARTITIONS)]


def test_parts_of_stages_are_named_down_to_what_a_share_is_worth(application, tmp_path):
    app = fed(application(summed()))
    with Trace(tmp_path / "run.json") as trace:
        run_traced(app, trace)

    (shares,) = trace.shares().values()
    named = {each.part for each in shares}
    aggregate = "Aggregate topologies/t.yml:7"
    assert named >= {
        ("read", "decode"),
        ("operators", aggregate, "encode keys"),
        ("operators", aggregate, "group"),
        ("operators", aggregate, "fold"),
        ("state", "read rows"),
        ("state", "open store"),
        ("state", "read changelog"),
        ("state", "write rows"),
        ("write", "topics", "fsync"),
        ("write", "changelogs", "fsync"),
        ("scheduling", "start"),
    }
    around = {(each.parent, each.name) for found in drawn(tmp_path / "run.json").values() for each in found}
    assert (aggregate, "state") in around  # drawn where it happens, counted by itself


@pytest.mark.parametrize("make", [lambda: (summed(),), summed_by_text], ids=["one", "two subtopologies"])
def test_parts_of_epochs_add_up_to_their_time(application, tmp_path, make):
    app = fed(application(*make()))
    with Trace(tmp_path / "run.json") as trace:
        _, told = run_traced(app, trace, clients=2)

    (shares,) = trace.shares().values()
    phases = [each for each in shares if len(each.part) == 1]
    assert [each.part[0] for each in phases] == [each for each in EPOCH_PHASES if each != "sql"]
    assert sum(each.seconds for each in phases) == pytest.approx(sum(each.trace.seconds for each in told.events))
    assert sum(each.share for each in phases) == pytest.approx(1)
    for whole in shares:
        parts = [each.seconds for each in shares if each.part[:-1] == whole.part]
        assert 0 <= sum(parts) <= whole.seconds + 1e-9
    assert trace.epochs == len(told.events)
    clients = {process for process, _ in drawn(tmp_path / "run.json")}
    assert clients == {"test-app", "test-app on client-1", "test-app on client-2"}


def test_run_without_a_trace_measures_no_parts(application):
    app = fed(application(summed()))
    told = Told()
    result = app.attempt(app.settings(7), observer=told)

    assert (result.error, told.events) == (None, [])


def test_file_is_whole_at_every_moment_also_after_an_interruption(application, tmp_path):
    app = fed(application(summed()))
    path = tmp_path / "run.json"
    seen: list[int] = []

    class Interrupting:
        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted):
                seen.append(sum(len(found) for found in drawn(path).values()))
                if len(seen) == 3:
                    raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        Trace(path) as trace,
        recording_trace(trace, app.settings(7), Interrupting()) as (settings, observer),
    ):
        app.attempt(settings, observer=observer)

    assert seen[0] == 0 < seen[1] < seen[2]
    epochs = drawn(path)["test-app", "epochs of sums on client-1"]
    assert [each.name for each in epochs if each.depth == 0] == ["epoch 1", "epoch 2"]


def test_newest_epochs_of_a_long_run_are_kept(application, tmp_path):
    app = fed(application(summed()))
    path = tmp_path / "run.json"
    with Trace(path, most_bytes=60_000) as trace:
        _, told = run_traced(app, trace, max_records=1)

    epochs = [each.name for each in drawn(path)["test-app", "epochs of sums on client-1"] if each.depth == 0]
    assert epochs == [f"epoch {each.trace.epoch}" for each in told.events][-len(epochs) :]
    assert 0 < len(epochs) == trace.epochs - trace.left_out < RECORDS
    assert json.loads(path.read_text())["otherData"]["epochs_left_out"] == trace.left_out
    assert list(tmp_path.glob(".*")) == []


def test_disk_that_is_full_ends_the_trace_and_not_the_run(application, tmp_path):
    app = fed(application(summed()))
    told: list[TraceNotWritten] = []

    class Telling:
        def on(self, event: Event) -> None:
            if isinstance(event, TraceNotWritten):
                told.append(event)

    with small_disk(tmp_path / "disk", 32_768) as disk:
        path = disk / "run.json"
        with Trace(path) as trace, recording_trace(trace, app.settings(1), Telling()) as (settings, observer):
            result = app.attempt(settings, observer=observer)
        epochs = [each.name for each in drawn(path)["test-app", "epochs of sums on client-1"] if each.depth == 0]

    assert (result.error, last_sums(app)) == (None, WHOLE_SUMS)
    assert [(each.path, each.cause) for each in told] == [(str(path), "No space left on device")]
    assert epochs[0] == "epoch 1"
    assert len(epochs) < trace.epochs == RECORDS
