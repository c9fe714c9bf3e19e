"""The stores of a processor, or of several that share some, during an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....records.keys.encoding import encode_keys
from ....topology import Store
from ...keyed.codes import bytes_of
from ...order.origins import Origins
from ...rows import Rows
from ...task_epoch import TaskEpoch
from ..moment import Moment
from .any_store import AnyStore, store_of
from .key_value import KeyValueStore


class OpenedStores:
    """`moment`: what is worked on, by which rows expire and get their timestamps."""

    def __init__(self, stores: Sequence[Store], epoch: TaskEpoch, origins: Origins, moment: Moment) -> None:
        self._declared = {store.name: store for store in stores}
        self._epoch = epoch
        self._origins = origins
        self.by_name: Mapping[str, AnyStore] = {
            name: store_of(store, epoch.store(store), moment, epoch.clock(name))
            for name, store in self._declared.items()
        }

    def sweep(self) -> None:
        """Let what has expired go from key-value stores, and move their clocks.

        They are gone through whenever half of a retention has passed, and the rows deleted that had expired before this
        epoch. Of others whole segments leave the disk, by their clocks, which what is put moves.
        """
        for name, declared in self._declared.items():
            retention, store = declared.retention_ms, self.by_name[name]
            if retention is None or not isinstance(store, KeyValueStore):
                continue
            until, mark = self._origins.before - retention, f"{name}.swept"
            due = until >= 0 and self._origins.before >= self._epoch.clock(mark) + max(retention // 2, 1)
            if due:
                store.sweep(until)
                self._epoch.advance(mark, self._origins.before)
            self._epoch.advance(name, self._origins.time(len(self._origins) - 1))

    def expect(self, rows: Rows) -> None:
        """Read ahead what processors mostly ask for: the rows under the keys of records."""
        mine = {name: column.type for name, column in rows.keys.items()}
        plain = [store for store in self.by_name.values() if isinstance(store, KeyValueStore)]
        alike = [store for store in plain if store.key_types == mine]
        if not alike or not len(rows):
            return
        keys = encode_keys(list(rows.keys.values()))
        there = bytes_of(keys.filter(keys.is_valid()))
        for store in alike:
            store.expect(there)

    def flush(self, step: str) -> None:
        """Give the changes of the epoch to the stores. `step`: which counts what had expired when it was put."""
        for name, store in self.by_name.items():
            store.flush()
            if not isinstance(store, KeyValueStore):
                self._epoch.advance(name, store.clock)
                self._epoch.drop(step, "late", store.late)
