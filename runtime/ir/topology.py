"""The declarations of a topology in generated code: topics, stores, subtopologies, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ...hidden_values import shown_addresses
from .windows import AnyWindow, JoinWindow

if TYPE_CHECKING:
    from ..engine.steps import Engine


# Topics, stores and subtopologies: frozen data without Spark and I/O.
#
# `job.py` creates them from the YAML. The whole runtime reads them. Column lists are Spark SQL DDL
# (`"carrier string, delay double"`), which is easy to review in generated code.

ExpressionEngine = Literal["spark", "task"]
"""The engine for expressions. `spark`: Spark SQL. `task`: the task itself on Arrow, for expressions that the type
checker accepts, and Spark SQL for the others."""

OnError = Literal["fail", "skip", "dead_letter"]
"""The policy for a record that a step cannot process. `fail`: its task stops. `skip`: the record is skipped.
`dead_letter`: it is skipped and kept in a dead-letter topic."""


Recomputed = Literal["refuse", "append", "changes"]
"""What becomes of records in Kafka if their result is to be rebuilt: it stays; all new ones, or differences, follow."""


@dataclass(frozen=True)
class KafkaTopic:
    """A topic in Kafka. `cluster`: the name of one of the target's clusters. `id`: of its present incarnation; empty
    until a run has asked for it. `headers`: whether headers of its records are read or written.
    """

    name: str
    cluster: str = "main"
    id: str = ""
    headers: bool = True


@dataclass(frozen=True)
class Produced:
    """A topic in Kafka to which the records of a topic are written. `recomputed`: if their result is rebuilt.

    `is_table`: whether the last record of a key replaces earlier ones. `key`, `value`: the formats.
    """

    kafka: KafkaTopic
    recomputed: Recomputed
    is_table: bool
    key: PluginRef
    value: PluginRef


@dataclass(frozen=True)
class Topic:
    """A partitioned sequence of records, addressed by partition and offset.

    - `writer`: the application that writes it (`<project>-<topology>`). None for an external topic, which
      `headwater seed`, `--append` or a Python call writes.
    - `windowed`: whether keys also have `window_start` and `window_end` (timestamps).
    - `partitions`: never changes during the life of the topic.
    - `timestamp`: the value column with the time of external records: a timestamp, a date, or a bigint of ms.
    - `cleanup`: `delete`, `compact` or `compact,delete`. `compact` keeps only the last record of each key. `delete`
      keeps the records within `retention_ms` (None: all).
    - `on_error`: the policy of its readers for a failed record. A flow may have its own policy.
    - `readers`: the applications of the project that read a topic with deletion. Its records wait for all of them, even
      if they have never run.
    - `kafka`: the topic in Kafka whose records these are, undecoded; see `raw_topic`. None: a topic of the log.
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
    kafka: KafkaTopic | None = None


def raw_topic(name: str, cluster: str = "main", *, on_error: OnError = "fail", headers: bool = True) -> Topic:
    """The records of a topic in Kafka as they are there: key and value as bytes. `headers`: see `KafkaTopic`.

    The number of its partitions is 0 until a run has asked Kafka for it. No topic of a project has a name with colons.
    """
    kafka = KafkaTopic(name, cluster, headers=headers)
    return Topic(f"{_RAW}:{cluster}:{name}", 0, "key binary", "value binary", on_error=on_error, kafka=kafka)


_RAW = "kafka"


def raw_name(name: str) -> KafkaTopic | None:
    """The topic in Kafka that a raw topic of this name is; None for the name of a topic of the log."""
    kind, _, rest = name.partition(":")
    cluster, _, topic = rest.partition(":")
    return KafkaTopic(topic, cluster) if kind == _RAW and topic else None


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
"""The value columns of all dead-letter topics, see `records/dead_letters.py`. These topics have no key."""

DEAD_LETTER_VALUE = ", ".join(f"{column} {data_type}" for column, data_type in DEAD_LETTER_COLUMNS.items())
"""The value columns of dead-letter topics as DDL."""


def dead_letter_topic(name: str, source: Topic, writer: str | None) -> Topic:
    """The topic for dead letters of `source`. A letter has the partition of its record in `source`.

    That of a topic in Kafka is `source` in the log; a letter has the partition of its record there, modulo ours.
    """
    return Topic(name, source.partitions, "", DEAD_LETTER_VALUE, writer=writer)


StoreType = Literal["key_value", "window", "session", "window_changes", "changes"]
"""The type of a store: rows by key, by key and start of a window, or by key and session.

The last two are for `suppress`: changes that wait until their window closes, or for some time.
"""


