"""Copies of stores as snapshots."""

from __future__ import annotations

import shutil
import time
import uuid
from pathlib import Path
from zlib import crc32

from ...errors import HeadwaterError, MachineError
from ...private_files import make_folder, opener
from ..log.commit.records import StoreSnapshot
from ..log.errors import SavedFileError
from ..log.log import Log, snapshot_name, snapshot_path
from ..log.state import LogState
from ..records.schema import changelog_topic
from ..state.catch_up import TimeBudget
from ..state.directory import shared_work_folder
from ..state.machine import boot_id
from ..state.offset_checkpoint import write_whole
from ..state.store import CopyDamagedError, CopyingBackend, StoreBackend
from ..task_id import StoreId

# Snapshots where the stores are: copies a store into the log, and a copy from the log into the place of a store.

_COPY, _NOTE = "copy", "fetched"


class UnusableSnapshotError(HeadwaterError):
    """A snapshot cannot be loaded: `cause`, with its path as `told`. There are older ones, or the changelog."""

    def __init__(self, snapshot: StoreSnapshot, cause: str) -> None:
        super().__init__(f"the snapshot {snapshot.path} cannot be loaded: {cause}")
        self.snapshot = snapshot
        self.cause = cause
        self.told = f"{snapshot.path}: {cause}"


class NoCopiesError(HeadwaterError):
    """A restore strategy with snapshots, and a store whose backend cannot be copied: `store`."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"the backend of store {store} cannot be copied, so there are no snapshots of it",
            "choose another backend for it, or another restore strategy",
        )
        self.store = store


def save(backend: StoreBackend, directory: Path, store: StoreId, log: Log, path: str) -> StoreSnapshot:
    """Copy the store of a directory into the log, under `path`. Raises NoCopiesError, StoreDamagedError,
    OSError."""
    if not isinstance(backend, CopyingBackend):
        raise NoCopiesError(store.store)
    position = 0

    def fill(file: Path) -> None:
        nonlocal position
        position = backend.save_copy(directory, file)

    saved = log.save_file(path, fill)
    at = time.time_ns() // 1_000_000
    return StoreSnapshot(
        store.store, store.partition, position, path, saved.size, saved.checksum, backend.copy_form, at
    )


def load(backend: StoreBackend, directory: Path, *, snapshot: StoreSnapshot, log: Log, budget: TimeBudget) -> int:
    """Put a snapshot in the place of the store of a directory, as far as there is time. Returns how many bytes of it
    are here by now; at the last one it is the store. Raises UnusableSnapshotError, MachineError.
    """
    if not isinstance(backend, CopyingBackend) or backend.copy_form != snapshot.form:
        raise UnusableSnapshotError(snapshot, f"the store's backend does not read the form {snapshot.form}")
    folder = _folder(directory, snapshot)
    make_folder(folder)
    size = 0
    try:
        size = _fetch(snapshot, folder, log, budget)
        if size < snapshot.size:
            return size
        backend.load_copy(directory, snapshot.position, folder / _COPY)
    except (SavedFileError, CopyDamagedError) as error:
        raise UnusableSnapshotError(snapshot, error.cause) from error
    except OSError as error:
        raise MachineError.from_error(error, folder) from error
    finally:
        if size in (0, snapshot.size):
            shutil.rmtree(folder, ignore_errors=True)
    return size


def give_up(directory: Path, snapshot: StoreSnapshot) -> None:
    """Remove what is here of a snapshot that is to be loaded no more."""
    shutil.rmtree(_folder(directory, snapshot), ignore_errors=True)


def _fetch(snapshot: StoreSnapshot, folder: Path, log: Log, budget: TimeBudget) -> int:
    """Copy the next pieces of a snapshot; how many bytes are here. What is known of them is noted for the next time."""
    size, checksum = _fetched(folder)
    with open(folder / _COPY, "ab", buffering=0, opener=opener) as file:
        file.truncate(size)  # what was written after the note
        for piece in log.read_file(snapshot.path, size):
            size, checksum = size + len(piece), crc32(piece, checksum)
            while piece:  # an unbuffered write may take a part only
                piece = piece[file.write(piece) :]
            if budget.is_over() and size < snapshot.size:
                write_whole(folder / _NOTE, f"{size} {checksum} {boot_id()}")
                return size
    if size != snapshot.size:
        raise CopyDamagedError(f"it has {size:,} bytes, and was saved with {snapshot.size:,}")
    if checksum != snapshot.checksum:
        raise CopyDamagedError("its checksum is wrong")
    return size


def _fetched(folder: Path) -> tuple[int, int]:
    """Size and checksum of what is here of a snapshot.

    Nothing where the machine has stopped meanwhile: the note may be on the disk, and what it tells of not.
    """
    try:
        size, checksum, boot = (folder / _NOTE).read_text().split()
        there = (folder / _COPY).stat().st_size
    except (FileNotFoundError, ValueError):
        return 0, 0
    return (int(size), int(checksum)) if boot == boot_id() and int(size) <= there else (0, 0)


def _folder(directory: Path, snapshot: StoreSnapshot) -> Path:
    """Where a snapshot is until all of it is here: each slice may be another process."""
    return shared_work_folder(directory, f"{snapshot.checksum:08x}")


# What the driver knows of an application's snapshots: those that commits list, and those that could not be loaded.


class Snapshots:
    """The snapshots that a run may use. All clients of the application share it, and threads may use it at once.

    `unusable`: paths of those that are listed, and could not be loaded or may be damaged.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.unusable: set[str] = set()

    def of(self, store: str, partition: int) -> tuple[StoreSnapshot, ...]:
        """Those of one partition of a store, the furthest first.

        Not those that may have rows whose deletions are dropped from the changelog by now.
        """
        found = self._state.store_snapshots.of(store, partition)
        horizon = self._state.horizon(changelog_topic(self._state.application, store), partition, partition)
        return tuple(each for each in found if each.path not in self.unusable and each.position >= horizon)

    def lists(self, snapshot: StoreSnapshot) -> bool:
        """Whether a commit lists it, and none after that has removed it."""
        return snapshot in self._state.store_snapshots.of(snapshot.store, snapshot.partition)

    def give_up(self, store: StoreId) -> None:
        """A store is damaged that was loaded from a snapshot: a flipped bit is copied with the page that it is in, and
        what one snapshot has, others may have too."""
        self.unusable |= {each.path for each in self._state.store_snapshots.of(store.store, store.partition)}

    def outdated(self, new: StoreSnapshot, keep: int) -> list[str]:
        """The paths of those that are not needed any more once a new one is there."""
        listed = self._state.store_snapshots.of(new.store, new.partition)
        usable = [each.path for each in self.of(new.store, new.partition)]
        return [each.path for each in listed if each.path not in usable[: max(0, keep - 1)]]

    def new_path(self, store: str, partition: int) -> str:
        """Where a snapshot that is made now is kept."""
        name = snapshot_name(self._state.incarnation, self._state.generation, partition, uuid.uuid4().hex)
        return snapshot_path(self._state.place, store, name)
