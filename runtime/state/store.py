"""The interface of a task's local state: an ordered map of bytes with a position in its changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from ...errors import HeadwaterError, MachineError
from ..tasks.errors import TaskCorruptedError
from ..tasks.measured import StoreSize

Changes = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Keys and their new values, in two lists; None deletes. Of several changes of a key the last one wins."""


class StoreUnusableError(MachineError):
    """The system refuses the files of a store. A change that was being written has not happened."""

    def __init__(self, path: Path, number: int | None, reason: str) -> None:
        super().__init__(str(path), number, f"the store cannot be used: {reason}")


class StoreDamagedError(TaskCorruptedError):
    """The files of a store are not as they were written. The next process that opens it to write gets an empty one."""

    def __init__(self, path: Path, cause: str) -> None:
        # Its directory is that of a task's store, `<store>/<partition>`, or that of a global table, `global/<table>`.
        store = path.name if path.parent.name == "global" else path.parent.name
        super().__init__(f"store {path} is damaged: {cause}", store=store)
        self.hint = None  # a worker's error reaches the driver as text
        self.path = path
        self.cause = cause


class StateStore(Protocol):
    """An ordered map of bytes that changes only by applying records of its changelog.

    `position` is the place in its changelog up to which the records are applied. It is no count: a changelog may have
    positions without records. It changes together with the data or not at all, so a process may be killed at any time.
    (A CheckpointedStore is empty then.) Keys are never empty and sort by their bytes. Several processes may have a
    store open at the same time; only one of them writes.
    """

    @property
    def position(self) -> int:
        """The place in the changelog at this moment. Another process may have applied more since.

        This and the methods below raise StoreDamagedError if they find the store's files damaged.
        """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None for a missing one."""

    def range(self, start: bytes | None, end: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, sorted by key, or in `reverse` of that; None leaves a side open.

        They are read as they are taken, a bounded number at once, from either end. If rows change during the iteration,
        either value may appear.
        """

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply `changes` in order and move from `from_position` to `position`, in one transaction.

        `expire_below` then deletes all keys below it. Raises TaskMigratedError if the store is not at `from_position`,
        and StoreUnusableError; then nothing is applied.
        """

    def close(self) -> None:
        """Make everything applied durable and close the files. Not needed for correctness. It may be called again."""


class UnfitStoreError(HeadwaterError):
    """A store that a plugin's backend opens is no StateStore: `backend`, `lacks`."""

    def __init__(self, backend: str, lacks: str) -> None:
        super().__init__(
            f"the store backend {backend!r} opens a store that {lacks}",
            f"a store needs all that {StateStore.__module__}.{StateStore.__name__} has; "
            "was the backend written for another version of Headwater?",
        )
        self.backend = backend
        self.lacks = lacks


def require_contract(store: StateStore, backend: str) -> None:
    """Raise UnfitStoreError for a store that cannot be called as a StateStore is, before the first record needs it."""
    missing = [name for name in ("get_many", "range", "apply", "close") if not callable(getattr(store, name, None))]
    if missing:
        raise UnfitStoreError(backend, f"has no method {', '.join(missing)}")
    try:
        signature(store.range).bind(None, None, reverse=True)
    except ValueError:  # one that is written in C may not say what it takes
        return
    except TypeError as error:
        raise UnfitStoreError(backend, "has a method range without the argument reverse") from error


class SizedStore(StateStore, Protocol):
    """A StateStore that knows how large it is."""

    @property
    def size(self) -> StoreSize:
        """How large it is at this moment. Asked in every epoch, so it has to be cheap."""


def size_of(store: StateStore) -> StoreSize | None:
    """How large a store is; None where its backend does not tell."""
    return cast(SizedStore, store).size if hasattr(type(store), "size") else None


class CheckpointedStore(StateStore, Protocol):
    """A StateStore that is not transactional. What is applied is on the disk at its checkpoints only.

    If its process ends between two of them, or the system refuses its files, it is unknown what the store holds: then
    it starts empty. It needs a changelog to be restored from.
    """

    @property
    def unwritten(self) -> tuple[int, int]:
        """Changelog records and bytes that this process has applied since the last checkpoint."""

    def checkpoint(self) -> None:
        """Bring everything that was applied to the disk, and write the position down. Raises StoreUnusableError."""


class StoreBackend(Protocol):
    """Creates and opens stores. Plugins of `headwater_register_store_backends` make such objects."""

    def open(self, directory: Path) -> StateStore:
        """The store of `directory`, created if there is none. A store whose files cannot be trusted starts empty."""

    def open_to_read(self, directory: Path) -> StateStore:
        """The existing store of `directory`, opened without writing and without the right to write.

        It raises StoreDamagedError if it cannot be trusted.
        """


@runtime_checkable
class CopyingBackend(Protocol):
    """A StoreBackend whose stores can be copied as a whole into one file: what snapshots are made of."""

    copy_form: str
    """The form of the file. A backend can load the files of all backends that have the same form."""

    def save_copy(self, directory: Path, file: Path) -> int:
        """Copy the store of `directory`, as it is at one moment, to a new file. Returns the position of the copy.

        Others may read the store meanwhile, and write to it. Raises StoreDamagedError, OSError.
        """

    def load_copy(self, directory: Path, position: int, file: Path) -> None:
        """Make a copy, which has this position, the store of `directory`, in place of the one that is there.

        `file` is beside the directory, and may be moved. After an error the store is the one before; if the process is
        killed, it is that one, or the copy, or empty. Raises CopyDamagedError.
        """


class CopyDamagedError(HeadwaterError):
    """A file is no copy of a store: `cause`."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"it is no copy of a store: {cause}")
        self.cause = cause
