"""Snapshots of stores: saved into the log, and loaded from there."""

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
from ..state.catch_up import TimeBudget
from ..state.directory import shared_work_folder
from ..state.machine import boot_id
from ..state.offset_checkpoint import write_whole
from ..state.store import CopyDamagedError, CopyingBackend, StoreBackend
from ..task_id import StoreId

# Snapshots on the client: saves a store into the log, and replaces a store by a snapshot from the log.

_COPY, _PROGRESS = "copy", "fetched"


class UnusableSnapshotError(HeadwaterError):
    """A snapshot cannot be loaded: `cause`. An older one, or the changelog, is used instead."""

    def __init__(self, snapshot: StoreSnapshot, cause: str) -> None:
        super().__init__(f"the snapshot {snapshot.path} cannot be loaded: {cause}")
        self.snapshot = snapshot
        self.cause = cause
        self.path_and_cause = f"{snapshot.path}: {cause}"


class NoCopiesError(HeadwaterError):
    """A restore strategy saves snapshots, but the backend of a store cannot copy it: `store`."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"the backend of store {store} cannot be copied, so there are no snapshots of it",
            "choose another backend for it, or another restore strategy",
        )
        self.store = store


def save(backend: StoreBackend, directory: Path, store: StoreId, log: Log, path: str) -> StoreSnapshot:
    """Copy the store of a directory into the log, at `path`. Raises NoCopiesError, StoreDamagedError, OSError."""
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
    """Fetch a snapshot within the time budget, and replace the store of a directory once all of it is fetched.

    Returns the number of bytes fetched so far; the snapshot's size once the store is replaced. Raises
    UnusableSnapshotError, MachineError.
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


def discard_partial(directory: Path, snapshot: StoreSnapshot) -> None:
    """Remove the fetched part of a snapshot that is not loaded any more."""
    shutil.rmtree(_folder(directory, snapshot), ignore_errors=True)


def _fetch(snapshot: StoreSnapshot, folder: Path, log: Log, budget: TimeBudget) -> int:
    """Fetch the next pieces of a snapshot. Returns the bytes fetched so far. The progress is saved for the next
    call."""
    size, checksum = _read_progress(folder)
    with open(folder / _COPY, "ab", buffering=0, opener=opener) as file:
        file.truncate(size)  # to the saved progress
        for piece in log.read_file(snapshot.path, size):
            size, checksum = size + len(piece), crc32(piece, checksum)
            while piece:  # an unbuffered write may be partial
                piece = piece[file.write(piece) :]
            if budget.is_over() and size < snapshot.size:
                write_whole(folder / _PROGRESS, f"{size} {checksum} {boot_id()}")
                return size
    if size != snapshot.size:
        raise CopyDamagedError(f"it has {size:,} bytes, and was saved with {snapshot.size:,}")
    if checksum != snapshot.checksum:
        raise CopyDamagedError("its checksum is wrong")
    return size


def _read_progress(folder: Path) -> tuple[int, int]:
    """Size and checksum of the fetched part of a snapshot.

    Zeros after another boot of the machine: the progress may be on the disk, and the fetched bytes may be lost.
    """
    try:
        size, checksum, boot = (folder / _PROGRESS).read_text().split()
        actual_size = (folder / _COPY).stat().st_size
    except (FileNotFoundError, ValueError):
        return 0, 0
    return (int(size), int(checksum)) if boot == boot_id() and int(size) <= actual_size else (0, 0)


def _folder(directory: Path, snapshot: StoreSnapshot) -> Path:
    """The work folder of a partly fetched snapshot. Each request may run in another process."""
    return shared_work_folder(directory, f"{snapshot.checksum:08x}")


# The driver's list of an application's snapshots: those in commits, without unusable ones.


class Snapshots:
    """The snapshots that a run may use. All clients of the application share it. It is thread-safe.

    `unusable`: paths of listed snapshots that could not be loaded or may be damaged.
    """

    def __init__(self, state: LogState) -> None:
        self._state = state
        self.unusable: set[str] = set()

    def usable(self, store: StoreId) -> tuple[StoreSnapshot, ...]:
        """The usable snapshots of one partition of a store, the newest first.

        A snapshot before the delete horizon is not usable: it may have rows with deletions that were dropped.
        """
        horizon = self._state.store_horizon(store)
        listed = self._state.store_snapshots.of(store)
        return tuple(each for each in listed if each.path not in self.unusable and each.position >= horizon)

    def is_listed(self, snapshot: StoreSnapshot) -> bool:
        """Whether a commit lists the snapshot, and no later one removes it."""
        return snapshot in self._state.store_snapshots.listed

    def distrust(self, store: StoreId) -> None:
        """Mark all snapshots of a store as unusable, because the store was damaged after one was loaded. A flipped bit
        is copied with its page, so all of them may have it."""
        self.unusable |= {snapshot.path for snapshot in self._state.store_snapshots.of(store)}

    def outdated(self, new: StoreSnapshot, keep: int) -> list[str]:
        """The paths of snapshots to remove when a new one is listed. `keep`: usable ones to keep, with the new one."""
        store = StoreId(new.store, new.partition)
        kept = self.usable(store)[: max(0, keep - 1)]
        return [snapshot.path for snapshot in self._state.store_snapshots.of(store) if snapshot not in kept]

    def new_path(self, store: StoreId) -> str:
        """A path in the log for a new snapshot."""
        name = snapshot_name(self._state.incarnation, self._state.generation, store.partition, uuid.uuid4().hex)
        return snapshot_path(self._state.place, store.store, name)
