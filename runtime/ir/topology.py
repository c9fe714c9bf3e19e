"""What generated code declares of a topology: topics, stores, subtopologies, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .windows import AnyWindow, JoinWindow

if TYPE_CHECKING:
    from ..engine.steps import Engine


# The declarations of generated code: topics, stores, subtopologies. They are frozen data without Spark and I/O.
#
# `job.py` builds them from the YAML; the whole runtime reads them. Column lists are Spark SQL DDL
# (`"carrier string, delay double"`), which is easy to review in generated code.

ExpressionEngine = Literal["spark", "task"]
"""What computes expressions: Spark SQL; or the task itself, on Arrow, those for which it is proven to give the same."""

OnError = Literal["fail", "skip", "dead_letter"]
"""What becomes of a record that a step cannot process: its task stops, or the record is left out, and maybe kept."""


@dataclass(frozen=True)
class Topic:
    """A partitioned sequence of records, addressed by partition and offset.

    `writer` is the application that writes it (`<project>-<topology>`). It is None for a topic that is fed from
    outside, by `headwater seed`, `--append` or a Python call. `windowed` keys also have `window_start` and `window_end`
    (timestamps). `partitions` never changes during the life of the topic. `timestamp`: the value column (a timestamp, a
    date or a bigint of ms) with the time of records from outside.

    `cleanup`: `delete`, `compact` or `compact,delete`; with `compact` only the last record of each key stays, with
    `delete` those within `retention_ms` (None: all). `on_error`: what its readers do with a record that fails, unless
    the flow says otherwise in which it fails. `readers`: the applications of the project that read a topic whose
    records may go, whether they have ever run or not: the records wait for all of them.
    """

    name: str
    partitions: int
    key: str
    value: str
    windowed: bool = False
    writer: str | None = None
    cleanup: str = "delete"
    retention_ms: int | None = None
    on_error: OnError = "fail"
    timestamp: str | None = None
    readers: tuple[str, ...] = ()


DEAD_LETTER_COLUMNS: Mapping[str, str] = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "string",
    "value": "string",
    "headers": "string",
    "step": "string",
    "error": "string",
}
"""The value columns of all topics of dead letters, see `records/dead_letters.py`. These topics have no key."""

DEAD_LETTER_VALUE = ", ".join(f"{column} {data_type}" for column, data_type in DEAD_LETTER_COLUMNS.items())
"""The same as DDL."""


def dead_letter_topic(name: str, source: Topic, writer: str) -> Topic:
    """The topic for dead letters of `source`. A letter is in the partition that its record has in `source`."""
    return Topic(name, source.partitions, "", DEAD_LETTER_VALUE, writer=writer)


StoreType = Literal["key_value", "window", "session", "window_changes", "changes"]
"""What the rows of a store are found by: their key, their key and a window's start, or their key and a session.

The last two are those of `suppress`: what waits for its window to be closed, or for some time.
"""


@dataclass(frozen=True)
class Agg:
    """One aggregate of a step: the result column `name`, computed by `function` over `column` (None: `count(*)`).

    `type` is the result's Spark SQL type, `of` that of the column. `options` are the function's other arguments, which
    are literals (`first(x, true)`). `written`: the user's aggregate, if it was rewritten as this simpler one.
    """

    name: str
    function: str
    column: str | None = None
    of: str | None = None
    type: str = "bigint"
    options: tuple[Any, ...] = ()
    written: str = ""

    @property
    def text(self) -> str:
        """The aggregate as the user wrote it."""
        options = "".join(f", {option}" for option in self.options)
        return self.written or f"{self.function}({self.column or '*'}{options})"


@dataclass(frozen=True)
class Store:
    """A task's local state: rows by key, or by key and window.

    `key` and `value` are the columns that users see (`query`, joins). The store of an aggregation has the hidden state
    of its `aggregates`. Value columns that are expressions over aggregates are stored beside it. `cleanup`: of its
    changelog, see `Topic`; None: see `changelog_cleanup`.
    """

    name: str
    partitions: int
    key: str
    value: str
    type: StoreType = "key_value"
    window: AnyWindow | JoinWindow | None = None
    retention_ms: int | None = None
    aggregates: tuple[Agg, ...] = ()
    backend: str = "lmdb"
    options: Mapping[str, Any] = field(default_factory=dict)
    changelog: bool = True
    cleanup: str | None = None

    @property
    def changelog_cleanup(self) -> str:
        """`cleanup`, or its default, as in Kafka Streams."""
        return self.cleanup or ("compact,delete" if self.is_windowed else "compact")

    @property
    def kept_ms(self) -> int | None:
        """How long a row is kept: as `retention_ms` says, or else until its window is closed; None for ever."""
        if self.retention_ms is not None or self.window is None:
            return self.retention_ms
        return self.window.kept_ms

    @property
    def held_ms(self) -> int | None:
        """How long a row stays in the store, whether a step finds it or not; None for ever."""
        kept = self.kept_ms
        return kept if kept is None or self.window is None else kept + self.window.unseen_ms

    @property
    def is_windowed(self) -> bool:
        """Whether its rows have windows, and expire by stream time."""
        return self.type in ("window", "session")

    @property
    def keeps_given_windows(self) -> bool:
        """Whether processors say which windows or sessions its rows have: there is no window of a step."""
        return self.is_windowed and self.window is None and self.retention_ms is not None

    @property
    def is_buffer(self) -> bool:
        """Whether its rows are changes that wait (`Suppress`)."""
        return self.type in ("window_changes", "changes")


@dataclass(frozen=True)
class GlobalTable:
    """A table of which every client has all rows, loaded from all partitions of its topic."""

    name: str
    topic: Topic
    store: Store


@dataclass(frozen=True)
class StepText:
    """A step of a flow or table, for people: `flow`, its `text`, and its place as `file:line`."""

    flow: str
    text: str
    at: str = ""

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class StoreFiller:
    """What writes the rows of a store: of the steps of a flow or table that keep rows, the one of this `number`."""

    store: str
    flow: str
    number: int = 1

    as_list: ClassVar[bool] = True


CODE_OF = "code of "
"""How a setting of a flow begins that tells which code a Python function has: the function's name follows."""