@dataclass(frozen=True)
class Agg:
    """One aggregate of a step: the result column `name`, computed by `function` over `column` (None: `count(*)`).

    `type`: the Spark SQL type of the result. `of`: that of the column. `options`: the function's other arguments, which
    are literals (`first(x, true)`). `written`: the user's aggregate, if the compiler replaced it with this simpler one.
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

    `key`, `value`: the columns that users see (`query`, joins). The store of an aggregation has the hidden state of its
    `aggregates`, and also the value columns that are expressions over aggregates. `cleanup`: of its changelog, see
    `Topic`. None: the default in `changelog_cleanup`.
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
        """`cleanup`, or else the default of Kafka Streams."""
        return self.cleanup or ("compact,delete" if self.is_windowed else "compact")

    @property
    def kept_ms(self) -> int | None:
        """How long a row can be found: `retention_ms`, or else until its window closes. None: for ever."""
        if self.retention_ms is not None or self.window is None:
            return self.retention_ms
        return self.window.kept_ms

    @property
    def held_ms(self) -> int | None:
        """How long a row stays in the store, even if steps no longer find it. None: for ever."""
        kept = self.kept_ms
        return kept if kept is None or self.window is None else kept + self.window.unseen_ms

    @property
    def is_windowed(self) -> bool:
        """Whether its rows have windows or sessions, and expire by stream time."""
        return self.type in ("window", "session")

    @property
    def keeps_given_windows(self) -> bool:
        """Whether processors choose the windows or sessions of its rows, so that it has no window of a step."""
        return self.is_windowed and self.window is None and self.retention_ms is not None

    @property
    def is_buffer(self) -> bool:
        """Whether its rows are waiting changes (`Suppress`)."""
        return self.type in ("window_changes", "changes")


@dataclass(frozen=True)
class GlobalTable:
    """A global table: every client has all its rows, from all partitions of its topic."""

    name: str
    topic: Topic
    store: Store


@dataclass(frozen=True)
class StepText:
    """A step of a flow or table, as text for users. `flow`: of the flow or table. `at`: its location as `file:line`."""

    flow: str
    text: str
    at: str = ""

    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class StoreFiller:
    """The operator that writes the rows of a store: `number` among the storing operators of a flow or table, from 1."""

    store: str
    flow: str
    number: int = 1

    as_list: ClassVar[bool] = True


CODE_OF = "code of "
"""The prefix of settings with the digest of a Python function's code. The function's name follows."""


@dataclass(frozen=True)
class Subtopology:
    """A connected part of a topology. It has one task for each partition of its sources, `partitions` in all.

    Locations are `file:line` of the YAML.

    - `build`: runs the steps with an engine on the given rows (`engine/steps.py`).
    - `places`: store -> location of the first step that uses it.
    - `repartition_topics`: names of the sinks that only other subtopologies of the same application read.
    - `steps`: the texts of the steps, for users.
    - `on_error`: location of a step -> the error policy of its flow, if the flow has one.
    - `dead_letters`: source -> its dead-letter topic, which is also in `sinks`.
    - `starts`: source -> where a new reader begins, see `starts.py`. Other sources begin at the first record.
    - `fillers`: the operator that writes the rows of each store.
    - `settings`: (flow, setting, value) of other settings of operators, for users.
    - `processors`: names of the processors, which are Python code of the project.
    - `answers`: names of the sources with responses of foreign-key joins. No task waits for their records.
    - `never_skipped`: names of the sources with records that are never skipped, because other records depend on them.
    - `regrouping`: indexes of the `steps` that decide the groups of a regrouped table's rows: the group to which a
      changed row is added, and the group from which its old row is removed.
    - `of_tables`: names of the stores of these groups.
    - `held_back`: location of a step -> location of an earlier step that releases its rows later.
    - `waited`: location of a step -> location of an earlier left or outer stream-stream join. Some rows waited there.
    - `produced`: source -> the topic in Kafka to which it is written.
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
    never_skipped: tuple[str, ...] = ()
    regrouping: tuple[int, ...] = ()
    of_tables: tuple[str, ...] = ()
    held_back: Mapping[str, str] = field(default_factory=dict)
    waited: Mapping[str, str] = field(default_factory=dict)
    produced: Mapping[str, Produced] = field(default_factory=dict)

    @property
    def read(self) -> tuple[Topic, ...]:
        """The topics that it reads: its sources, and the topics of its global tables."""
        return (*self.sources, *(table.topic for table in self.global_tables))

    @property
    def skips_records(self) -> bool:
        """Whether a source or a step has a policy that skips failed records."""
        policies = {*self.on_error.values(), *(topic.on_error for topic in self.sources)}
        return bool(policies - {"fail"})

    def policy(self, topic: str, step: str) -> OnError:
        """The policy for a record of a source that fails at a step (`file:line`; empty: unknown).

        The policy of the step's flow has priority over that of the topic. A row that was held back does not belong to
        the record that released it: without this record it would fail with the next one. So the policy is `fail`.
        """
        if step in self.held_back:
            return "fail"
        if step in self.on_error:
            return self.on_error[step]
        return next((each.on_error for each in self.sources if each.name == topic), "fail")


