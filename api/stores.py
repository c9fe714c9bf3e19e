"""Rows of a project's stores, as of the last commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ..compiler.outcomes import OwnedStore, UnknownNameError, find_store
from ..runtime.changes.facets import store_differences
from ..runtime.log.commit.descriptions import StoreDescription
from ..runtime.log.declared_topics import check_writers
from ..runtime.log.log import Log
from ..runtime.log.state import LogState
from ..runtime.progress.committer import former_names
from ..runtime.query.rows import GlobalQuery, Row, Rows, table_schema
from ..runtime.query.stores import StoreQuery, WrittenStore, written_store
from .arguments import ArgumentError, check_name, check_number
from .target import Part
from .topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa

    from ..runtime.ir.topology import Store


class Stores(Part):
    """The stores of all topologies of a project."""

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self._files, self._selection, self._spark)

    def query(self, store: str, *, key: Mapping[str, Any] | None, start: int | None, end: int | None) -> Rows[Row]:
        """See `Project.query`."""
        check_name("store", store)
        check_number("start", start)
        check_number("end", end)
        if key is not None and not isinstance(key, Mapping):
            raise ArgumentError("key", key, "a mapping of key columns to values")
        owned, log = self._find(store), self._target.log_to_read()
        if owned.table is None:
            if (written := self._written(owned, log)) is not None:
                owned = replace(owned, store=written.store, subtopology=written.subtopology)
            else:
                self._check_writers(log, owned)
        if not owned.store.is_windowed and (start is not None or end is not None):
            raise UnknownNameError("window store", store, "only windows have bounds of time")
        rows: Callable[[], Iterator[Row]]
        table: Callable[[], pa.Table]
        if owned.table is not None:
            topic = self._topics.committed(log, owned.table.topic.name)
            table_query = GlobalQuery(owned.table, self._topics.writer(topic), log)
            rows, table = partial(table_query.rows, key), partial(table_query.to_table, key)
        else:
            query = self._local(owned, log)
            rows, table = partial(query.rows, key, start, end), partial(query.to_table, key, start, end)
        return Rows(f"store {store}", table_schema(owned.store), rows, table, self._spark.session)

    def retention(self, store: str) -> int | None:
        """See `Project.store_retention`."""
        check_name("store", store)
        return self._find(store).store.kept_ms

    def declared_otherwise(self, store: str) -> str | None:
        """See `Project.store_declared_otherwise`."""
        check_name("store", store)
        owned = self._find(store)
        if owned.table is not None:
            return None
        written = self._written(owned, self._target.log_to_read())
        return None if written is None else "; ".join(_differences(written, owned.store)) or None

    def _written(self, owned: OwnedStore, log: Log) -> WrittenStore | None:
        """The committed store, also under a former name of it; None if nothing is committed."""
        graph = next(topology for topology in self._files.typed.topologies if topology.application == owned.application)
        state = LogState.load(log.commits(owned.application))
        return written_store(state, owned.store, former_names(graph.was, owned.store.name))

    def application(self, store: str) -> str:
        """The application that fills a store. Raises UnknownNameError."""
        owned = self._find(store)
        return owned.application if owned.table is None else self._topics.application(owned.table.topic.name)

    def _find(self, name: str) -> OwnedStore:
        try:
            return find_store(self._files.typed.topologies, name)
        except UnknownNameError as error:
            if error.kind == "store" and name in self._files.checked.topics:
                error = UnknownNameError("store", name, f"it is a topic: `headwater read {name}` shows it")
            raise self._files.or_project_errors(error) from None

    def _local(self, owned: OwnedStore, log: Log) -> StoreQuery:
        """The query of a store with rows in tasks."""
        open_to_read = self._target.plugins().backend(owned.store).open_to_read
        state_dir = self._target.state_dir()
        return StoreQuery(owned.application, owned.subtopology, owned.store, log, state_dir, open_to_read)

    def _check_writers(self, log: Log, owned: OwnedStore) -> None:
        """Reject a store that was filled under the name of another topology: it would look empty.

        Raises WriterChangedError.
        """
        written = [topic for topic in self._files.checked.topics.values() if topic.writer == owned.application]
        check_writers(log, self._files.name, written)


def _differences(written: WrittenStore, declared: Store) -> Iterator[str]:
    if written.store.name != declared.name:
        yield f"it was called {written.store.name}"
    for difference in store_differences(written.description, StoreDescription.from_store(declared)):
        yield f"{difference.what}: {', '.join(difference.lines)}" if difference.lines else difference.what
