"""Commits that put records in the place of others: what the state knows of segments afterwards."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.log.commit.descriptions import StoreDescription, TopologyDescription
from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.records import (
    EpochRecord,
    GenerationRecord,
    Purged,
    PurgeRecord,
    RewriteRecord,
    TaskCommit,
)
from headwater.runtime.log.durable_files import collect_garbage
from headwater.runtime.log.errors import GenerationError, RewriteOrderError
from headwater.runtime.log.log import rewritten_file_name
from headwater.runtime.log.ranges import Rewritten
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.folded import SNAPSHOT_EVERY

APPLICATION = "a"
PARTITIONS = 3
LANES = 2


@pytest.fixture
def state(log):
    state = LogState.load(log.commits(APPLICATION))
    state.commit(GenerationRecord(1, 0, TopologyDescription("t", incarnation="cafecafe00")))
    return state


def epoch(log, state, records, topic="t", rows=6):
    """What each of the lanes' tasks writes to all partitions in one epoch."""
    tasks = []
    for lane in range(LANES):
        written = log.write(
            APPLICATION, topic, f"g1-e{state.number}-x-{lane}-a0", records(rows), np.arange(rows) % PARTITIONS, lane
        )
        tasks.append(TaskCommit("x", lane, {}, 0, segments=written))
    state.commit(EpochRecord(1, state.number, 0, tuple(tasks), state.incarnation))


def merged(log, state, lanes, topic="t", most=None):
    """The commit that merges the first ranges of lanes, given as (partition, lane), into one file."""
    parts = []
    for partition, lane in lanes:
        ranges = state.lane_ranges(topic, partition, lane)[:most]
        found = [each for within in ranges for each in log.read(within)]
        parts.append(
            Rewritten(
                partition,
                lane,
                ranges[0].start,
                ranges[-1].end,
                ranges[0].start_offset,
                ranges[-1].end_offset,
                pa.Table.from_batches([each.records for each in found]),
                np.concatenate([each.positions for each in found]),
                np.concatenate([each.offsets for each in found]),
            )
        )
    name = rewritten_file_name(state.incarnation, 1, f"{state.number}")
    return RewriteRecord(1, 0, log.write_rewritten(APPLICATION, topic, name, parts), state.incarnation)


ALL = [(partition, lane) for partition in range(PARTITIONS) for lane in range(LANES)]


def known(state, topic="t"):
    """All that the state says of the ranges of a topic."""
    return [
        (
            state.ranges(topic, partition),
            [state.ranges(topic, partition, start) for start in range(state.end(topic, partition))],
            [
                [state.lane_ranges(topic, partition, lane, start) for start in range(end)]
                for lane, end in sorted(state.lane_ends(topic, partition).items())
            ],
            state.end(topic, partition),
            state.lane_ends(topic, partition),
        )
        for partition in range(PARTITIONS)
    ]


def test_state_from_commits_and_from_a_snapshot_know_the_same_of_merged_lanes(log, state, records):
    for _ in range(4):
        epoch(log, state, records)
    state.commit(merged(log, state, ALL[:-1], most=3))
    epoch(log, state, records)
    commits = log.commits(APPLICATION)
    read = LogState.load(commits)
    assert commits.save_snapshot(state.number, state.snapshot(), commits.identity(state.number))
    loaded = LogState.load(commits)
    assert known(state) == known(read) == known(loaded)
    assert state.paths() == read.paths() == loaded.paths()
    for partition in range(PARTITIONS):
        for start in range(state.end("t", partition)):
            every = state.ranges("t", partition)
            assert state.ranges("t", partition, start) == tuple(each for each in every if each.end_offset > start)
    epoch(log, loaded, records)
    state.refresh()
    assert known(state) == known(loaded)


