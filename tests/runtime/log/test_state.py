import inspect
import threading
from dataclasses import replace

import pytest

from headwater.runtime.log.commit.descriptions import ExternalTopic, StoreDescription, TopologyDescription
from headwater.runtime.log.commit.encoding import encode_commit
from headwater.runtime.log.commit.external_records import AppendRecord, SeedSource
from headwater.runtime.log.commit.records import (
    EpochRecord,
    GenerationRecord,
    Purged,
    PurgeRecord,
    SnapshotRecord,
    StoreSnapshot,
    TaskCommit,
)
from headwater.runtime.log.errors import CommitDamagedError, CommitExistsError, CommitOrderError, GenerationError
from headwater.runtime.log.segments.partitions import Partitions
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.folded import SNAPSHOT_EVERY
from headwater.runtime.log.state_parts.parts import Snapshot
from headwater.runtime.task_id import StoreId, TaskKey


@pytest.fixture
def commits(log):
    return log.commits("flights-delays")


@pytest.fixture
def state(commits):
    state = LogState.load(commits)
    state.commit(GenerationRecord(1, 0, TopologyDescription("delays")))
    return state


def task(partition=0, segments=(), **rest):
    return TaskCommit(
        "late", partition, rest.pop("positions", {}), rest.pop("stream_time", 0), segments=segments, **rest
    )


def epoch(*tasks, generation=1, number=1):
    return EpochRecord(generation, number, 0, tasks)


UNKEPT = TopologyDescription(
    "delays", stores={"sums": StoreDescription(3, "key_value", "k string", "v int", changelog=False)}
)


def late(partition):
    return TaskKey("flights-delays", "late", partition)


def fed(name):
    return ExternalTopic(name=name, partitions=3, key="k string", value="v int")


def places(segments):
    return [(found.partition, found.lane, found.base_offset, found.base_position) for found in segments]


def spans(ranges):
    return [(found.lane, found.start_offset, found.end_offset, found.start, found.end) for found in ranges]


COMMANDS = {
    "load",
    "add",
    "reload",
    "refresh",
    "check_same",
    "check_same_in",
    "commit",
    "apply",
    "snapshot",
    "lane_ranges",
    "ranges_since",
    "can_forget",
    "bytes_from",
    "horizon",
    "store_end",
    "store_horizon",
    "fits",
    "has_source",
    "was_replaced",
    "commits",
    "folding",
    "lock",
    "tasks",
    "to_snapshot",
    "restore",
    "follow",
    "refresh_or_reload",
    "is_void",
    "rename",
    "move",
}


def view(state):
    """All that a state tells, of all topics and tasks, to compare two: whatever queries it has."""
    places = [(topic, partition) for topic in sorted(state.written()) for partition in range(3)]
    tasks = [(late(partition),) for partition in range(3)]
    lanes = [(*place, lane) for place in places for lane in range(3)]
    ends = range(0, 60, 5)
    of_lanes = [
        (
            state.lane_ranges(*lane),
            state.horizon(*lane),
            [(state.can_forget(*lane, end), state.bytes_from(*lane, end)) for end in ends],
        )
        for lane in lanes
    ]
    return queries(state, places) | queries(state.tasks, tasks) | {"snapshot": state.snapshot(), "lanes": of_lanes}


def queries(asked, places):
    found = {}
    for name in dir(asked):
        if name.startswith("_") or name in COMMANDS:
            continue
        query = getattr(asked, name)
        if not callable(query):
            found[name] = query
        elif inspect.signature(query).parameters:
            found[name] = [query(*place) for place in places]
        else:
            found[name] = query()
    return found


def test_application_without_commits_has_an_empty_state(commits):
    state = LogState.load(commits)
    assert (state.number, state.generation, state.topology, state.written()) == (0, 0, TopologyDescription(), set())
    assert state.tasks.last_commit(late(0)) == TaskCommit("late", 0, {}, -1)
    assert (state.end("t", 0), state.lane_ends("t", 0), state.lane_ranges("t", 0, 0), state.ranges("t", 0)) == (
        0,
        {},
        (),
        (),
    )


