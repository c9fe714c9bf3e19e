"""Changes of a store without changelog are forgotten once they have reached the store, and only those."""

from dataclasses import replace

import pytest

from headwater.runtime.log.commit.descriptions import StoreDescription, TopologyDescription
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts.folded import SNAPSHOT_EVERY

APPLICATION = "shop-sales"
KEPT, UNKEPT = f"{APPLICATION}-kept-changelog", f"{APPLICATION}-unkept-changelog"
KEEPS = StoreDescription(1, "key_value", "k string", "v int")
STORES = {"kept": KEEPS, "unkept": replace(KEEPS, changelog=False)}


@pytest.fixture
def state(log):
    state = LogState.load(log.commits(APPLICATION))
    state.commit(GenerationRecord(1, 0, TopologyDescription(stores=STORES)))
    return state


@pytest.fixture
def change(state, segment):
    """A function that commits an epoch: 10 changes of each store, which held `applied` of them when it began."""

    def commit(applied, partition=0):
        name = state.number
        segments = tuple(segment(10, topic, partition, partition, f"{topic}{name}.seg") for topic in (KEPT, UNKEPT))
        held = dict.fromkeys(STORES, applied)
        task = TaskCommit("sales", partition, {}, 0, segments=segments, applied=held)
        state.commit(EpochRecord(1, name, 0, (task,)))
        return f"{UNKEPT}{name}.seg"

    return commit


def starts(state, topic, partition=0):
    return [each.start for each in state.lane_ranges(topic, partition, partition)]


def test_changes_stay_until_the_store_has_them(state, change):
    change(0)
    change(0)
    assert (starts(state, UNKEPT), state.unlisted) == ([0, 10], ())


def test_changes_that_the_store_has_are_no_longer_listed(state, change):
    files = [change(0), change(10), change(20)]
    assert starts(state, UNKEPT) == [20]
    assert state.unlisted == (files[1],)
    assert not state.paths() & set(files[:2])
    assert [each.start for each in state.ranges(UNKEPT, 0)] == [20]


def test_changelog_keeps_all(state, change):
    for applied in (0, 10, 20):
        change(applied)
    assert starts(state, KEPT) == [0, 10, 20]


def test_positions_go_on_when_all_has_reached_the_store(state, change, segment):
    change(0)
    idle = TaskCommit("sales", 0, {}, 0, applied={"unkept": 10})
    state.commit(EpochRecord(1, 9, 0, (idle,)))
    assert (starts(state, UNKEPT), state.lane_ends(UNKEPT, 0), state.end(UNKEPT, 0)) == ([0], {0: 10}, 10)
    change(10)
    assert starts(state, UNKEPT) == [10]


def test_tasks_forget_their_own_changes_only(state, change):
    change(0, partition=0)
    change(0, partition=1)
    change(10, partition=1)
    assert (starts(state, UNKEPT, 0), starts(state, UNKEPT, 1)) == ([0], [10])


def test_state_from_a_snapshot_goes_on_as_the_one_it_was_made_of(log, state, change):
    for number in range(SNAPSHOT_EVERY + 5):
        change(10 * number)
    reloaded = LogState.load(log.commits(APPLICATION))
    assert starts(reloaded, UNKEPT) == starts(state, UNKEPT) == [10 * (SNAPSHOT_EVERY + 4)]
    assert reloaded.lane_ends(UNKEPT, 0) == state.lane_ends(UNKEPT, 0)
    assert reloaded.paths() == state.paths()
