"""Rows of a project's stores, as of the last commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..compiler.outcomes import OwnedStore, UnknownNameError, find_store
from ..runtime.log.declared_topics import check_writers
from ..runtime.log.log import Log
from ..runtime.log.state import LogState
from ..runtime.query.frames import Rows
from ..runtime.query.global_tables import GlobalQuery
from ..runtime.query.rows import Row, table_schema
from ..runtime.query.stores import StoreQuery
from .arguments import ArgumentError, check_name, check_number
from .files import CheckedFiles
from .target import Target
from .topics import Topics

if TYPE_CHECKING:
    import pyarrow as pa

    from ..runtime.spark.session.on_demand import SparkOnDemand


class Stores:
    """The stores of all topologies of a project."""

    def __init__(self, files: CheckedFiles, target: Target, topics: Topics, spark: SparkOnDemand) -> None:
        self._files = files
        self._target = target
        self._topics = topics
        self._spark = spark

    def query(self, store: str, *, key: Mapping[str, Any] | None, start: int | None, end: int | None) -> Rows[Row]:
        """See `Project.query`."""
        check_name("store", store)
        check_number("start", start)
        check_number("end", end)
        if key is not None and not isinstance(key, Mapping):
            raise ArgumentError("key", key, "a mapping of key columns to values")
        owned = self._find(store)
        if owned.store.type != "window" and (start is not None or end is not None):
            raise UnknownNameError("window store", store, "only windows have bounds of time")
        log = self._target.log_to_read()
        rows: Callable[[], Iterator[Row]]
        table: Callable[[], pa.Table]
        if owned.table is not None:
            topic = self._topics.committed(log, owned.table.topic.name)
            held = GlobalQuery(owned.table, self._topics.writer(topic), log)
            rows, table = partial(held.rows, key), partial(held.to_table, key)
        else:
            query = self._local(owned, log)
            rows, table = partial(query.rows, key, start, end), partial(query.to_table, key, start, end)
        return Rows(f"store {store}", table_schema(owned.store), rows, table, self._spark.session)

    def _find(self, name: str) -> OwnedStore:
        try:
            return find_store(self._files.typed.topologies, name)
        except UnknownNameError as error:
            if error.kind == "store" and name in self._files.checked.topics:
                error = UnknownNameError("store", name, f"it is a topic: `headwater read {name}` shows it")
            raise self._files.unknown(error) from None

    def _local(self, owned: OwnedStore, log: Log) -> StoreQuery:
        """The rows of a store that tasks have. Raises WriterChangedError."""
        self._check_started(log, owned)
        open_to_read = self._target.plugins().backend(owned.store).open_to_read
        state_dir = self._target.state_dir()
        return StoreQuery(owned.application, owned.subtopology, owned.store, log, state_dir, open_to_read)

    def _check_started(self, log: Log, owned: OwnedStore) -> None:
        """Refuse a store that was filled under the name of another topology: it would look empty.

        Raises WriterChangedError.
        """
        if owned.store.name not in LogState.load(log.commits(owned.application)).topology.stores:
            topics = self._files.checked.topics.values()
            written = [topic for topic in topics if topic.writer == owned.application]
            check_writers(log, self._files.name, written)