def test_segments_of_one_commit_are_placed_one_after_the_other(state, segment):
    committed = state.commit(
        epoch(
            task(0, (segment(3, lane=0), segment(4, partition=1, lane=0))),
            task(1, (segment(5, lane=1), segment(2, lane=1))),
        )
    )
    assert places(found for each in committed.tasks for found in each.segments) == [
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (0, 1, 3, 0),
        (0, 1, 8, 5),
    ]
    assert (state.end("t", 0), state.end("t", 1), state.lane_ends("t", 0)) == (10, 4, {0: 3, 1: 7})


def test_next_commit_continues_offsets_and_lanes(state, segment):
    state.commit(epoch(task(0, (segment(3, lane=0),)), task(1, (segment(5, lane=1),))))
    state.commit(epoch(task(1, (segment(4, lane=1),)), task(0, (segment(1, lane=0),))))
    placed = [(0, 0, 3, 0, 3), (1, 3, 8, 0, 5), (1, 8, 12, 5, 9), (0, 12, 13, 3, 4)]
    assert spans(state.ranges("t", 0)) == placed
    assert spans(state.lane_ranges("t", 0, 0)) == [placed[0], placed[3]]
    assert spans(state.lane_ranges("t", 0, 1)) == placed[1:3]


def test_ranges_that_are_given_out_reach_beyond_the_place_asked_for(state, segment):
    for rows, lane in ((3, 0), (5, 1), (4, 1), (2, 1)):
        state.commit(epoch(task(lane, (segment(rows, lane=lane),))))
    assert [[each.start_offset for each in state.ranges("t", 0, start)] for start in (0, 2, 3, 7, 8, 13, 14)] == [
        [0, 3, 8, 12],
        [0, 3, 8, 12],
        [3, 8, 12],
        [3, 8, 12],
        [8, 12],
        [12],
        [],
    ]
    found = [[each.start for each in state.lane_ranges("t", 0, 1, start)] for start in (0, 4, 5, 11)]
    assert found == [[0, 5, 9], [0, 5, 9], [5, 9], []]
    enough = [[each.start for each in state.lane_ranges("t", 0, 1, 4, records)] for records in (1, 2, 5, 6, 99)]
    assert enough == [[0], [0, 5], [0, 5], [0, 5, 9], [0, 5, 9]]


def test_range_of_a_segment_that_covers_more_than_its_records_ends_where_the_next_begins(state, segment):
    state.commit(epoch(task(0, (replace(segment(3), span=10), segment(2)))))
    state.commit(epoch(task(0, (replace(segment(0), span=4), segment(1)))))
    assert spans(state.ranges("t", 0)) == [
        (0, 0, 10, 0, 10),
        (0, 10, 12, 10, 12),
        (0, 12, 16, 12, 16),
        (0, 16, 17, 16, 17),
    ]
    assert [each.records for each in state.ranges("t", 0)] == [3, 2, 0, 1]
    assert (state.end("t", 0), state.lane_ends("t", 0)) == (17, {0: 17})
    assert spans(state.lane_ranges("t", 0, 0, 7, 3)) == [
        (0, 0, 10, 0, 10),
        (0, 10, 12, 10, 12),
        (0, 12, 16, 12, 16),
        (0, 16, 17, 16, 17),
    ]
    assert spans(state.ranges("t", 0, 9)) == spans(state.ranges("t", 0))
    reloaded = LogState.load(state.commits)
    assert reloaded.ranges("t", 0) == state.ranges("t", 0)


def test_placing_alone_changes_nothing(segment):
    partitions = Partitions()
    assert places(partitions.place([segment(3), segment(2)])) == [(0, 0, 0, 0), (0, 0, 3, 0 + 3)]
    assert partitions.partition("t", 0).end == 0


