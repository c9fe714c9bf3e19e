"""Which superfluous files go when, and that the end of a process at any place leaves none for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.driver.events import Event
from headwater.runtime.driver.removal import GRACE_SECONDS, RETRY_SECONDS, SEARCH_SECONDS, Epochs, FileRemoval
from headwater.runtime.driver.upkeep import Upkeep
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, RewriteRecord, TaskCommit
from headwater.runtime.log.durable_files import MAX_ERRORS, collect_garbage
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import epoch_file_name
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import folded as folding
from headwater.runtime.task_id import TaskKey

TASK = TaskKey("app", "part", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    return log


@pytest.fixture
def state(log: EmbeddedLog) -> LogState:
    state = LogState.load(log.commits("app"))
    state.commit(GenerationRecord(1, 0))
    return state


@pytest.fixture
def write(log: EmbeddedLog, state: LogState) -> Callable[..., str]:
    """A function that writes a file in an epoch, and may have it listed."""

    def file(epoch: int, attempt: int = 0, commit: bool = False) -> str:
        name = epoch_file_name("", state.generation, epoch, TASK, attempt)
        listed = log.write("app", "t", name, pa.table({"_timestamp": [epoch], "_order": [epoch]}), 0, 0)
        if commit:
            task = TaskCommit("part", 0, {}, 0, segments=listed)
            state.commit(EpochRecord(state.generation, epoch, 0, (task,)))
        return listed[0].path

    return file


def left(log: EmbeddedLog) -> list[str]:
    return [file.path for file in log.files("app")]


def test_files_that_nobody_reads_go_at_once_and_replaced_ones_after_the_grace(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str]
) -> None:
    unread, replaced, listed = (write(epoch, commit=epoch == 3) for epoch in (1, 2, 3))
    removal = FileRemoval(log, state, seconds=clock)
    removal.now([unread])
    removal.later([replaced])
    removal.advance(Epochs(3))  # which also finds what nobody told of; this it was told of
    assert left(log) == [replaced, listed]
    assert not removal.due()
    clock.now += GRACE_SECONDS
    assert removal.due()
    removal.advance(Epochs(3))
    assert left(log) == [listed]


def test_files_of_decided_epochs_that_no_commit_lists_are_found_and_those_of_open_ones_stay(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str]
) -> None:
    removal = FileRemoval(log, state, seconds=clock)
    removal.advance()
    committed, failed = write(1, attempt=1, commit=True), write(1)
    still_open, later = write(2), write(4)
    assert not removal.due()
    clock.now += SEARCH_SECONDS
    assert removal.due()
    removal.advance(Epochs(3, frozenset({2})))
    assert left(log) == [committed, still_open, later]
    assert failed not in left(log)


def test_what_a_process_that_ended_was_to_remove_the_next_driver_removes(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str]
) -> None:
    listed, replaced, leftover_files = write(1, commit=True), write(2), write(3)
    FileRemoval(log, state, seconds=clock).later([replaced])
    state.commit(GenerationRecord(2, 0))
    FileRemoval(log, state, seconds=clock).advance()
    assert left(log) == [listed]
    assert leftover_files not in left(log)


def test_file_that_cannot_be_removed_holds_no_other_up_and_is_tried_again_later(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other, unlisted = write(1), write(2), write(3)
    removal = FileRemoval(log, state, seconds=clock)
    removal.now([stuck, other])
    remove = log.remove

    def refused(path: str) -> None:
        if path == stuck:
            raise PermissionError(13, "Permission denied")
        remove(path)

    monkeypatch.setattr(log, "remove", refused)
    with pytest.raises(PermissionError):
        removal.advance(Epochs(3))
    assert left(log) == [stuck]
    assert unlisted not in left(log)
    assert not removal.due()
    monkeypatch.undo()
    clock.now += GRACE_SECONDS
    removal.advance()
    assert left(log) == []


def test_file_that_the_last_commit_has_replaced_is_not_taken_for_garbage_before_anybody_is_told(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str]
) -> None:
    old = write(1, commit=True)
    (segment,) = state.segments()
    state.commit(RewriteRecord(1, 0, (replace(segment, path="", batches=(), span=segment.rows),)))
    assert state.replaced == (old,)
    FileRemoval(log, state, seconds=clock).advance(Epochs(1))
    assert left(log) == [old]


def test_files_may_be_handed_over_while_others_are_looked_for(log: EmbeddedLog, state: LogState, clock: Clock) -> None:
    removal = FileRemoval(log, state, seconds=clock)
    removal.later(map(str, range(100_000)))
    begun, ended = threading.Event(), threading.Event()

    def hand_over() -> None:
        begun.set()
        while not ended.is_set():
            removal.later(["x"])

    thread = threading.Thread(target=hand_over)
    thread.start()
    begun.wait()
    try:
        for _ in range(20):
            assert removal._waiting()
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("restarted", [False, True])
def test_what_another_process_has_replaced_stays_for_as_long_as_its_commit_says(
    log: EmbeddedLog, state: LogState, clock: Clock, write: Callable[..., str], restarted: bool
) -> None:
    """Also after a snapshot, and after many later commits."""
    old, (now, delay) = write(1, commit=True), (time.time_ns() // 1_000_000, 3_600_000)
    (segment,) = state.segments()
    nothing_left = replace(segment, path="", batches=(), span=segment.rows)
    state.commit(RewriteRecord(1, now, (nothing_left,), delay_ms=delay))
    for epoch in range(2, 250):
        state.commit(EpochRecord(1, epoch, now + epoch, ()))
    state.commit(GenerationRecord(2, now + 1000))
    assert state.commits.first() > 3
    other = LogState.load(log.commits("app")) if restarted else state

    FileRemoval(log, other, seconds=clock).advance()
    assert left(log) == [old]
    assert collect_garbage(log, "app", other, now + delay) == 1
    other.commit(EpochRecord(2, 1, now + delay, ()))
    assert other.retained.all() == ()


@pytest.mark.parametrize("grace", [0.0, GRACE_SECONDS])
def test_log_that_lets_no_file_go_is_not_asked_for_each_nor_in_each_look(
    log: EmbeddedLog, state: LogState, clock: Clock, monkeypatch: pytest.MonkeyPatch, grace: float
) -> None:
    asked = []

    def refused(path: str) -> None:
        asked.append(path)
        raise PermissionError(1, "Operation not permitted", path)

    removal = FileRemoval(log, state, grace, seconds=clock)
    removal.advance()
    monkeypatch.setattr(log, "remove", refused)
    removal.now(f"segments/app/t/{number}.seg" for number in range(100))
    with pytest.raises(PermissionError):
        removal.advance()
    assert len(asked) == MAX_ERRORS
    assert not removal.due()
    monkeypatch.undo()
    clock.now += RETRY_SECONDS
    assert removal.due()
    removal.advance()
    assert not removal.due()


def test_commit_after_the_end_of_the_upkeep_is_made(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("SNAPSHOT_EVERY", "AT_MOST"):
        monkeypatch.setattr(folding, limit, 1)
    state = LogState(log.commits("other"))
    with Upkeep(state, FileRemoval(log, state), Story()):
        state.commit(GenerationRecord(1, 0))
    state.commit(GenerationRecord(2, 0))
    assert state.commits.snapshots() == [2, 1]


class Story:
    def on(self, event: Event) -> None:
        pass
