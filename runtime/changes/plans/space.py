"""How much room results take that are computed again, beside those that are there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...log.inspection.contents import contents_of
from ...log.placed.log import PlacedLog
from ...state.directories.beside import beside
from ...state.directories.directory import StateDirectory

_BLOCK = 512
"""Bytes of the unit in which systems tell how much of the disk a file takes."""


@dataclass(frozen=True)
class Space:
    """About so many `bytes` are still to be written at a `place`, as many as the present results take there. `free`: of
    its file system, None where that is not known. `enough`: False if all that comes to that file system does not fit.
    """

    place: str
    bytes: int
    free: int | None = None
    enough: bool = True


def space_of(log: PlacedLog, applications: Sequence[str], place: str, state_dir: Path | None) -> tuple[Space, ...]:
    """Of the results of these applications, in the log at a `place` and in the state directory on this machine."""
    if not applications:
        return ()
    new = log.beside({name: each.place for name, each in log.places().recomputed.items() if name in applications})
    begun = [name for name in applications if new.place_of(name) != log.place_of(name)]
    in_log = sum(_size(log, name) for name in applications) - sum(_size(new, name) for name in begun)
    folders: list[tuple[str, Path | None, int]] = [(place, Path(place) if Path(place).is_dir() else None, in_log)]
    if state_dir is not None:
        present, there = (sum(_taken(each, applications)) for each in (state_dir, beside(state_dir)))
        folders.append((str(state_dir), state_dir if state_dir.is_dir() else None, present - there))
    needed: dict[int, int] = {}
    for _, folder, size in folders:
        if folder is not None:
            device = folder.stat().st_dev
            needed[device] = needed.get(device, 0) + max(0, size)
    return tuple(_space(name, folder, max(0, size), needed) for name, folder, size in folders)


def _space(place: str, folder: Path | None, size: int, needed: dict[int, int]) -> Space:
    if folder is None:
        return Space(place, size)
    free = shutil.disk_usage(folder).free
    return Space(place, size, free, needed[folder.stat().st_dev] <= free)


def _size(log: PlacedLog, application: str) -> int:
    return contents_of(log, application).size


def _taken(state_dir: Path, applications: Sequence[str]) -> Iterator[int]:
    """What the files of stores take on the disk: those of LMDB have holes."""
    for application in applications:
        for directory in StateDirectory.found(state_dir, application):
            for path in directory.path.rglob("*"):
                yield path.lstat().st_blocks * _BLOCK