def test_task_progress_is_that_of_its_last_commit_and_counts_add_up(state):
    state.commit(
        epoch(
            task(1, positions={"f": {0: 5}}, stream_time=9, clocks={"w": 8}, dropped={"w:late": 2}, records=5),
            task(2, positions={"f": {0: 1}}, stream_time=1),
        )
    )
    state.commit(
        epoch(
            task(
                1,
                positions={"f": {0: 7}},
                stream_time=12,
                clocks={"w": 11},
                dropped={"w:late": 1, "j:null key": 1},
                globals_={"g": {0: 3}},
                records=2,
            )
        )
    )
    done = state.tasks.last_commit(late(1))
    assert (done.positions, done.stream_time, done.segments) == ({"f": {0: 7}}, 12, ())
    assert (done.clocks, done.globals_) == ({"w": 11}, {"g": {0: 3}})
    assert (done.dropped, done.records) == ({"w:late": 3, "j:null key": 1}, 7)
    assert state.tasks.last_commit(late(2)).positions == {"f": {0: 1}}


def test_task_of_another_application_with_the_same_names_has_read_nothing_here(state):
    state.commit(epoch(TaskCommit("late", 1, {"f": {0: 7}}, 12, records=7)))
    theirs = state.tasks.last_commit(TaskKey("another", "late", 1))
    assert (theirs.positions, theirs.stream_time, theirs.records) == ({}, -1, 0)


def test_readers_state_follows_by_refreshing(state, commits, segment):
    reader = LogState.load(commits)
    state.commit(epoch(task(0, (segment(3),), positions={"f": {0: 3}})))
    state.commit(epoch(task(0, (segment(2),), positions={"f": {0: 5}})))
    assert reader.refresh() == 2
    assert view(reader) == view(state)
    assert reader.refresh() == 0


def test_second_committer_is_refused_and_succeeds_after_refreshing(state, commits, segment):
    other = LogState.load(commits)
    state.commit(epoch(task(0, (segment(3),))))
    before = view(other)
    with pytest.raises(CommitExistsError):
        other.commit(epoch(task(0, (segment(2),))))
    assert view(other) == before
    other.refresh()
    assert places(other.commit(epoch(task(0, (segment(2),)))).tasks[0].segments) == [(0, 0, 3, 3)]


def test_driver_of_an_older_generation_is_fenced(state, commits, segment):
    newer = LogState.load(commits)
    newer.commit(GenerationRecord(2, 0, TopologyDescription("new")))
    with pytest.raises(CommitExistsError):
        state.commit(epoch(task(0, (segment(3),))))
    state.refresh()
    with pytest.raises(GenerationError) as caught:
        state.commit(epoch(task(0, (segment(3),))))
    assert (caught.value.current, caught.value.found) == (2, 1)
    assert (state.topology, state.number) == (TopologyDescription("new"), 2)


def test_generation_that_is_not_higher_is_refused(state):
    with pytest.raises(GenerationError):
        state.commit(GenerationRecord(1, 0))


def test_commit_that_does_not_continue_the_last_one_is_refused_without_a_trace(state, commits, segment):
    (placed,) = Partitions().place([segment(3)])
    commits.create(2, encode_commit(epoch(task(0, (placed, placed)))))
    before = view(state)
    with pytest.raises(CommitOrderError) as caught:
        state.refresh()
    assert (caught.value.number, caught.value.expected, caught.value.found) == (2, 3, 0)
    assert view(state) == before