@dataclass(frozen=True)
class PluginRef:
    """A plugin by name, with options that its own schema has validated."""

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

    `was`: name of a flow, table, store or step -> its former names, the latest first.
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
        """The application's id. Its commits, directories and lock have this name."""
        return f"{self.project}-{self.name}"

    @property
    def read(self) -> tuple[Topic, ...]:
        """The topics that its subtopologies read. May contain duplicates."""
        return tuple(topic for part in self.subtopologies for topic in part.read)

    @property
    def written(self) -> tuple[Topic, ...]:
        """The topics that its subtopologies write. May contain duplicates."""
        return tuple(topic for part in self.subtopologies for topic in part.sinks)

    @property
    def is_mirror(self) -> bool:
        """Whether it writes topics of the log to Kafka. Then it has no result of its own in the log."""
        return any(part.produced for part in self.subtopologies)

    @property
    def targets(self) -> dict[str, str]:
        """Source -> the raw name and the id of the topic in Kafka to which it is written, where the id is known."""
        found = ((topic, to.kafka) for part in self.subtopologies for topic, to in part.produced.items())
        return {topic: f"{_RAW}:{kafka.cluster}:{kafka.name}:{kafka.id}" for topic, kafka in found if kafka.id}

    @property
    def global_tables(self) -> tuple[GlobalTable, ...]:
        """The global tables of all subtopologies."""
        return tuple(table for part in self.subtopologies for table in part.global_tables)


@dataclass(frozen=True)
class SchemaRegistry:
    """The schema registry of a Kafka cluster. `url`: addresses, separated by commas. `ca`: certificates as PEM."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""


@dataclass(frozen=True)
class KafkaCluster:
    """A Kafka cluster of a target.

    `bootstrap_servers`: messages show them, also those from the environment. `client`: settings of librdkafka by name.
    They may hold secrets, so they are not part of the `repr`. `prefix`: of the names of consumer groups and
    transactional ids.
    """

    bootstrap_servers: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    prefix: str = ""
    registry: SchemaRegistry | None = None

    def __post_init__(self) -> None:
        shown_addresses(self.bootstrap_servers)


MAX_BYTES = 256 << 20
"""The default limit for the bytes of records that a task takes in one epoch: a thousand records of 200 KB, or the
default of `max_records` at 1.3 KB each. An epoch takes up to five times as much memory."""

DEADLINE_MS = 30_000
"""The default time that an executor may be silent: three of Spark's default heartbeats, and two thirds of Kafka's
limit."""


@dataclass(frozen=True)
class Settings:
    """Where and how an application runs: the chosen target of `profiles.yml`. Paths are absolute when it starts.

    - `max_records`, `max_bytes`: the limits for the records that a task takes in an epoch.
    - `deadline_ms`: an executor that is silent for longer counts as lost.
    - `state_cleanup_delay_ms`: how long a client keeps a store that none of its tasks uses.
    - `clean`: whether the log is cleaned while the application runs. `clean_interval_ms`: the pause between rounds.
    - `file_delete_delay_ms`: how long a replaced file stays for its current readers.
    - `delete_retention_ms`: how long deletions stay in changelogs.
    - `plugins`: modules below `project_dir` with the project's own plugins. `without_plugins`: plugins to ignore.
    - `racks`: host -> rack. `rack_script`: prints the rack of a host instead. `client_tags`: host -> tag -> value. In
      local mode, names of virtual clients replace hosts.
    - `kafka`: name -> cluster of Kafka. Empty: all topics are in the log only.
    - `lineage`: the target of OpenLineage events: `url` (with `api_key`) or `file`, and `namespace`.
    - `former_names`: application of the project -> its former names, the latest first.
    - `beside`: application -> the place in the log of the result that is being rebuilt for it.
    - `go_on`: whether compatible changes apply from the next record on, without a rebuild of results.
    - `traced`: whether observers of the run get the times of each epoch's parts.
    - `engine`: the engine for expressions, see `ExpressionEngine`.
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
    kafka: Mapping[str, KafkaCluster] = field(default_factory=dict)
    lineage: Mapping[str, str] = field(default_factory=dict)
    former_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)
    go_on: bool = False
    traced: bool = False
    engine: ExpressionEngine = "task"


# Where a new reader of a topic begins: the setting `start` of a flow.

_GROUP = "group "


def start_at_group(group: str) -> str:
    """The `start` of a topic in Kafka at the offsets of a consumer group."""
    return _GROUP + group


def group_of_start(start: str) -> str | None:
    """The inverse of `start_at_group`; None for any other `start`."""
    return start.removeprefix(_GROUP) if start.startswith(_GROUP) else None


Begin = Literal["earliest", "latest"] | int
"""At the first record, after the last record, or at a time in ms since 1970."""


def parse_start(text: str) -> Begin:
    """Parses `earliest`, `latest` or an ISO 8601 time, in UTC if it has no zone. Raises ValueError for other texts."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    moment = datetime.fromisoformat(text)
    if moment.year < 1970:
        raise ValueError(f"'{text}' lies before 1970")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
