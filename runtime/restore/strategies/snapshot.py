"""The built-in restore strategy `snapshot`: loads a copy of the store, and applies what the changelog has since."""

from __future__ import annotations

from collections.abc import Iterator

from ...state.restore_strategy import Apply, Load, RestoreRequest, Save, Step, Unsaved

EVERY_BYTES = 64 << 20
"""Of the changelog. It takes some seconds to read."""

PART_OF_COPY = 0.5
"""Of the last copy's size: a large store is not copied again for every small change of it."""

RECORD_BYTES = 256
"""Of a copy: as many take about as long to load as a record of the changelog to apply."""

SMALL_BYTES = 1 << 20
"""Such a copy takes no time."""


class SnapshotRestore:
    """A SavingStrategy. A snapshot is saved when the store has changed in `every_epochs` epochs, or by `every_bytes` of
    its changelog, whichever is first. If neither is given: by EVERY_BYTES, or PART_OF_COPY if that is more. `keep`:
    snapshots of each store.
    """

    def __init__(self, every_epochs: int | None = None, every_bytes: int | None = None, keep: int = 2) -> None:
        self._every_epochs = every_epochs
        self._every_bytes = every_bytes
        self._keep = keep

    def steps(self, request: RestoreRequest) -> Iterator[Step]:
        """The furthest snapshot, unless the store is about as far, and then the changelog."""
        for snapshot in request.snapshots:
            if (snapshot.position - request.position) * RECORD_BYTES > snapshot.size - SMALL_BYTES:
                yield Load(snapshot)
                break
        yield Apply(request.target)

    def save(self, unsaved: Unsaved) -> Save | None:
        """Once enough has changed."""
        epochs = self._every_epochs is not None and unsaved.epochs >= self._every_epochs
        every_bytes = self._every_bytes
        if every_bytes is None and self._every_epochs is None:
            last = unsaved.snapshots[0].size if unsaved.snapshots else 0
            every_bytes = max(EVERY_BYTES, int(PART_OF_COPY * last))
        size = every_bytes is not None and unsaved.size >= every_bytes
        return Save(self._keep) if epochs or size else None
