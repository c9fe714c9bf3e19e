"""Folders in place of files, files in place of folders, links in a circle: one sentence with the path and a way out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.errors import MachineError
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId

FOLDER, FILE, CIRCLE = "a folder where a file belongs", "a file where a folder belongs", "they lead in a circle"


def folder(path: Path) -> None:
    path.mkdir(parents=True)


def file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def circle(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path)


def lock(root: Path) -> None:
    with StateDirectory(root / "state", "c", "p-t").lock():
        pass


def take(root: Path) -> None:
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    ProcessFile.take(root / "state/c/p-t", owner)


def open_store(root: Path) -> None:
    _ = LmdbStore(StateDirectory(root / "state", "c", "p-t").store_path(StoreId("s", 0))).position


@pytest.mark.parametrize(
    ("path", "make", "use", "way_out"),
    [
        ("log/commits/p-t/000000000001.json", folder, lambda root: log(root).commits("p-t").read(1), FOLDER),
        (
            "log/commits/p-t/000000000001.snapshot",
            folder,
            lambda root: log(root).commits("p-t").read_snapshot(1),
            FOLDER,
        ),
        ("log/commits/p-t", file, lambda root: log(root).commits("p-t").latest(), FILE),
        ("log", file, lambda root: log(root).check(), FILE),
        ("log", circle, lambda root: log(root).check(), CIRCLE),
        ("log/commits", circle, lambda root: log(root).applications(), CIRCLE),
        ("state/c/p-t/.lock", folder, lock, FOLDER),
        ("state/c", file, lock, FILE),
        ("state", circle, lock, CIRCLE),
        ("state/c/p-t/.process.json", folder, take, FOLDER),
        ("state/c/p-t/s/0", file, open_store, FILE),
        ("state/c/p-t/s", file, open_store, FILE),
        ("state/c/p-t/s/0", circle, open_store, CIRCLE),
    ],
)
def test_something_else_in_its_place_is_told_with_path_and_way_out(
    tmp_path: Path, path: str, make: Callable[[Path], None], use: Callable[[Path], object], way_out: str
) -> None:
    make(tmp_path / path)

    with pytest.raises(MachineError) as raised:
        use(tmp_path)

    assert (raised.value.path or "").startswith(str(tmp_path / path))
    assert way_out in str(raised.value)


def log(root: Path) -> EmbeddedLog:
    return EmbeddedLog(root / "log")
