import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.durable_files import APPEND_GRACE_MS, collect_garbage
from headwater.runtime.log.embedded.commits import DirectoryCommitStore
from headwater.runtime.log.errors import FullyRefreshedError
from headwater.runtime.log.log import epoch_file_name
from headwater.runtime.log.state import LogState
from headwater.runtime.task_id import TaskKey

LATE = TaskKey("app", "late", 0)


@pytest.fixture
def state(log):
    return LogState.load(log.commits("app"))


def write(log, records, name):
    return log.write("app", "t", name, records(3), 0, lane=0)


def left(log):
    return [os.path.basename(file.path) for file in log.files("app")]


def test_unlisted_files_of_older_generations_go_and_the_others_stay(log, state, records):
    state.commit(GenerationRecord(1, 0))
    listed = write(log, records, epoch_file_name("", 1, 1, LATE, attempt=1))
    write(log, records, epoch_file_name("", 1, 1, LATE, attempt=0))
    state.commit(EpochRecord(1, 1, 0, (TaskCommit("late", 0, {}, 0, segments=listed),)))
    assert collect_garbage(log, "app", state) == 0
    state.commit(GenerationRecord(2, 0))
    write(log, records, epoch_file_name("", 2, 1, LATE, attempt=0))
    assert collect_garbage(log, "app", state) == 1
    assert left(log) == ["g1-e1-late-0-a1.seg", "g2-e1-late-0-a0.seg"]


def test_unlisted_files_of_appends_go_after_a_day(log, state, records):
    listed = write(log, records, "s-1")
    write(log, records, "s-2")
    state.commit(AppendRecord(0, listed))
    now = max(file.modified for file in log.files("app"))
    assert collect_garbage(log, "app", state, now) == 0
    assert collect_garbage(log, "app", state, now + APPEND_GRACE_MS) == 1
    assert left(log) == ["s-1.seg"]


def test_unlisted_files_of_an_earlier_incarnation_go_whatever_their_generation(log, state, records):
    write(log, records, epoch_file_name("", 1, 1, LATE, attempt=0))  # as versions before this one named them
    write(log, records, epoch_file_name("0ld0ld0ld0", 7, 1, LATE, attempt=0))
    write(log, records, epoch_file_name("cafecafe00", 1, 1, LATE, attempt=0))
    state.commit(GenerationRecord(1, 0, TopologyDescription(incarnation="cafecafe00")))
    assert collect_garbage(log, "app", state) == 1
    assert left(log) == ["cafecafe-g1-e1-late-0-a0.seg", "g1-e1-late-0-a0.seg"]


def test_files_of_an_application_that_was_fully_refreshed_meanwhile_are_left_alone(log, state, records):
    state.commit(GenerationRecord(7, 0, TopologyDescription(incarnation="cafecafe00")))
    log.drop("app")
    successor = LogState.load(log.commits("app"))
    successor.commit(GenerationRecord(1, 0, TopologyDescription(incarnation="beefbeef00")))
    write(log, records, epoch_file_name("beefbeef00", 1, 1, LATE, attempt=0))
    with pytest.raises(FullyRefreshedError):
        collect_garbage(log, "app", state)
    assert left(log) == ["beefbeef-g1-e1-late-0-a0.seg"]


def test_state_can_be_used_while_the_log_does_not_answer_a_search(log, state, monkeypatch):
    state.commit(GenerationRecord(1, 0))
    free, identity = [], DirectoryCommitStore.identity

    def asked(commits, number):
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(acquired).result())
        return identity(commits, number)

    def acquired():
        if found := state.lock.acquire(blocking=False):
            state.lock.release()
        return found

    monkeypatch.setattr(DirectoryCommitStore, "identity", asked)
    assert collect_garbage(log, "app", state) == 0
    assert free == [True]
