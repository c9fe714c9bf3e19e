"""Snapshots where the stores are: copies a store into the log, and a copy from the log into the place of a store."""

from __future__ import annotations

import time
from pathlib import Path

from ...errors import HeadwaterError
from ..log.commit_records import StoreSnapshot
from ..log.errors import SavedFileError
from ..log.log import Log, SavedFile
from ..state.store import CopyDamagedError, CopyingBackend, StoreBackend, StoreDamagedError
from ..task_id import StoreId


class UnusableSnapshotError(HeadwaterError):
    """A snapshot cannot be loaded: `cause`, with its path as `told`. There are older ones, or the changelog."""

    def __init__(self, snapshot: StoreSnapshot, cause: str) -> None:
        super().__init__(f"the snapshot {snapshot.path} cannot be loaded: {cause}")
        self.snapshot = snapshot
        self.cause = cause
        self.told = f"{snapshot.path}: {cause}"


class NotSavedError(HeadwaterError):
    """A store cannot be copied, because it is damaged: `cause`. The next epoch of its task finds that."""

    def __init__(self, error: StoreDamagedError) -> None:
        super().__init__(error.message)
        self.cause = error.cause


class NoCopiesError(HeadwaterError):
    """A restore strategy with snapshots, and a store whose backend cannot be copied: `store`."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"the backend of store {store} cannot be copied, so there are no snapshots of it",
            "choose another backend for it, or another restore strategy",
        )
        self.store = store


def save(backend: StoreBackend, directory: Path, store: StoreId, log: Log, path: str) -> StoreSnapshot:
    """Copy the store of a directory into the log, under `path`. Raises NoCopiesError, NotSavedError, OSError."""
    if not isinstance(backend, CopyingBackend):
        raise NoCopiesError(store.store)
    position = 0

    def fill(file: Path) -> None:
        nonlocal position
        try:
            position = backend.save_copy(directory, file)
        except StoreDamagedError as error:
            raise NotSavedError(error) from error

    saved = log.save_file(path, fill)
    at = time.time_ns() // 1_000_000
    return StoreSnapshot(
        store.store, store.partition, position, path, saved.size, saved.checksum, backend.copy_form, at
    )


def load(backend: StoreBackend, directory: Path, snapshot: StoreSnapshot, log: Log) -> None:
    """Put a snapshot in the place of the store of a directory. Raises UnusableSnapshotError, OSError."""
    if not isinstance(backend, CopyingBackend) or backend.copy_form != snapshot.form:
        raise UnusableSnapshotError(snapshot, f"the store's backend does not read the form {snapshot.form}")
    file = SavedFile(snapshot.path, snapshot.size, snapshot.checksum)
    try:
        backend.load_copy(directory, snapshot.position, lambda path: log.load_file(file, path))
    except (SavedFileError, CopyDamagedError) as error:
        raise UnusableSnapshotError(snapshot, error.cause) from error
