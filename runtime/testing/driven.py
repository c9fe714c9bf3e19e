"""A topology driven by a test."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..chosen_plugins import ChosenPlugins, log_of, origin_of
from ..driver.cluster import Cluster
from ..driver.errors import RecordError, RecordErrors
from ..driver.results import ApplicationResult
from ..driver.runs import run_topologies
from ..ingest.append import SOURCE, append_incoming
from ..ingest.incoming import Incoming
from ..ingest.record_form import Sieve, parse_records
from ..ingest.seed_rows import yielded_rows
from ..ingest.seeds import SeedSpec, seed_rows
from ..ir.topology import GlobalTable, PluginRef, Settings, Store, Topic, Topology
from ..log.state import LogState
from ..query.rows import GlobalQuery, Row
from ..query.stores import StoreQuery
from ..query.topics import TopicReader
from ..records.arrays import BadValueError
from ..records.record_json import Record
from ..records.schema import value_columns
from ..records.values import Convert, from_json
from ..state.memory import memory_folder
from .rows import Cells, Columns, with_time

# Inputs and expected results of a test: plain data, checked.


@dataclass(frozen=True)
class Records:
    """Records of one topic, in record form, available at once."""

    topic: Topic
    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class SeedRows:
    """The rows of a project's file, read as a seed of the topic."""

    topic: Topic
    seed: SeedSpec


@dataclass(frozen=True)
class Advance:
    """Let time pass, in ms. `wall_clock`: only the wall clock, without stream time."""

    milliseconds: int
    wall_clock: bool = False


Input = Records | SeedRows | Advance


@dataclass(frozen=True)
class ExpectedRows:
    """The rows that a topic or a store has in the end, with their `columns`.

    `last`: only the last record of each key is compared, see `comparing.last_of_each_key`.
    """

    kind: Literal["topic", "store"]
    name: str
    columns: Columns
    rows: tuple[Cells, ...]
    any_order: bool = False
    contains: bool = False
    last: bool = False


@dataclass(frozen=True)
class ExpectedDrops:
    """The number of dropped records, by reason."""

    kind: ClassVar[str] = "dropped"

    counts: Mapping[str, int]


Expected = ExpectedRows | ExpectedDrops

DROP_REASONS = ("late", "null_key", "null_value")
"""Why steps drop records: the names that `dropped` may have."""


# A topology driven by a test. It runs on its own log, with records and time from the test.
#
# An input is processed to the end before the next one. The time of a test starts at 1970-01-01; it moves to the time of
# each input record, and by `advance`. Records without a time get it, and it is `current_timestamp()`. `advance` also
# advances the stream time of every operator in every task, as if a record of that time arrived there
# (`driver/epochs.py`).


class DrivenRunError(HeadwaterError):
    """The topology could not process its input: `application`, `cause`."""

    def __init__(self, application: str, cause: str, hint: str | None = None) -> None:
        super().__init__(cause, hint)
        self.application = application
        self.cause = cause


class UnfitTimeError(HeadwaterError):
    """A record has no time, and its topic cannot hold the time of the test: `topic`, `time` in ms."""

    def __init__(self, topic: str, time: int, cause: str) -> None:
        super().__init__(
            f"a record for {topic} has no time, and the test's time, {time} ms since 1970, does not fit: {cause}",
            "give the record a time, or let less time pass",
        )
        self.topic = topic
        self.time = time


