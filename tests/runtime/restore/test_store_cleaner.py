"""Copies of stores that a client has had no task of for some time: which are removed, and when."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.restore.store_saver import StoreCleaner
from headwater.runtime.task_id import StoreId, TaskId
from headwater.tests.runtime.tasks.client_tasks import T00, T01, T02, TOTALS, ClientTasks, at_once

S0, S1, S2 = (StoreId("s", number) for number in range(3))


class Clock:
    """Seconds, as the test says."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Cleaned:
    """A client's cleaner, with a delay of 600 seconds, and what it has told."""

    def __init__(self, client: ClientTasks) -> None:
        self.client = client
        self.clock = Clock()
        self.told: list[tuple[Sequence[StoreId], str]] = []
        self.cleaner = StoreCleaner(
            client.stores,
            600,
            at_once,  # type: ignore[arg-type]
            lambda stores, cause: self.told.append((stores, cause)),
            self.clock,
        )

    def at(self, seconds: float) -> list[StoreId]:
        """What is there at a time, once the cleaner has been asked."""
        self.clock.now = seconds
        for _ in range(2):
            self.cleaner.advance(self.tasks)
        return self.client.directory.stores()

    def tasks(self) -> Collection[TaskId]:
        manager = self.client.manager
        return {task.id for task in (*manager.active, *manager.standby)}

    def age(self) -> None:
        """Have all stores be from long ago."""
        for path in self.client.directory.path.glob("s/**/*"):
            os.utime(path, (0, 0))


@pytest.fixture
def cleaned(tmp_path: Path) -> Cleaned:
    client = ClientTasks(tmp_path)
    for partition in range(3):
        client.append(partition, 5)
    client.run(T00, T01, standby=[T02])
    return Cleaned(client)


def test_copy_is_removed_once_no_task_has_had_it_for_the_delay(cleaned: Cleaned) -> None:
    cleaned.age()
    assert cleaned.at(0) == [S0, S1, S2]
    cleaned.client.manager.handle_assignment([T00])
    cleaned.age()
    assert cleaned.at(100) == [S0, S1, S2]
    assert cleaned.at(690) == [S0, S1, S2]

    assert cleaned.at(750) == [S0]
    assert cleaned.told == [([S1, S2], "")]
    assert cleaned.client.stores.positions() == {S0: 5}
    cleaned.client.run(T00, T01)
    assert cleaned.client.stores.positions() == {S0: 5, S1: 5}


def test_task_that_comes_back_in_time_finds_its_copy(cleaned: Cleaned) -> None:
    cleaned.client.manager.handle_assignment([T00], [T02])
    cleaned.age()
    assert cleaned.at(100) == [S0, S1, S2]
    cleaned.client.run(T00, T01, standby=[T02])
    assert cleaned.at(500) == [S0, S1, S2]
    cleaned.client.manager.handle_assignment([T00], [T02])
    cleaned.age()
    assert cleaned.at(800) == [S0, S1, S2]
    assert cleaned.at(1400) == [S0, S2]


def test_copy_that_was_touched_lately_stays_and_is_still_known(cleaned: Cleaned) -> None:
    cleaned.client.manager.handle_assignment([T00], [T02])
    assert cleaned.at(0) == [S0, S1, S2]
    assert cleaned.at(700) == [S0, S1, S2]
    assert cleaned.client.stores.positions() == {S0: 5, S1: 5, S2: 5}
    assert cleaned.told == []


def test_copy_without_a_changelog_is_never_removed(cleaned: Cleaned) -> None:
    parts = cleaned.client.stores._parts
    parts[0] = replace(parts[0], stores=(replace(TOTALS, changelog=False),))
    cleaned.client.manager.handle_assignment([])
    cleaned.age()
    assert cleaned.at(0) == [S0, S1, S2]
    assert cleaned.at(5000) == [S0, S1, S2]


def test_directory_that_is_gone_ends_nothing_and_is_told(cleaned: Cleaned) -> None:
    cleaned.client.manager.handle_assignment([])
    assert cleaned.at(0) == [S0, S1, S2]
    (cleaned.client.directory.path / ".process.json").unlink()
    cleaned.at(700)
    ((removed, cause),) = cleaned.told
    assert removed == ()
    assert "is not at" in cause
