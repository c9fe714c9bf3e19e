"""Which state directory a new executor takes: its own, or the fullest that nobody holds. What becomes of others."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.state.directory import rebuild_state_dir, take_over_rebuild
from headwater.runtime.state.directory_claim import claim
from headwater.runtime.state.process_file import Owner, ProcessFile

GONE = Owner("of an earlier boot", 1, 0.0)


@pytest.fixture
def me() -> Owner:
    found = Owner.from_pid(os.getpid())
    assert found is not None
    return found


def folder(
    state: Path, name: str, owner: Owner, stores: int, size: int = 0, incarnation: str = "1", application: str = "app"
) -> None:
    path = state / name / application
    for partition in range(stores):
        store = path / "totals" / str(partition)
        store.mkdir(parents=True)
        (store / "data.mdb").write_bytes(bytes(size))
    replace(ProcessFile.take(path, owner), incarnation=incarnation).write(path)


def test_executor_takes_the_fullest_folder_that_nobody_holds(tmp_path: Path, me: Owner) -> None:
    folder(tmp_path, "client-1", GONE, stores=0)
    folder(tmp_path, "client-2", GONE, stores=2, size=10_000)
    folder(tmp_path, "client-3", GONE, stores=2, size=90_000)
    folder(tmp_path, "client-4", GONE, stores=1, size=900_000)
    folder(tmp_path, "client-5", Owner.from_pid(1) or GONE, stores=9)

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
    other = Owner.from_pid(os.getppid())
    assert other is not None
    folder(tmp_path, "client-1", other, stores=3)

    assert claim(tmp_path, "app", me) == "client-2"


def test_folders_of_former_names_get_the_new_one(tmp_path: Path, me: Owner) -> None:
    folder(tmp_path, "client-1", GONE, stores=1, application="oldest")
    folder(tmp_path, "client-2", GONE, stores=3, application="old")
    folder(tmp_path, "client-3", GONE, stores=9, application="old", incarnation="of another one with this name")

    assert claim(tmp_path, "app", me, "1", former=("old", "oldest")) == "client-2"

    found = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")}
    assert found == {"client-1/app", "client-2/app", "client-3/old"}
    assert len(list((tmp_path / "client-2" / "app" / "totals").iterdir())) == 3


def test_folder_whose_owner_lives_longer_than_a_run_under_the_new_name_is_free_for_the_next_one(
    tmp_path: Path, me: Owner
) -> None:
    other = Owner.from_pid(os.getppid())
    assert other is not None
    folder(tmp_path, "client-1", other, stores=3, application="old")
    assert claim(tmp_path, "app", me, "1", former=("old",)) == "client-1"
    assert len(list((tmp_path / "client-1" / "old" / "totals").iterdir())) == 3, "it may still be written"
    for name in ("app", "old"):
        found = ProcessFile.read(tmp_path / "client-1" / name)
        assert found is not None
        replace(found, owner=GONE, incarnation="1").write(tmp_path / "client-1" / name)

    assert claim(tmp_path, "app", me, "1", former=("old",)) == "client-2", "it has more stores"

    assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} == {"client-1/app", "client-2/app"}
    assert claim(tmp_path, "app", other, "1", former=("old",)) == "client-1"


@pytest.mark.parametrize("owner", ["gone", "alive"])
def test_stores_of_a_result_that_has_switched_go_once_the_application_has_others(tmp_path: Path, owner: str) -> None:
    other = Owner.from_pid(os.getppid())
    assert other is not None
    folder(tmp_path, "client-1", GONE, stores=2)
    folder(rebuild_state_dir(tmp_path), "client-1", other if owner == "alive" else GONE, stores=2)
    folder(rebuild_state_dir(tmp_path), "client-2", GONE, stores=2, incarnation="of a result that is computed now")

    take_over_rebuild(tmp_path, "app", "1", without_owner=True)

    left = {path.parent.name for path in rebuild_state_dir(tmp_path).glob("*/app")}
    assert left == {"client-2"} | ({"client-1"} if owner == "alive" else set())
    assert len(list((tmp_path / "client-1" / "app" / "totals").iterdir())) == 2
