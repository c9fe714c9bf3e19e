"""Commits and snapshots that earlier versions have written, byte for byte, are read.

`older/commits` was written by a run on Spark before commits had the incarnation, its snapshots by a later version.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.runtime.log.commit.descriptions import (
    AggregateDescription,
    ExternalTopic,
    StoreDescription,
    SubtopologyDescription,
)
from headwater.runtime.log.embedded.commits import DirectoryCommitStore
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.log.state import LogState
from headwater.runtime.task_id import TaskKey

OLDER = Path(__file__).parent / "older" / "commits"


@pytest.fixture(params=["commits", "snapshot"])
def commits(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A log of which a state is loaded from its commits, or from its snapshots."""
    shutil.copytree(OLDER, tmp_path / "commits")
    lacking = "*/*.snapshot" if request.param == "commits" else f"*/{1:012d}.json"
    for path in (tmp_path / "commits").glob(lacking):
        path.unlink()
    return tmp_path / "commits"


def test_application_of_an_older_log_is_what_it_was(commits: Path) -> None:
    state = LogState.load(DirectoryCommitStore("p-delays", commits / "p-delays"))

    assert (state.number, state.generation, state.incarnation) == (3, 1, "0f5b7b3239dc4b75ae52b7055aef10fc")
    assert state.topology.subtopologies["hourly"] == SubtopologyDescription(
        2, ("p-delays-hourly-repartition",), ("hourly",), ("totals",)
    )
    assert state.topology.topics["flights"].since == 2
    assert state.topology.topics["hourly"].writer == "p-delays"
    assert state.topology.stores["totals"] == StoreDescription(
        2,
        "window",
        "airline string, window_start timestamp, window_end timestamp",
        "flights bigint, total double",
        (AggregateDescription("flights", "count"), AggregateDescription("total", "sum", "double")),
        window=(3_600_000, 3_600_000),
    )
    assert state.assignment["clients"]["46da35f2-3566-4242-b4c5-5a10820c8e3e"]["active"]["hourly"] == [0, 1]
    done = state.tasks.last_commit(TaskKey("p-delays", "hourly", 1))
    assert done.positions == {"p-delays-hourly-repartition": {0: 3929, 1: 4024, 2: 4024, 3: 3984}}
    assert (done.stream_time, done.clocks, done.records) == (71_988_732, {"totals": 71_988_732}, 15_961)
    assert state.ranges("p-delays-totals-changelog", 1) == (
        LogRange(
            topic="p-delays-totals-changelog",
            partition=1,
            lane=1,
            start=0,
            end=80,
            start_offset=0,
            end_offset=80,
            records=80,
            size=3472,
            min_order=3_532_488,
            max_order=71_988_732,
            token="224 3213326526 224,3472,80,3975440036 "
            "segments/p-delays/p-delays-totals-changelog/g1-e2-hourly-1-a0.seg",
        ),
    )


def test_topics_of_an_older_log_that_were_fed_from_outside_are_what_they_were(commits: Path) -> None:
    state = LogState.load(DirectoryCommitStore("p-seed", commits / "p-seed"))

    assert state.topics["airlines"] == ExternalTopic(
        name="airlines", partitions=4, key="carrier string", value="name string", since=1
    )
    assert state.topics["flights"].since == 2
    assert state.seeds == {}
    assert [state.end("airlines", partition) for partition in range(4)] == [1, 1, 1, 1]
