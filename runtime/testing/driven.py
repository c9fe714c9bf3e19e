"""A topology that a test drives."""

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

# What a test gives a topology, and what it looks at: plain data, checked.


@dataclass(frozen=True)
class Records:
    """Records of one topic, in record form, which are there at once."""

    topic: Topic
    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class SeedRows:
    """The rows of a file of the project, read as a seed of the topic is."""

    topic: Topic
    seed: SeedSpec


@dataclass(frozen=True)
class Advance:
    """The test's time goes on by so many ms. `wall_clock`: it alone, and no stream time."""

    milliseconds: int
    wall_clock: bool = False


Given = Records | SeedRows | Advance


@dataclass(frozen=True)
class ExpectedRows:
    """Rows that a topic or a store has in the end. `columns`: of its rows.

    `last`: only the last record of each key is compared, see `found_rows.last_of_each_key`.
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
    """How many records were dropped, by reason."""

    kind: ClassVar[str] = "dropped"

    counts: Mapping[str, int]


Expected = ExpectedRows | ExpectedDrops

DROP_REASONS = ("late", "null_key", "null_value")
"""Why steps drop records: what `dropped` may name."""


# A topology that a test drives: it runs on a log of its own, and takes records and its time from the test.
#
# All that is given is processed to the end before what comes after it. The time of a test begins at 1970-01-01. It goes
# on to the time of each record that is given, and by what the test advances it: there is one time for records that name
# none, and for `current_timestamp()`. Where the test advances it, stream time goes along at every step of every task,
# as if a record of that time came to each of them (`driver/epochs.py`).


class DrivenRunError(HeadwaterError):
    """The topology could not process what it was given: `application`, `cause`."""

    def __init__(self, application: str, cause: str, hint: str | None = None) -> None:
        super().__init__(cause, hint)
        self.application = application
        self.cause = cause


class UnfitTimeError(HeadwaterError):
    """A record was given without a time, and its topic cannot hold that of the test: `topic`, `time` in ms."""

    def __init__(self, topic: str, time: int, cause: str) -> None:
        super().__init__(
            f"a record for {topic} names no time, and that of the test, {time} ms since 1970, does not fit: {cause}",
            "give the record a time, or let less time pass",
        )
        self.topic = topic
        self.time = time


class DrivenTopology:
    """A topology with a log, stores and a time of its own, until `close`, or until nobody has it any more.

    `origin`: where plugins are found, see `chosen_plugins.Origin`. `seeds`: the application that feeds topics.
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
        # Also where the rest fails, or nobody closes it: it may lie in memory, which is short.
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
        """To where it has advanced the stream time of all tasks, in ms; -1 before that."""
        return self._stream_time

    def close(self) -> None:
        """Remove all that it has written."""
        self._remove()

    def feed(self, given: Iterable[Given | tuple[Topic, Iterable[Incoming]]]) -> None:
        """Give the topology one thing after the other, each processed to the end before the next.

        Raises DrivenRunError if a record cannot be processed, SeedError, UnfitTimeError.
        """
        feeding = _Feeding(self, iter(given))
        results = run_topologies(
            [self.topology], self.settings, self._cluster, until_caught_up=True, feed=feeding, owned=()
        )
        if feeding.error is not None:
            raise feeding.error
        for result in results.applications:
            for dropped, count in result.dropped.items():
                self.dropped[dropped.rpartition(":")[2]] += count
            if result.error is not None:
                raise _failed(result)
            if result.waiting:  # no test may pass because nothing was taken
                raise DrivenRunError(result.application, f"{result.application} has left {result.waiting} records")

    def records(self, topic: Topic) -> list[Record]:
        """All records of a topic that it writes."""
        application = self.topology.application
        return list(TopicReader(self._log, application, topic, as_written=True, state=self._state).read())

    def rows(self, subtopology: str, store: Store, key: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a store that tasks have. `key`: see `StoreQuery.rows`."""
        open_to_read = ChosenPlugins(origin_of(self.settings)).backend(store).open_to_read
        state_dir = Path(self.settings.state_dir)
        query = StoreQuery(self.topology.application, subtopology, store, self._log, state_dir, open_to_read)
        return list(query.rows(key))

    def global_rows(self, table: GlobalTable, key: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a global table."""
        return list(GlobalQuery(table, self._seeds, self._log).rows(key))

    def take(self, given: Given | tuple[Topic, Iterable[Incoming]]) -> None:
        """Append what is given, or let time pass."""
        match given:
            case Advance(milliseconds, wall_clock):
                self._time += milliseconds
                if not wall_clock:
                    self._latest += milliseconds
                    self._stream_time = self._latest
            case Records(topic, records):
                try:
                    incoming = incoming_of(topic, records, self._time)
                except BadValueError as error:  # all other values have been checked
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
    """What ended the topology, with what helps in a test: there is no log to look at, or to go on with."""
    match result.raised:
        case RecordError(message=message, way_on=way_on) | RecordErrors(message=message, way_on=way_on):
            return DrivenRunError(result.application, message, way_on)
        case HeadwaterError(message=message, hint=hint):
            return DrivenRunError(result.application, message, hint)
    return DrivenRunError(result.application, result.error or result.status)


class _Feeding:
    """A Feed (`driver/epochs.py`): the things that are given, one after the other."""

    def __init__(self, driven: DrivenTopology, given: Iterator[Any]) -> None:
        self.error: Exception | None = None
        self._driven = driven
        self._given = given

    def more(self) -> bool:
        """Append the next one."""
        try:
            for each in self._given:
                self._driven.take(each)
                return True
        except Exception as error:  # kept, and raised behind the run: a run tells errors of its own in another way
            self.error = error
        return False

    def stream_time(self) -> int:
        """To where the test has advanced it."""
        return self._driven.stream_time

    def now(self) -> int:
        """The time of the test."""
        return self._driven.time


def incoming_of(topic: Topic, records: Iterable[Mapping[str, Any]], now: int, values: Convert = from_json) -> Incoming:
    """Records in record form as the log takes them. `now`: the time of those without one. Raises BadValueError."""
    kind = value_columns(topic).get(topic.timestamp) if topic.timestamp is not None else None
    timed = [with_time(record, topic.timestamp, kind, now) for record in records]
    return parse_records(topic, timed, now, values)


def yielded_records(topic: Topic, records: Any, now: int) -> list[Incoming]:
    """A table, or an iterable of tables, rows or records, as the log takes them. Raises SeedError."""
    sieve = Sieve(replace(topic, on_error="fail"))
    return list(sieve.to_the_end(yielded_rows(SOURCE, records, topic, now, sieve)))
