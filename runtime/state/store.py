"""What a task's local state is to the rest of the system: ordered bytes with a position in their changelog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ...errors import MachineError
from ..tasks.errors import TaskCorruptedError

Changes = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Keys and, beside them, their new values; None deletes. A later row wins over an earlier one of the same key."""


class StoreUnusableError(MachineError):
    """The system refuses the files of a store. Nothing of a change that was being written has happened."""

    def __init__(self, path: Path, number: int | None, reason: str) -> None:
        super().__init__(str(path), number, f"the store cannot be used: {reason}")


class StoreDamagedError(TaskCorruptedError):
    """The files of a store are not what was written. Whoever opens it to work on it has an empty one."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"store {path} is damaged: {cause}")
        self.hint = None  # a worker's error reaches the driver as text
        self.path = path
        self.cause = cause


class StateStore(Protocol):
    """An ordered map of bytes, changed only by applying records of its changelog.

    `position` is the number of changelog records applied so far; it changes together with the data or not at all, so
    a process may be killed at any point. Keys are never empty and sort by their bytes. A store may be open in several
    processes at a time; one of them writes.
    """

    @property
    def position(self) -> int:
        """Changelog records applied, as of now (another process may have applied more since).

        This and what follows raise StoreDamagedError where they find that the store's files are damaged.
        """

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of `keys`, in their order; None where there is none."""

    def range(self, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Rows with `start <= key < end`, by key; None leaves a side open.

        Rows that are changed while the iteration goes on may show either value.
        """

    def apply(
        self, changes: Iterable[Changes], from_position: int, position: int, expire_below: bytes | None = None
    ) -> None:
        """Apply `changes` in order and move from `from_position` to `position`, in one transaction.

        `expire_below` then deletes all keys below it. Raises, with nothing applied, TaskMigratedError when the store
        does not stand at `from_position`, and StoreUnusableError.
        """

    def close(self) -> None:
        """Make all that was applied durable and let go of files. Not needed for correctness; calling again is fine."""


class StoreBackend(Protocol):
    """Where stores live: what a plugin of `headwater_register_store_backends` makes."""

    def open(self, directory: Path) -> StateStore:
        """The store of `directory`, made if there is none. A store whose state cannot be trusted starts empty."""

    def open_to_read(self, directory: Path) -> StateStore:
        """The store of `directory`, which is there, without writing to it or needing to.

        It raises StoreDamagedError where it cannot be trusted.
        """
