"""The built-in restore strategies, and checks of plugins' strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from ...plugins.errors import PluginError, error_text_with_line, wrapping_errors
from ..state.catch_up import RECORDS_PER_SLICE
from ..state.restore_strategy import Apply, Load, RestoreRequest, RestoreStrategy, Save, SavingStrategy, Step, Unsaved

# The built-in restore strategy `changelog`: applies all records, oldest first.


class ChangelogRestore:
    """A RestoreStrategy that reads the changelog from the store's position. `slice_records`: see `Apply`."""

    def __init__(self, slice_records: int = RECORDS_PER_SLICE) -> None:
        self._slice_records = slice_records

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """One step: apply the changelog up to the target."""
        yield Apply(request.target, self._slice_records)


# The built-in restore strategy `snapshot`: loads a snapshot of the store, and applies the changelog since then.

EVERY_BYTES = 64 << 20
"""The default interval of snapshots, in bytes of the changelog. They take some seconds to read."""

PART_OF_COPY = 0.5
"""The minimum interval, as a part of the last snapshot's size: a small change of a large store needs no snapshot."""

RECORD_BYTES = 256
"""Bytes of a snapshot that take as long to load as one record of the changelog to apply."""

SMALL_BYTES = 1 << 20
"""The size of a snapshot that loads in no time."""


class SnapshotRestore:
    """A SavingStrategy. A snapshot is saved when the store has changed in `every_epochs` epochs, or by `every_bytes` of
    its changelog, whichever is first. Without both: by EVERY_BYTES, or by PART_OF_COPY if that is more. `keep`: number
    of snapshots of each store.
    """

    def __init__(self, every_epochs: int | None = None, every_bytes: int | None = None, keep: int = 2) -> None:
        self._every_epochs = every_epochs
        self._every_bytes = every_bytes
        self._keep = keep

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """Load the newest snapshot if that is faster than its part of the changelog, then apply the changelog."""
        for snapshot in request.snapshots:
            if (snapshot.position - request.position) * RECORD_BYTES > snapshot.size - SMALL_BYTES:
                yield Load(snapshot)
                break
        yield Apply(request.target)

    def save(self, unsaved: Unsaved) -> Save | None:
        """A snapshot, if enough has changed."""
        epochs = self._every_epochs is not None and unsaved.epochs >= self._every_epochs
        every_bytes = self._every_bytes
        if every_bytes is None and self._every_epochs is None:
            last = unsaved.snapshots[0].size if unsaved.snapshots else 0
            every_bytes = max(EVERY_BYTES, int(PART_OF_COPY * last))
        size = every_bytes is not None and unsaved.size >= every_bytes
        return Save(self._keep) if epochs or size else None


# Calls a plugin's restore strategy, and reports errors and unusable results with its name.

Result = TypeVar("Result")


class RestoreStrategyError(PluginError):
    """A restore strategy raised an error, or returned an unusable result: `name` of the strategy, `method`, `cause`."""

    def __init__(self, name: str, method: str, cause: str) -> None:
        super().__init__(
            f"the restore strategy {name!r} fails in `{method}`: {cause}",
            "correct it, or take another one; nothing that was committed is lost",
        )
        self.name = name
        self.method = method
        self.cause = cause


class CheckedStrategy:
    """A RestoreStrategy that checks the first step of another one. Raises RestoreStrategyError."""

    def __init__(self, name: str, strategy: RestoreStrategy) -> None:
        self.name = name
        self._strategy = strategy

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """The first step, if any. Whether it brings the store closer to its target is checked when it is done."""
        step: object = self._call("steps", lambda: next(iter(self._strategy.steps(request)), None))
        cause = "which is neither a Load nor an Apply"
        match step:
            case None:
                return
            case Load(snapshot) if snapshot in request.snapshots:
                yield step
                return
            case Apply(int(), int(records)) if records > 0:
                yield step
                return
            case Load():
                cause = "which loads a snapshot that is not in the request"
            case Apply():
                cause = "which applies no records"
        store = f"store {request.store}, partition {request.partition}"
        raise RestoreStrategyError(self.name, "steps", f"it gives {step!r} for {store}, {cause}")

    def _call(self, method: str, call: Callable[[], Result]) -> Result:
        with wrapping_errors(lambda error: RestoreStrategyError(self.name, method, error_text_with_line(error))):
            return call()


class CheckedSavingStrategy(CheckedStrategy):
    """The same for a SavingStrategy."""

    def __init__(self, name: str, strategy: SavingStrategy) -> None:
        super().__init__(name, strategy)
        self._saving = strategy

    def save(self, unsaved: Unsaved) -> Save | None:
        """The checked result of the other strategy."""
        save = self._call("save", lambda: self._saving.save(unsaved))
        if save is None or (isinstance(save, Save) and isinstance(save.keep, int) and save.keep > 0):
            return save
        cause = f"it gives {save!r}, which is neither None nor a Save that keeps one or more"
        raise RestoreStrategyError(self.name, "save", cause)


def checked(name: str, strategy: RestoreStrategy) -> CheckedStrategy:
    """A strategy with checked results."""
    if isinstance(strategy, SavingStrategy):
        return CheckedSavingStrategy(name, strategy)
    return CheckedStrategy(name, strategy)
