"""The built-in restore strategy `snapshot`: loads a copy of the store, and applies what the changelog has since."""

from __future__ import annotations

from collections.abc import Iterator

from ...state.restore_strategy import Apply, Load, RestoreRequest, Save, Step, Unsaved

EVERY_BYTES = 64 << 20
"""Of the changelog. It takes some seconds to read."""

RECORD_BYTES = 256
"""Of a copy: as many take about as long to load as a record of the changelog to apply."""

SMALL_BYTES = 1 << 20
"""Such a copy takes no time."""


class SnapshotRestore:
    """A SavingStrategy. A snapshot is saved when the store has changed in `every_epochs` epochs, or by `every_bytes` of
    its changelog, whichever is first. If neither is given: by EVERY_BYTES. `keep`: snapshots of each store.
    """

    def __init__(self, every_epochs: int | None = None, every_bytes: int | None = None, keep: int = 2) -> None:
        self._every_epochs = every_epochs
        self._every_bytes = EVERY_BYTES if every_epochs is None and every_bytes is None else every_bytes
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
        size = self._every_bytes is not None and unsaved.size >= self._every_bytes
        return Save(self._keep) if epochs or size else None