@dataclass(frozen=True)
class Subtopology:
    """A connected part of a topology. It has one task for each partition of its sources, `partitions` in all.

    `build` has an engine do the steps, which starts from the given rows (`engine/steps.py`).
    `places`: store -> the first step that uses it, as `file:line` of the YAML. `repartition_topics`: those of the sinks
    that are only there to be read by another subtopology of the same application. `steps`: what it does, for people.
    `on_error`: of flows that have one, by the places of their steps. `dead_letters`: source -> the topic that keeps its
    failed records, which is one of the sinks. `starts`: source -> where it begins, see `starts.py`; others at the first
    record. `fillers`: of each store what writes its rows. `settings`: flow, setting and value of what its operators are
    told beside that, for people. `processors`: the names of those that a project's Python is. `answers`: those of the
    sources that bring back answers, for which nobody waits. `never_left_out`: the sources of which no record is left
    out, as others depend on each. `regrouping`: the numbers of those `steps` that say of the rows of a table to which
    groups they are added, and from which they are taken when they change. `of_tables`: the stores of such groups.
    `held_back`: the places of steps that get rows which a step before gives up later ->
    the place of that step. `waited`: those of steps that get rows of a left or outer join of streams, some of which
    have waited there -> the place of the join.
    """

    number: int
    name: str
    partitions: int
    build: Callable[[Any, Engine], Any]
    sources: tuple[Topic, ...]
    sinks: tuple[Topic, ...]
    stores: tuple[Store, ...] = ()
    global_tables: tuple[GlobalTable, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    repartition_topics: tuple[str, ...] = ()
    steps: tuple[StepText, ...] = ()
    on_error: Mapping[str, OnError] = field(default_factory=dict)
    dead_letters: Mapping[str, Topic] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    fillers: tuple[StoreFiller, ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()
    processors: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    never_left_out: tuple[str, ...] = ()
    regrouping: tuple[int, ...] = ()
    of_tables: tuple[str, ...] = ()
    held_back: Mapping[str, str] = field(default_factory=dict)
    waited: Mapping[str, str] = field(default_factory=dict)

    @property
    def read(self) -> tuple[Topic, ...]:
        """The topics that it reads, as its sources and for its global tables."""
        return (*self.sources, *(table.topic for table in self.global_tables))

    @property
    def leaves_out(self) -> bool:
        """Whether there is a source or a step at which a record that fails is left out."""
        policies = {*self.on_error.values(), *(topic.on_error for topic in self.sources)}
        return bool(policies - {"fail"})

    def policy(self, topic: str, step: str) -> OnError:
        """What becomes of a record of a source that fails at a step (`file:line`; empty: unknown).

        What the step's flow says counts before what the topic says. A row that was held back is not its record's:
        without this one it would fail with the next.
        """
        if step in self.held_back:
            return "fail"
        if step in self.on_error:
            return self.on_error[step]
        return next((each.on_error for each in self.sources if each.name == topic), "fail")


@dataclass(frozen=True)
class PluginRef:
    """A plugin by name, with options that its own schema has checked."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Assignment:
    """The `assignment:` section: the assignor that places tasks, and its settings (KIP-924, KIP-441, KIP-708)."""

    assignor: PluginRef = PluginRef("high_availability")
    standby_replicas: int = 0
    max_warmup_replicas: int = 2
    acceptable_recovery_lag: int = 10_000
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_strategy: str = "none"
    rack_aware_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None


@dataclass(frozen=True)
class Topology:
    """One application: a topology of a project, ready to run.

    `was`: names of its flows, tables, stores and steps -> what each was called before, the latest name first.
    """

    project: str
    name: str
    version: str
    content_hash: str
    subtopologies: tuple[Subtopology, ...]
    assignment: Assignment = Assignment()
    restore: PluginRef = PluginRef("changelog")
    was: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def application(self) -> str:
        """The application's id, which names its commits, directories and lock."""
        return f"{self.project}-{self.name}"

    @property
    def read(self) -> tuple[Topic, ...]:
        """The topics that its subtopologies read. One may be there several times."""
        return tuple(topic for part in self.subtopologies for topic in part.read)

    @property
    def written(self) -> tuple[Topic, ...]:
        """The topics that its subtopologies write. One may be there several times."""
        return tuple(topic for part in self.subtopologies for topic in part.sinks)

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """Those of all subtopologies."""
        return tuple(table for part in self.subtopologies for table in part.global_tables)


MAX_BYTES = 256 << 20
"""Bytes of the records that a task takes in one epoch, where nobody says otherwise: a thousand times 200 KB, or the
default of `max_records` at 1.3 KB each. An epoch takes up to five times as much memory."""

DEADLINE_MS = 30_000
"""How long an executor may be silent: three of Spark's heartbeats by default, and two thirds of what Kafka allows."""


@dataclass(frozen=True)
class Settings:
    """Where and how an application runs: the chosen target of `profiles.yml`. Paths are absolute when it starts.

    `plugins`: modules below `project_dir` with the project's own plugins. `without_plugins`: names to leave out.
    `max_records`, `max_bytes`: the most that a task takes in an epoch.
    `state_cleanup_delay_ms`: for how long a client keeps a store that none of its tasks has.
    `racks`: host -> rack, or `rack_script`, which prints the rack of a host. `client_tags`: host -> tag -> value. In
    local mode the names of virtual clients take the place of hosts. `lineage`: where OpenLineage events go: `url` (with
    `api_key`) or `file`, and `namespace`. `deadline_ms`: an executor that has been silent for so long is given up.
    `clean`: whether the log is cleaned while the application runs, `clean_interval_ms`: how long after a round the next
    one begins. `file_delete_delay_ms`: how long a file stays that others have taken the place of, for those who still
    read it. `delete_retention_ms`: how long deletions stay in changelogs. `former_names`: application of the project
    -> those that it had before, the latest first. `beside`: application -> the place of the result that is computed for
    it beside the one that it has. `go_on`: changes that may count from the next record on do; no result is computed
    again for them. `traced`: whether observers of the run are told what each epoch did when. `engine`: what computes
    expressions: the task where that is proven to give what Spark SQL gives, or Spark SQL alone.
    """

    log: PluginRef
    state_dir: str
    clients: int = 1
    epoch_interval_ms: int = 500
    max_records: int = 200_000
    max_bytes: int = MAX_BYTES
    deadline_ms: int = DEADLINE_MS
    state_cleanup_delay_ms: int = 600_000
    clean: bool = True
    clean_interval_ms: int = 30_000
    file_delete_delay_ms: int = 600_000
    delete_retention_ms: int = 86_400_000
    spark: Mapping[str, Any] = field(default_factory=lambda: {"master": "local[2]"})
    plugins: tuple[str, ...] = ()
    project_dir: str = ""
    without_plugins: tuple[str, ...] = ()
    racks: Mapping[str, str] = field(default_factory=dict)
    rack_script: str = ""
    client_tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lineage: Mapping[str, str] = field(default_factory=dict)
    former_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False
    traced: bool = False
    engine: ExpressionEngine = "task"


# Where a new reader of a topic begins, as `start` of a flow says it.

Begin = Literal["earliest", "latest"] | int
"""At the first record, after the last, or at a time in ms since 1970."""


def parse_start(text: str) -> Begin:
    """`earliest`, `latest`, or an ISO 8601 time, in UTC if it has no zone. Raises ValueError for any other text."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    moment = datetime.fromisoformat(text)
    if moment.year < 1970:
        raise ValueError(f"'{text}' lies before 1970")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