class DrivenTopology:
    """A topology with its own log, stores and time, until `close` or until it is garbage-collected.

    `origin`: where plugins are found, see `chosen_plugins.Origin`. `seeds`: the application that writes external
    topics.
    """

    def __init__(
        self,
        topology: Topology,
        cluster: Cluster,
        seeds: str,
        origin: tuple[str, tuple[str, ...], tuple[str, ...]],
        spark: Mapping[str, Any],
    ) -> None:
        self.dropped: Counter[str] = Counter()
        self.topology = topology
        self._cluster = cluster
        self._seeds = seeds
        self._time = self._latest = 0
        self._stream_time = -1
        self._folder = Path(tempfile.mkdtemp(prefix="headwater-test-", dir=memory_folder()))
        # Removed even if the rest fails or `close` is not called: it may be in memory, which is scarce.
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        project_dir, plugins, without = origin
        self.settings = Settings(
            log=PluginRef("embedded", {"path": str(self._folder / "log")}),
            state_dir=str(self._folder / "state"),
            epoch_interval_ms=0,
            clean=False,
            spark=spark,
            plugins=plugins,
            project_dir=project_dir,
            without_plugins=without,
        )
        self._log = log_of(self.settings)
        self._log.check()
        self._state = LogState(self._log.commits(topology.application))

    @property
    def time(self) -> int:
        """The time of the test, in ms."""
        return self._time

    @property
    def stream_time(self) -> int:
        """The time to which it has advanced the stream time of all tasks, in ms; -1 before that."""
        return self._stream_time

    def close(self) -> None:
        """Remove everything that it has written."""
        self._remove()

    def feed(self, inputs: Iterable[Input | tuple[Topic, Iterable[Incoming]]]) -> None:
        """Give the topology inputs, one after the other; each is processed to the end before the next.

        Raises DrivenRunError if a record cannot be processed, SeedError, UnfitTimeError.
        """
        feed = _TestFeed(self, iter(inputs))
        results = run_topologies(
            [self.topology], self.settings, self._cluster, until_caught_up=True, feed=feed, owned=()
        )
        if feed.error is not None:
            raise feed.error
        for result in results.applications:
            for dropped, count in result.dropped.items():
                self.dropped[dropped.rpartition(":")[2]] += count
            if result.error is not None:
                raise _failed(result)
            if result.waiting:  # a test must not pass because nothing was read
                raise DrivenRunError(result.application, f"{result.application} has left {result.waiting} records")

    def records(self, topic: Topic) -> list[Record]:
        """All records of an output topic."""
        application = self.topology.application
        return list(TopicReader(self._log, application, topic, as_written=True, state=self._state).read())

    def rows(self, subtopology: str, store: Store, key: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a store of tasks. `key`: see `StoreQuery.rows`."""
        open_to_read = ChosenPlugins(origin_of(self.settings)).backend(store).open_to_read
        state_dir = Path(self.settings.state_dir)
        query = StoreQuery(self.topology.application, subtopology, store, self._log, state_dir, open_to_read)
        return list(query.rows(key))

    def global_rows(self, table: GlobalTable, key: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a global table."""
        return list(GlobalQuery(table, self._seeds, self._log).rows(key))

    def take(self, entry: Input | tuple[Topic, Iterable[Incoming]]) -> None:
        """Append the records of an input, or let time pass."""
        match entry:
            case Advance(milliseconds, wall_clock):
                self._time += milliseconds
                if not wall_clock:
                    self._latest += milliseconds
                    self._stream_time = self._latest
            case Records(topic, records):
                try:
                    incoming = incoming_of(topic, records, self._time)
                except BadValueError as error:  # all other values were checked before
                    raise UnfitTimeError(topic.name, self._time, error.cause) from error
                self._append(topic, [incoming])
            case SeedRows(topic, seed):
                self._append(topic, seed_rows(topic, seed, Path(self.settings.project_dir)))
            case (topic, pieces):
                self._append(topic, pieces)

    def _append(self, topic: Topic, pieces: Iterable[Incoming]) -> None:
        for piece in pieces:
            if len(piece):
                latest = int(pc.max(piece.table["_timestamp"]).as_py())
                self._time, self._latest = max(self._time, latest), max(self._latest, latest)
                append_incoming(self._log, self._seeds, topic, piece)


def _failed(result: ApplicationResult) -> DrivenRunError:
    """Why the topology ended, with a hint for a test: its log cannot be inspected or resumed."""
    match result.raised:
        case RecordError(message=message, way_on=way_on) | RecordErrors(message=message, way_on=way_on):
            return DrivenRunError(result.application, message, way_on)
        case HeadwaterError(message=message, hint=hint):
            return DrivenRunError(result.application, message, hint)
    return DrivenRunError(result.application, result.error or result.status)


class _TestFeed:
    """A Feed (`driver/epochs.py`) of inputs, one after the other."""

    def __init__(self, driven: DrivenTopology, inputs: Iterator[Any]) -> None:
        self.error: Exception | None = None
        self._driven = driven
        self._inputs = inputs

    def more(self) -> bool:
        """Append the next input. Returns whether there was one."""
        try:
            for entry in self._inputs:
                self._driven.take(entry)
                return True
        except Exception as error:  # raised after the run, which would report it as an error of its own
            self.error = error
        return False

    def stream_time(self) -> int:
        """The stream time to which the test has advanced, in ms."""
        return self._driven.stream_time

    def now(self) -> int:
        """The time of the test."""
        return self._driven.time


def incoming_of(topic: Topic, records: Iterable[Mapping[str, Any]], now: int, values: Convert = from_json) -> Incoming:
    """Records in record form, as the log stores them. `now`: the time of those without one. Raises BadValueError."""
    kind = value_columns(topic).get(topic.timestamp) if topic.timestamp is not None else None
    timed = [with_time(record, topic.timestamp, kind, now) for record in records]
    return parse_records(topic, timed, now, values)


def yielded_records(topic: Topic, records: Any, now: int) -> list[Incoming]:
    """A table, or an iterable of tables, rows or records, as the log stores them. Raises SeedError."""
    sieve = Sieve(replace(topic, on_error="fail"))
    return list(sieve.to_the_end(yielded_rows(SOURCE, records, topic, now, sieve)))