def test_bytes_from_a_position_on_are_those_of_the_ranges_that_are_left(log, state, records):
    for _ in range(4):
        epoch(log, state, records)
    state.commit(merged(log, state, ALL, most=3))
    for partition, lane in ALL:
        first, last = state.lane_ranges("t", partition, lane)
        assert state.bytes_from("t", partition, lane, 0) == first.size + last.size
        assert state.bytes_from("t", partition, lane, last.start) == last.size
        assert state.bytes_from("t", partition, lane, last.end) == 0
    assert state.size("t", 0) == sum(each.size for each in state.ranges("t", 0))


def test_shared_file_is_left_over_once_the_last_lane_of_it_is_purged(log, state, records):
    for _ in range(3):
        epoch(log, state, records)
    state.commit(merged(log, state, ALL, most=2))
    assert len(state.replaced) == 2 * LANES
    (shared,) = state.paths() & {file.path for file in log.files(APPLICATION) if "-m-" in file.path}
    for partition, lane in ALL:
        end = state.lane_ends("t", partition)[lane]
        state.commit(PurgeRecord(1, 0, (Purged("t", partition, {lane: end}),), state.incarnation))
        assert state.unlisted == ((shared,) if (partition, lane) == ALL[-1] else ())
        assert len(state.lane_ranges("t", partition, lane)) == 1


def test_changes_of_a_store_without_changelog_that_were_merged_are_left_over_once_all_are_applied(log, records):
    state = LogState.load(log.commits(APPLICATION))
    stores = {"sums": StoreDescription(2, "key_value", "k string", "v int", changelog=False)}
    state.commit(GenerationRecord(1, 0, TopologyDescription("t", stores=stores)))
    topic = f"{APPLICATION}-sums-changelog"
    for number in range(3):
        tasks = []
        for each in range(2):
            written = log.write(APPLICATION, topic, f"g1-e{number}-x-{each}", records(2), each, each)
            tasks.append(TaskCommit("x", each, {}, 0, segments=written))
        state.commit(EpochRecord(1, number, 0, tuple(tasks)))
    state.commit(merged(log, state, [(0, 0), (1, 1)], topic, most=2))
    (shared,) = (path for path in state.paths() if "-m-" in path)
    state.commit(EpochRecord(1, 7, 0, (TaskCommit("x", 0, {}, 0, applied={"sums": 6}),)))
    assert (state.unlisted, shared in state.paths()) == ((), True)
    state.commit(EpochRecord(1, 8, 0, (TaskCommit("x", 1, {}, 0, applied={"sums": 4}),)))
    assert (state.unlisted, shared in state.paths()) == ((shared,), False)


def test_rewrite_by_a_driver_that_was_taken_over_is_refused(log, state, records):
    epoch(log, state, records)
    epoch(log, state, records)
    record = merged(log, state, ALL)
    state.commit(GenerationRecord(2, 0, state.topology))
    with pytest.raises(GenerationError):
        state.commit(record)


def test_rewrite_of_records_that_no_commit_lists_is_damage(log, state, records):
    epoch(log, state, records)
    epoch(log, state, records)
    record = merged(log, state, ALL)
    wrong = replace(record, segments=tuple(replace(each, base_position=1) for each in record.segments))
    log.commits(APPLICATION).create(state.number + 1, encode_commit(wrong))
    before = known(state)
    with pytest.raises(RewriteOrderError, match="commit 4 replaces records of t, partition 0, with offsets 0 to"):
        state.refresh()
    assert known(state) == before


def test_log_of_which_many_commits_are_rewrites_is_loaded_from_its_snapshots(log, state, records):
    while state.number < SNAPSHOT_EVERY + 2:
        epoch(log, state, records)
        epoch(log, state, records)
        state.commit(merged(log, state, ALL))
    assert known(LogState.load(log.commits(APPLICATION))) == known(state)
    assert len(state.paths()) == 1


def test_rewritten_files_that_no_commit_lists_go_with_the_next_generation(log, state, records):
    for _ in range(2):
        epoch(log, state, records)
    merged(log, state, ALL)
    assert collect_garbage(log, APPLICATION, state) == 0
    state.commit(GenerationRecord(2, 0, state.topology))
    assert collect_garbage(log, APPLICATION, state) == 1
    assert {file.path for file in log.files(APPLICATION)} == state.paths()
