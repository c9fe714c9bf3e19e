"""The interface of a task's local state: an ordered map of bytes with a position in its changelog."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Protocol, Self, cast, runtime_checkable

from ...errors import HeadwaterError, MachineError
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import StoreSize

Changes = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Keys and their new values, in two lists of equal length; None deletes the key. The last change of a key wins."""


class StoreUnusableError(MachineError):
    """The operating system rejects access to a store's files. A change that was being written has not happened."""

    def __init__(self, path: Path, number: int | None, reason: str) -> None:
        super().__init__(str(path), number, f"the store cannot be used: {reason}")

    @classmethod
    def from_os_error(cls, error: OSError, directory: Path) -> Self:
        """The error for a store in a directory."""
        path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else directory
        return cls(path, error.errno, error.strerror or str(error))


_ERRNOS = (
    *(errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG, errno.ENODEV, errno.ENXIO, errno.ESTALE),
)
ERRNO_BY_MESSAGE = {os.strerror(number): number for number in _ERRNOS}
"""The system's messages about files, disks and memory. Errors of LMDB and RocksDB have these texts, not the numbers."""


class StoreDamagedError(TaskCorruptedError):
    """The files of a store are damaged. The next process that opens it for writing gets an empty store."""

    def __init__(self, path: Path, cause: str) -> None:
        # The directory is `<store>/<partition>` for a task's store, `global/<table>` for a global table's.
        store = path.name if path.parent.name == "global" else path.parent.name
        super().__init__(f"store {path} is damaged: {cause}", store=store)
        self.hint = None  # a worker's error reaches the driver as text only
        self.path = path
        self.cause = cause


class StateStore(Protocol):
    """An ordered map of bytes that changes only by applying records of its changelog.

    `position` is the position in its changelog up to which records are applied. It is not a count of records, because a
    changelog may have positions without records. It changes atomically with the data, so a process may be killed at any
    time. (A CheckpointedStore is empty then.) Keys are never empty and sort by their bytes. Several processes may open
    a store at the same time; only one of them writes.
    """

    @property
    def position(self) -> int:
        """The current position in the changelog. Another process may apply more records at any time.

        This and the methods below raise StoreDamagedError if they find the store's files damaged.
        """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None for a missing key."""

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, sorted by key, or in `reverse` order; None: no bound on that side.

        Rows are read during the iteration, a bounded number at a time. If a row changes meanwhile, its old or new value
        may appear.
        """

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply `changes` in order and advance from `from_position` to `position`, in one transaction.

        Then all keys below `expire_below` are deleted. Raises TaskMigratedError if the store is not at `from_position`,
        and StoreUnusableError. After an error nothing is applied.
        """

    def close(self) -> None:
        """Flush all changes and close the files. It is not needed for correctness, and may be called again."""


class UnfitStoreError(HeadwaterError):
    """A plugin's backend opens a store that does not implement StateStore: `backend`, `lacks`."""

    def __init__(self, backend: str, lacks: str) -> None:
        super().__init__(
            f"the store backend {backend!r} opens a store that {lacks}",
            f"a store has to implement {StateStore.__module__}.{StateStore.__name__}; "
            "was the backend written for another version of Headwater?",
        )
        self.backend = backend
        self.lacks = lacks


def require_contract(store: StateStore, backend: str) -> None:
    """Raise UnfitStoreError if a store lacks a method of StateStore or an argument. This is before its first use."""
    missing = [name for name in ("get_many", "range", "apply", "close") if not callable(getattr(store, name, None))]
    if missing:
        raise UnfitStoreError(backend, f"has no method {', '.join(missing)}")
    try:
        signature(store.range).bind(None, None, reverse=True)
    except ValueError:  # a function written in C may have no signature
        return
    except TypeError as error:
        raise UnfitStoreError(backend, "has a method range without the argument reverse") from error


class SizedStore(StateStore, Protocol):
    """A StateStore that reports its size."""

    @property
    def size(self) -> StoreSize:
        """The current size. It is read in every epoch, so it has to be cheap."""


def size_of(store: StateStore) -> StoreSize | None:
    """The size of a store; None if its backend does not report it."""
    return cast(SizedStore, store).size if hasattr(type(store), "size") else None


class CheckpointedStore(StateStore, Protocol):
    """A StateStore that is not transactional. Changes are on the disk after a checkpoint only.

    If its process ends between two checkpoints, or the operating system rejects access to its files, the content of the
    store is unknown, and it starts empty. So it needs a changelog.
    """

    @property
    def unwritten(self) -> tuple[int, int]:
        """Changelog records and bytes that this process has applied since the last checkpoint."""

    def checkpoint(self) -> None:
        """Flush all changes to the disk, and write the checkpoint file. Raises StoreUnusableError."""


class StoreBackend(Protocol):
    """Creates and opens stores. Plugins register backends with `headwater_register_store_backends`."""

    def open(self, directory: Path) -> StateStore:
        """The store of `directory`, created if it does not exist. A store with untrusted files starts empty."""

    def open_to_read(self, directory: Path) -> StateStore:
        """The existing store of `directory`, opened without writing and without write permission.

        Raises StoreDamagedError if its files cannot be trusted.
        """


@runtime_checkable
class CopyingBackend(Protocol):
    """A StoreBackend that can copy a whole store into one file, for snapshots."""

    copy_form: str
    """The format of the file. A backend can load the files of all backends with the same format."""

    def save_copy(self, directory: Path, file: Path) -> int:
        """Copy the store of `directory`, as of one moment, to a new file. Returns the position of the copy.

        Other processes may read and write the store meanwhile. Raises StoreDamagedError, OSError.
        """

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """Replace the store of `directory` by a copy at `position`.

        `file` is beside the directory, and may be moved. After an error the old store is unchanged. If the process is
        killed, the store is the old one, the copy, or empty. Raises CopyDamagedError.
        """


class CopyDamagedError(HeadwaterError):
    """A file is not a valid copy of a store: `cause`."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"it is not a valid copy of a store: {cause}")
        self.cause = cause