def test_state_loaded_from_a_snapshot_is_the_state_of_all_commits(log, state, commits, segment, monkeypatch):
    state.commit(AppendRecord(1, (segment(2, partition=2),), SeedSource("t", "h", "p"), fed("t")))
    for number in range(2, SNAPSHOT_EVERY + 5):
        if number == SNAPSHOT_EVERY - 20:
            state.commit(GenerationRecord(2, number, UNKEPT, {"assignor": "balanced"}))
            continue
        task_ = task(
            number % 3,
            (
                segment(number, partition=number % 2, lane=number % 3),
                segment(1, "flights-delays-sums-changelog", number % 3, number % 3, f"{number}.seg"),
            ),
            positions={"f": {0: number}},
            clocks={"w": number},
            dropped={"a:b": 1},
            globals_={"g": {0: number}},
            applied={"sums": number // 3 - 2},
            records=number,
        )
        state.commit(EpochRecord(state.generation, number, 10 * number, (task_,)))
        if number == SNAPSHOT_EVERY:
            assert state.unlisted
            assert view(LogState.load(commits)) == view(state)
    assert commits.snapshots()[0] == SNAPSHOT_EVERY
    read = commits.read
    numbers = []
    monkeypatch.setattr(type(commits), "read", lambda _, number: numbers.append(number) or read(number))
    loaded = LogState.load(commits)
    assert view(loaded) == view(state)
    assert min(numbers) == SNAPSHOT_EVERY  # the commit itself, which tells whether the snapshot is of these commits
    assert None not in view(loaded)["records_per_second"]
    assert view(loaded)["unlisted"]


def test_seed_that_replaces_empties_its_topic_and_leaves_others(state, segment):
    state.commit(AppendRecord(1, (segment(5),), SeedSource("t", "1", "p"), fed("t")))
    state.commit(AppendRecord(1, (segment(4, topic="u"),), None, fed("u")))
    assert state.topics["t"].since == 2
    state.commit(AppendRecord(1, (segment(2, path="new"),), SeedSource("t", "2", "p"), fed("t"), replace=True))
    assert state.paths() == {"new", "p.seg"}
    assert len(state.ranges("t", 0)) == 1
    assert (state.end("t", 0), state.end("u", 0), state.seeds["t"].hash) == (2, 4, "2")
    assert (state.topics["t"].since, state.topics["u"].since) == (4, 3)
    state.commit(AppendRecord(1, (segment(1),), None, fed("t")))
    assert (state.end("t", 0), state.topics["t"].since) == (3, 4)


def test_reader_that_holds_the_lock_sees_whole_commits(state, segment):
    commits = 150
    seen = []

    def read():
        while not seen or seen[-1][0] < commits:
            with state.lock:
                rows = sum(found.records for found in state.ranges("t", 0))
                seen.append((state.tasks.last_commit(late(0)).stream_time, rows, state.end("t", 0)))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for number in range(1, commits + 1):
        segments = (segment(1, lane=0), segment(1, lane=number % 3))
        state.commit(epoch(task(0, segments, stream_time=number), number=number))
    reader.join()
    assert all(rows == end == 2 * max(clock, 0) for clock, rows, end in seen)


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_damaged_snapshot_is_passed_over(log, state, commits, damage):
    for number in range(SNAPSHOT_EVERY):
        state.commit(epoch(task(number % 3, dropped={"a:b": 1}, records=1)))
    (snapshot,) = (log.root / "commits").glob("*/*.snapshot")
    if damage is None:
        snapshot.unlink()
    else:
        snapshot.write_bytes(damage)
    assert view(LogState.load(commits)) == view(state)


@pytest.mark.parametrize("damage", [b"", b'{"format":1}', None])
def test_commit_that_is_damaged_or_missing_is_named_and_nothing_is_put_in_its_place(log, state, damage):
    for _ in range(3):
        state.commit(epoch(task(records=1)))
    path = log.root / "commits" / "flights-delays" / f"{3:012d}.json"
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    with pytest.raises(CommitDamagedError) as caught:
        LogState.load(log.commits("flights-delays"))
    assert (caught.value.application, caught.value.number) == ("flights-delays", 3)


def copied(position, partition=0):
    return StoreSnapshot("s", partition, position, f"snapshots/{partition}-{position}.snap", 1, 0, "lmdb", 0)


def test_snapshots_of_stores_are_listed_until_a_later_commit_removes_them(state, commits):
    state.commit(SnapshotRecord(1, 0, (copied(5), copied(9, partition=1))))
    state.commit(SnapshotRecord(1, 0, (copied(7),)))
    state.commit(SnapshotRecord(1, 0, (copied(8),), (copied(5).path,)))

    for each in (state, LogState.load(commits)):
        assert each.store_snapshots.of(StoreId("s", 0)) == (copied(8), copied(7))
        assert each.store_snapshots.of(StoreId("s", 1)) == (copied(9, partition=1),)
        assert each.unlisted == (copied(5).path,)
        assert each.paths() == {copied(7).path, copied(8).path, copied(9, partition=1).path}


def test_snapshots_of_stores_stay_over_generations_and_folded_commits(state, commits):
    state.commit(SnapshotRecord(1, 0, (copied(5),)))
    state.commit(GenerationRecord(2, 0, TopologyDescription("delays")))
    while state.number % SNAPSHOT_EVERY:
        state.commit(epoch(task(), generation=2))

    assert LogState.load(commits).store_snapshots.of(StoreId("s", 0)) == (copied(5),)


def test_snapshots_of_a_driver_that_was_taken_over_are_refused(state):
    state.commit(GenerationRecord(2, 0, TopologyDescription("delays")))
    with pytest.raises(GenerationError):
        state.commit(SnapshotRecord(1, 0, (copied(5),)))
    assert state.store_snapshots.listed == ()


def test_purged_segments_are_not_listed_and_ends_stay(state, commits, segment):
    for number in range(3):
        written = (segment(2, partition=0, path=f"{number}"), segment(3, partition=1, path=f"{number}"))
        state.commit(epoch(task(0, written), number=number))
    state.commit(PurgeRecord(1, 5, (Purged("t", 0, {0: 4}), Purged("t", 1, {0: 3}))))
    assert (state.unlisted, state.paths()) == (("0",), {"1", "2"})
    assert [(each.start, each.end) for each in state.lane_ranges("t", 0, 0)] == [(4, 6)]
    assert [(each.start, each.end) for each in state.lane_ranges("t", 1, 0)] == [(3, 6), (6, 9)]
    state.commit(PurgeRecord(1, 5, (Purged("t", 0, {0: 6}), Purged("t", 1, {0: 8}))))
    assert (state.unlisted, state.paths()) == (("1",), {"2"})
    assert (state.end("t", 0), state.end("t", 1), state.lane_ends("t", 1)) == (6, 9, {0: 9})
    assert view(LogState.load(commits)) == view(state)


RAW, OTHER = "kafka:main:flights", "kafka:main:delays"


def test_ends_in_kafka_are_the_furthest_that_any_epoch_of_the_generation_knew(state, commits):
    """Epochs commit in another order than they were planned in."""
    state.commit(replace(epoch(), ends={RAW: (5, 9)}))
    state.commit(replace(epoch(), ends={RAW: (7, 3), OTHER: (1,)}))
    state.commit(epoch())
    state.commit(replace(epoch(), ends={RAW: (1, 1)}))
    assert state.ends == {RAW: (7, 9), OTHER: (1,)}
    assert LogState.load(commits).ends == state.ends


def test_ends_in_kafka_of_a_claim_replace_the_known_ones_and_a_claim_without_any_keeps_them(state):
    """Kafka may have lost records, and partitions may have been added."""
    state.commit(replace(epoch(), ends={RAW: (5, 9), OTHER: (4,)}))
    state.commit(GenerationRecord(2, 0, state.topology, ends={RAW: (4, 9, 2)}))
    assert state.ends == {RAW: (4, 9, 2)}
    state.commit(GenerationRecord(3, 0, state.topology))
    assert state.ends == {RAW: (4, 9, 2)}


def test_ends_in_kafka_are_part_of_a_snapshot_which_earlier_versions_refuse(state):
    state.commit(replace(epoch(), ends={RAW: (5, 9)}))
    data = state.snapshot()
    assert data.startswith(b'{"format":10,')
    restored = LogState(state.commits)
    restored.restore(Snapshot.decode(data))
    assert restored.ends == {RAW: (5, 9)}
