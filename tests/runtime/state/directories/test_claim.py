"""Which state directory a new executor takes: its own, or the fullest that nobody holds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.state.directories.claim import claim
from headwater.runtime.state.directories.process_file import Owner, ProcessFile

GONE = Owner("of an earlier boot", 1, 0.0)


@pytest.fixture
def me() -> Owner:
    found = Owner.of(os.getpid())
    assert found is not None
    return found


def folder(state: Path, name: str, owner: Owner, stores: int, size: int = 0, incarnation: str = "1") -> None:
    path = state / name / "app"
    for partition in range(stores):
        store = path / "totals" / str(partition)
        store.mkdir(parents=True)
        (store / "data.mdb").write_bytes(bytes(size))
    replace(ProcessFile.take(path, owner), incarnation=incarnation).written(path)


def test_executor_takes_the_fullest_folder_that_nobody_holds(tmp_path: Path, me: Owner) -> None:
    folder(tmp_path, "client-1", GONE, stores=0)
    folder(tmp_path, "client-2", GONE, stores=2, size=10_000)
    folder(tmp_path, "client-3", GONE, stores=2, size=90_000)
    folder(tmp_path, "client-4", GONE, stores=1, size=900_000)
    folder(tmp_path, "client-5", Owner.of(1) or GONE, stores=9)

    assert claim(tmp_path, "app", me) == "client-3"
    assert claim(tmp_path, "app", me) == "client-3", "it has it now"
    found = ProcessFile.read(tmp_path / "client-3" / "app")
    assert found is not None
    assert found.owner == me


def test_stores_of_another_incarnation_count_for_nothing(tmp_path: Path, me: Owner) -> None:
    folder(tmp_path, "client-1", GONE, stores=1)
    folder(tmp_path, "client-2", GONE, stores=5, incarnation="of before a full refresh")

    assert claim(tmp_path, "app", me, "1") == "client-1"


def test_folder_of_a_process_whose_id_another_one_has_now_is_free(tmp_path: Path, me: Owner) -> None:
    folder(tmp_path, "client-1", replace(me, started=me.started - 1000), stores=1)

    assert claim(tmp_path, "app", me) == "client-1"


def test_executor_makes_a_folder_where_all_are_held(tmp_path: Path, me: Owner) -> None:
    other = Owner.of(os.getppid())
    assert other is not None
    folder(tmp_path, "client-1", other, stores=3)

    assert claim(tmp_path, "app", me) == "client-2"
