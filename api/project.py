"""The Python API of a project: `Project("flights").build()`. The same as the command line, without printing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..compiler.outcomes import Compiled, Parsed
from ..compiler.resources import Resource
from .arguments import check_engine, check_methods, check_name, check_names
from .files import CheckedFiles, Options, Selection

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from ..compiler.topology.engines import StepEngine
    from ..plugins.registry import Registry
    from ..runtime.changes.plan import Orphan, Plan
    from ..runtime.changes.planning import Recomputation, StoreReset
    from ..runtime.cluster.spark.on_demand import SparkOnDemand
    from ..runtime.driver.events import Observer
    from ..runtime.driver.results import RunResults
    from ..runtime.ingest.append import AppendResult, SeedReplacement
    from ..runtime.ingest.retry import RetryResult
    from ..runtime.ingest.seeds import SeedResult
    from ..runtime.ir.topology import ExpressionEngine, Settings
    from ..runtime.kafka.report import ClusterReport
    from ..runtime.log.cleaning.cleaner import CleanedApplication
    from ..runtime.log.inspection.contents import ApplicationContents
    from ..runtime.log.inspection.copying import CopiedLog
    from ..runtime.log.inspection.repair import Repair
    from ..runtime.log.inspection.verification import VerifiedApplication
    from ..runtime.log.log import Log
    from ..runtime.observe.tracing import Trace
    from ..runtime.progress.resets import Removal
    from ..runtime.progress.rewinding import Rewind, Whence
    from ..runtime.query.rows import Row, Rows
    from ..runtime.records.record_json import Record
    from ..runtime.simulation.report import Simulation
    from ..runtime.simulation.rounds import Scenario
    from .kafka import KafkaTopics
    from .kafka_import import ImportedTopic, KafkaImport
    from .logs import Cleaning, Logs
    from .plans import Plans
    from .project_tests import CaseResult, CaseResults, Testing
    from .removals import Removals, StoreResets
    from .runs import Runs
    from .stores import Stores
    from .target import GeneratedCode, Target
    from .tasks import ApplicationPause, ApplicationTasks, Pauses, Tasks
    from .topics import Topics


def _part(module: str, name: str) -> Any:
    """An attribute of `Project`: one of its parts, imported when it is first used."""

    def made(project: Project) -> Any:
        part = getattr(import_module(f".{module}", __package__), name)
        return part(project._files, project._selection, project._spark)

    return cached_property(made)


class Project:
    """A project folder. Its files are read on first use.

    `select`: the topics and topologies that methods work on, as for `--select`. `session`: a Spark session to use,
    which stays open. Without it, a session is started when needed, and `close` (or the end of a `with` block) stops it.

    A method imports what it needs when it is called: `parse` loads no Arrow, and only `run` loads Spark.
    """

    _topics: Topics = _part("topics", "Topics")
    _kafka: KafkaTopics = _part("kafka", "KafkaTopics")
    _kafka_import: KafkaImport = _part("kafka_import", "KafkaImport")
    _stores: Stores = _part("stores", "Stores")
    _runs: Runs = _part("runs", "Runs")
    _testing: Testing = _part("project_tests", "Testing")
    _plans: Plans = _part("plans", "Plans")
    _tasks: Tasks = _part("tasks", "Tasks")
    _pauses: Pauses = _part("tasks", "Pauses")
    _removals: Removals = _part("removals", "Removals")
    _store_resets: StoreResets = _part("removals", "StoreResets")
    _logs: Logs = _part("logs", "Logs")
    _cleaning: Cleaning = _part("logs", "Cleaning")

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        profile: str | None = None,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the name in headwater.yml
        select: Sequence[str] = (),
        without_plugins: Sequence[str] = (),
        session: SparkSession | None = None,
    ) -> None:
        check_names("select", select)
        check_names("without_plugins", without_plugins)
        self.root = Path(path).resolve()
        options = Options(profile, target, dict(vars or {}), tuple(select), tuple(without_plugins))
        self._files = CheckedFiles(self.root, options, lambda: self._spark)
        self._selection = Selection(self._files)
        self._session = session
        self.spark_starts: Callable[[str], None] | None = None
        """Called with a line of text before Spark starts for an expression that needs it."""

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] = ".",
        *,
        profile: str | None = None,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the name in headwater.yml
        select: Sequence[str] = (),
        without_plugins: Sequence[str] = (),
        session: SparkSession | None = None,
    ) -> Self:
        """The project in a folder: the same as calling the class."""
        return cls(
            path,
            profile=profile,
            target=target,
            vars=vars,
            select=select,
            without_plugins=without_plugins,
            session=session,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.root)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, if this project started one."""
        if "_spark" in vars(self):
            self._spark.close()

    def parse(self) -> Parsed:
        """Check the files, without Spark, Java, and the project's Python code."""
        return self._files.parsed()

    def compile(self, *, check: bool = True) -> Compiled:
        """Check everything and write `target/`: the code of the selected topologies, and the manifest of all.

        Spark is started only for new expressions whose types only it knows. Raises InvalidProjectError if there are
        errors. With `check=False` they are in the result, and nothing is written.
        """
        return self._code.compile(check=check)

    def resources(self) -> tuple[Resource, ...]:
        """The selected topics and topologies, and the resources in them, also of a project with errors.

        Raises InvalidProjectError if headwater.yml is missing or cannot be read.
        """
        return self._selection.resources()

    def describe(self, style: str = "text") -> str:
        """The selected topologies as `text` (as in Kafka Streams) or `mermaid`. Raises InvalidProjectError.

        Several topologies are separated by comments with their names.
        """
        from ..compiler.topology.description import describe, mermaid

        show, comment = (mermaid, "%%") if style == "mermaid" else (describe, "#")
        graphs = self._selection.graphs()
        if len(graphs) == 1:
            return show(graphs[0])
        return "\n".join(f"{comment} {graph.name}, {graph.file}\n{show(graph)}" for graph in graphs)

    def step_engines(self) -> tuple[StepEngine, ...]:
        """Each step with expressions: whether tasks can compute it, or what keeps it on Spark SQL (`run` has `engine`).

        Of the selected topologies. Raises InvalidProjectError.
        """
        from ..compiler.topology.engines import step_engines

        return tuple(step for graph in self._selection.graphs() for step in step_engines(graph))

    def settings(self) -> Settings:
        """The chosen target, with absolute paths. Raises InvalidProjectError."""
        return self._target.settings()

    def log(self) -> Log:
        """The log of the chosen target. It is created if it does not exist.

        Raises InvalidProjectError, LogError, OtherLogError if stores on this machine belong to another log.
        """
        return self._target.log()

    def inspect_kafka(self, *, records: int = 10) -> tuple[ClusterReport, ...]:
        """Each cluster of the target: whether it can be reached, the selected topics there, rights, settings, and their
        last records, decoded, at most `records` of each.

        Needs the network, no Spark. What is wrong is in the reports. Raises NoKafkaError, KafkaClientMissingError,
        InvalidProjectError.
        """
        return self._kafka.inspect(records)

    def import_kafka_topic(
        self,
        topic: str,
        *,
        cluster: str | None = None,
        key: str | None = None,
        value: str | None = None,
        records: int = 100,
    ) -> ImportedTopic:
        """The YAML of a topic that is in Kafka, from its last records.

        `key`, `value`: formats, instead of guesses. `cluster`: needed if the target has several. Raises NoKafkaError,
        KafkaClientMissingError, KafkaClusterError, UnknownNameError, InvalidProjectError for errors in profiles.yml.
        """
        return self._kafka_import.import_topic(topic, cluster=cluster, key=key, value=value, records=records)

    def write_kafka_topic(self, imported: ImportedTopic, *, overwrite: bool = False) -> str:
        """Write the YAML of an imported topic into the project, and give the file's path there.

        Raises FileExistsAlreadyError if there is one, unless `overwrite`.
        """
        return self._kafka_import.write(imported, overwrite=overwrite)

    def assignors(self) -> Registry:
        """Task assignors by name, including the project's own. Raises InvalidProjectError, PluginError."""
        self._files.require_valid()
        return self._files.plugins().assignors

    def seed(
        self,
        topics: Sequence[str] = (),
        *,
        full_refresh: bool = False,
        keep_unchanged: bool = False,
        drop_appended: bool = False,
    ) -> tuple[SeedResult, ...]:
        """Fill topics from their seeds: the named topics, or the selected ones and those that selected topologies read.

        `full_refresh`: topics start again with their seed, and so do topologies that have read them; with
        `keep_unchanged`, only topics whose seed has changed. Appended records stay, behind the seed, unless
        `drop_appended`. Raises UnknownNameError, InvalidProjectError, SeedError, SeedChangedError (not with
        `full_refresh`), AppendedOtherwiseError, AppendedUnknownError, LockError.
        """
        return self._topics.seed(
            topics, full_refresh=full_refresh, keep_unchanged=keep_unchanged, drop_appended=drop_appended
        )

    def plan_seed(
        self, topics: Sequence[str] = (), *, keep_unchanged: bool = False, drop_appended: bool = False
    ) -> tuple[tuple[SeedReplacement, ...], tuple[Removal, ...]]:
        """What `seed` with `full_refresh` would do: the topics that start again, and what is removed of their readers.

        Nothing is changed. Raises LogError, and what `seed` raises.
        """
        return self._topics.plan_seed(topics, keep_unchanged, drop_appended)

    def append(self, topic: str, records: Any, *, as_json: bool = False) -> AppendResult:
        """Append records to an external topic: a table, or an iterable of rows or of records.

        Values are read as strictly as those of a seed's file: a string is no number, and NaN no null. Objects may also
        have Python's times, bytes, NaN and infinity; with `as_json` only JSON's values. `Decimal` keeps all digits of a
        fraction.

        Raises UnknownNameError, SeedError for rows that the topic cannot hold (unless its `on_error` skips them),
        TopicChangedError, WriterChangedError.
        """
        return self._topics.append(topic, records, as_json)

    def retry(self, topic: str, records: Sequence[Mapping[str, Any]] | None = None) -> RetryResult:
        """Redrive: put the records of a dead-letter topic back into the topic from which they came, once each.

        `records`: only these letters, as returned by `read` (`asdict`), with corrected keys, values or times. Raises
        UnknownNameError, NoLettersError, LetterError, SeedError for records that the topic cannot hold, LockError while
        the copy runs here of which the letters are.
        """
        check_name("topic", topic)
        copied = self._kafka.copy_of_letters(topic)
        return self._topics.retry(topic, records) if copied is None else self._kafka.retry(topic, copied, records)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        observer: Observer | None = None,
        stop: threading.Event | None = None,
        check: bool = True,
        plan: Plan | str | os.PathLike[str] | None = None,
        go_on: bool = False,
        trace: Trace | str | os.PathLike[str] | None = None,
        engine: ExpressionEngine | None = None,
    ) -> RunResults:
        """Run the generated code of the selected topologies, until they have caught up or `stop` is set.

        On the main thread and without `stop`, Ctrl-C and SIGTERM end the run after the epoch was committed. The result
        is also written to `target/run_results.json`. Spark is not started if the log rejects all topologies. `plan`: a
        plan, or its file; nothing is run if the project or the log have changed since. `go_on` (a plan has its own):
        changes count from the next record on where possible, and no result is rebuilt for them. `trace`: a file for
        trace viewers with what each epoch did when, or a `Trace`, which also adds that up. `engine`: what computes
        expressions, over the profile. Raises PlanFileError, PlanOutdatedError, InvalidProjectError, JavaError,
        OtherLogError, TraceFileError, and RunFailedError if an application failed or was taken over; with `check=False`
        that is only in the result.
        """
        chosen = self._plans.require(plan, go_on)
        return self._runs.run(
            until_caught_up=until_caught_up,
            observer=observer,
            stop=stop,
            check=check,
            go_on=chosen,
            trace=trace,
            engine=engine,
        )

    def build(
        self,
        *,
        full_refresh: bool = False,
        test: bool = True,
        observer: Observer | None = None,
        check: bool = True,
        go_on: bool = False,
        trace: Trace | str | os.PathLike[str] | None = None,
        engine: ExpressionEngine | None = None,
    ) -> RunResults:
        """Compile, run the project's tests (unless `test` is False), seed, and run until all input is consumed.

        Raises TestsFailedError if a test fails: then nothing was seeded or run. Otherwise, arguments and errors are
        those of `seed` and `run`.
        """
        check_methods("observer", observer, "on")
        check_engine(engine)
        self.compile()
        if test:
            self.test().check()
        if full_refresh:
            self.full_refresh(seeds=True)
        self.seed(full_refresh=full_refresh, keep_unchanged=True)
        return self.run(until_caught_up=True, observer=observer, check=check, go_on=go_on, trace=trace, engine=engine)

    def test(
        self,
        names: Sequence[str] = (),
        *,
        engine: ExpressionEngine = "task",
        update: bool = False,
        progress: Callable[[CaseResult], None] = lambda _: None,
    ) -> CaseResults:
        """Run the project's tests, the YAML files of `tests/`, for the selected topologies, in this process.

        `names`: only these, by name (`*` matches any characters) or file. Spark is started for expressions that need it
        (`spark` of the result lists them); with `engine="spark"` all tests run on it. `update`: results replace rows
        that differ in the files. `progress` is called with each result. Failures are in the result. Raises
        InvalidProjectError, also for mistakes in test files, UnknownNameError, NotLocalError.
        """
        return self._testing.test(names, engine, update, progress)

    def full_refresh(self, *, seeds: bool = False) -> None:
        """Remove everything that the selected topologies have committed, with their output and their state.

        Topologies that are no longer in the project are removed with them; with a selection, only those that have
        written topics which the selected ones write or read, or have read from them. `seeds`: changed seeds are written
        again next, as `build` does. Raises RefreshRefusedError if a run could not start after it, LockError while one
        of them runs, ReaderError if an unselected topology has read their output, and what `seed` raises. Then nothing
        was removed.
        """
        self._runs.full_refresh(self._to_refresh(seeds))

    def plan_full_refresh(self, *, seeds: bool = False) -> tuple[Removal, ...]:
        """What `full_refresh` would remove. Nothing is changed.

        Raises RefreshRefusedError, InvalidProjectError, LogError.
        """
        return self._runs.plan_full_refresh(self._to_refresh(seeds))

    def plan(self, *, against: str | os.PathLike[str] | None = None, go_on: bool = False) -> Plan:
        """What the next `run`, `seed` or `build` would do with committed data, for the selected topologies.

        It reads commits and files only: no Spark, no lock, nothing is written, and it works while the project runs.
        `against`: the manifest of a deployed project, compared instead of the log. `go_on`: plan a run with it. Raises
        InvalidProjectError, SelectorError, LogError, ManifestError.
        """
        return self._plans.plan(None if against is None else Path(against), go_on=go_on)

    def check_plan(self, plan: Plan | str | os.PathLike[str], *, go_on: bool = False) -> None:
        """Check that a plan, or the plan in a file, still holds, as far as that is known without Spark.

        `run` checks all of it. Raises PlanFileError, PlanOutdatedError, InvalidProjectError, LogError.
        """
        self._plans.check(plan, go_on)

    def outlook(self, *, local: bool = False, go_on: bool = False) -> Plan | None:
        """The plan, if anything has changed since the last commits; None also if it cannot be made: `run` reports why.

        `local`: None also for a log that is not in a folder, so that nobody waits for it.
        """
        if local and not self._files.has_log_folder():  # before modules that read logs are imported
            return None
        return self._plans.outlook(go_on=go_on)

    def orphans(self) -> tuple[Orphan, ...]:
        """Applications in the log without a topology in the project: theirs was removed or renamed.

        Raises InvalidProjectError, LogError.
        """
        return self._plans.orphans()

    def simulate(self, scenario: Scenario | None = None) -> tuple[Simulation, ...]:
        """Try the selected topologies' assignors on a model of clients that come and go. Nothing is run.

        Raises InvalidProjectError, EventError, UnknownPluginError, and what an assignor raises.
        """
        from ..runtime.simulation.rounds import Scenario, simulate

        topologies, assignors = self._code.topologies(), self.assignors()
        log = self._target.plugins().log(self.settings().log)
        return tuple(simulate(topology, scenario or Scenario(), assignors, log) for topology in topologies)

    def read(
        self, topic: str, *, start: int | None = None, limit: int | None = None, follow: bool = False
    ) -> Rows[Record]:
        """Committed records of a topic from offset `start` on, at most `limit`. `follow`: also future ones.

        Iterate over them, or convert them to an Arrow, pandas or Spark frame. Records have the columns declared when
        they were written, see `declared_otherwise`. Only errors in headwater.yml and profiles.yml matter. Raises
        UnknownNameError, InvalidProjectError.
        """
        return self._topics.read(topic, start=start, limit=limit, follow=follow)

    def declared_otherwise(self, topic: str) -> str | None:
        """How a topic's declaration differs from the one that its records were written with, which `read` uses.

        None if both are the same. Raises UnknownNameError, InvalidProjectError.
        """
        return self._topics.declared_otherwise(topic)

    def recomputation(self, topic: str) -> Recomputation | None:
        """The new result that includes a topic, while it is being rebuilt; else None. `read` shows the present result.

        Raises UnknownNameError, InvalidProjectError.
        """
        return self._tasks.recomputation(self._topics.application(topic))

    def store_recomputation(self, store: str) -> Recomputation | None:
        """The new result that includes a store (`store` or `topology.store`), while it is being rebuilt; else None.

        `query` shows the present result. Raises UnknownNameError, InvalidProjectError.
        """
        return self._tasks.recomputation(self._stores.application(store))

    def query(
        self, store: str, *, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> Rows[Row]:
        """The rows of a store (`store` or `topology.store`) after the last commit, also while its topology runs.

        Rows have the columns declared when they were written, see `store_declared_otherwise`. `key`: some or all key
        columns. `start`, `end`: for window stores, the range of window starts in ms, without `end`. Iterate over the
        rows, or convert them to an Arrow, pandas or Spark frame. Only errors in files that the store's topology needs
        matter. Raises UnknownNameError, InvalidProjectError. Reading the result raises StoreKeyError.
        """
        return self._stores.query(store, key=key, start=start, end=end)

    def store_retention(self, store: str) -> int | None:
        """How long a store keeps a row, in ms of stream time; None: forever.

        Raises UnknownNameError, InvalidProjectError.
        """
        return self._stores.retention(store)

    def store_declared_otherwise(self, store: str) -> str | None:
        """How a store's declaration differs from that of its rows, which `query` uses, before the next run.

        None if both are the same. Raises UnknownNameError, InvalidProjectError.
        """
        return self._stores.declared_otherwise(store)

    def tasks(self) -> tuple[ApplicationTasks, ...]:
        """What the clients and tasks of the selected topologies do, as their drivers have last reported.

        Without Spark and locks, from any machine with access to the log. Only errors in headwater.yml and profiles.yml
        matter. Raises InvalidProjectError, SelectorError, NewerStatusError.
        """
        return self._tasks.now()

    def pause(self) -> tuple[ApplicationPause, ...]:
        """Pause the selected topologies until `resume`. It does not wait for records in progress.

        Their drivers notice within a second, commit open epochs, start no new ones, and keep their claims. The pause is
        in the log: it also holds for a run that starts later. Only errors in headwater.yml and profiles.yml matter.
        Raises InvalidProjectError, SelectorError, LogError.
        """
        return self._pauses.pause()

    def resume(self) -> tuple[ApplicationPause, ...]:
        """Resume the selected topologies. Raises what `pause` raises."""
        return self._pauses.resume()

    def log_contents(self, topics: Sequence[str] = ()) -> tuple[ApplicationContents, ...]:
        """What each application has committed to the log: its commits, and its topics with records, offsets and sizes.

        `topics`: only these. All applications in the log are included, also those that the project does not have any
        more. Without Spark and locks. An application with unreadable commits has an `error`. Only errors in
        headwater.yml and profiles.yml matter. Raises InvalidProjectError, NotInLogError.
        """
        return self._logs.contents(topics)

    def log_place(self) -> str:
        """The log's folder or URI, for messages. Raises InvalidProjectError."""
        return self._target.log_place()

    def verify_log(self, progress: Callable[[int, int], None] = lambda _, __: None) -> tuple[VerifiedApplication, ...]:
        """Read everything that commits list, and compare it with its checksums.

        Each application has a list of `damages`.

        `progress` is called with the number of segments read, and their total. Nothing is changed, no lock is needed,
        and topologies may run. Raises InvalidProjectError, FullyRefreshedError.
        """
        return self._logs.verify(progress)

    def plan_repair(self, progress: Callable[[int, int], None] = lambda _, __: None) -> tuple[Repair, ...]:
        """What `repair_log` would drop so that everything else can be read again. Nothing is changed.

        `progress`: as for `verify_log`. Raises InvalidProjectError, LogError if commits cannot be read, and
        NotLostError if the system rejects access to a file that may not be lost.
        """
        return self._logs.plan_repair(progress)

    def repair_log(self, planned: Sequence[Repair]) -> None:
        """Drop what `plan_repair` has found: missing or damaged records, for good. Offsets do not change.

        Raises StillRunningError, LockError while one of the applications runs, SegmentsChangedError if records were
        replaced since the plan was made.
        """
        self._logs.repair(planned)

    def clean_log(self, applications: Sequence[str] = ()) -> tuple[CleanedApplication, ...]:
        """Merge, compact and expire the log of the project's topologies and of its external topics.

        Runs do the same in the background; this call continues until nothing is left to do. `applications`: only these.
        Files that nothing lists any more are removed, just replaced ones by a later call or run. Spark is started only
        for new expressions. Raises InvalidProjectError, UnknownApplicationError, StillRunningError, LockError while one
        of them runs, LogError, MachineError.
        """
        return self._logs.clean(applications)

    def plan_reset(self, topologies: Sequence[str]) -> tuple[Removal, ...]:
        """What `remove` would remove so that topologies start again from the first records of their topics.

        `topologies`: as for `select`, at least one. External topics are not included. Nothing is changed. Raises
        InvalidProjectError, SelectorError, StillReadError if another topology has read their output,
        RefreshRefusedError if a run could not start after it (not checked if the files have errors), StillRunningError,
        LogError.
        """
        removals = self._removals.plan_reset(topologies)
        self._plans.check_reset([removal.application for removal in removals])
        return removals

    def plan_store_reset(self, topology: str, stores: Sequence[str], *, withdraw: bool = False) -> StoreReset:
        """What rebuilding stores of a topology with the next run means: the records to read, and the disk space.

        `withdraw`: plan to take an earlier request back. Nothing is changed. Raises InvalidProjectError, SelectorError,
        NoStoreToResetError, StoreNotResetError if the next run would refuse to, StillRunningError while a result of the
        topology is being rebuilt, LogError.
        """
        return self._store_resets.plan(topology, stores, withdraw=withdraw)

    def reset_store(self, planned: StoreReset) -> None:
        """Request what `plan_store_reset` has planned, in one commit: the next run does it. A run may be under way.

        Raises StillRunningError, CommittedMeanwhileError if the application was reset since the plan was made,
        LogError. Then nothing was changed.
        """
        self._store_resets.reset(planned)

    def plan_rewind(
        self, topology: str, topic: str, whence: Whence, partitions: Collection[int] = (), *, keep_state: bool = False
    ) -> Rewind:
        """What changes if a topology resumes elsewhere in a topic, in all partitions or in some.

        Nothing is changed. Raises InvalidProjectError, SelectorError, NotReadError, OutOfRangeError, RewoundStateError
        if records that are read again would count twice in stores (not with `keep_state`), StillRunningError, LogError.
        """
        return self._removals.plan_rewind(topology, topic, whence, partitions, keep_state=keep_state)

    def rewind(self, planned: Rewind) -> None:
        """Do what `plan_rewind` has planned, in one commit.

        Raises StillRunningError, LockError while the application runs, CommittedMeanwhileError if it has committed
        since the plan was made, LogError. Then nothing was changed.
        """
        self._removals.rewind(planned)

    def plan_remove(self, names: Sequence[str]) -> tuple[Removal, ...]:
        """What `remove` would remove of applications and topics that the project does not have any more.

        Nothing is changed. Raises InvalidProjectError, UnknownRemainsError, StillDeclaredError, StillReadError,
        StillRunningError, LogError.
        """
        return self._removals.plan_remove(names)

    def remove(self, planned: Sequence[Removal]) -> None:
        """Remove what `plan_reset` or `plan_remove` has planned, for good.

        Raises StillRunningError, LockError while one of the applications runs, CommittedMeanwhileError if one has
        committed since the plan was made, LogError. Then nothing was removed.
        """
        self._removals.remove(planned)

    def copy_log(
        self, folder: str | os.PathLike[str], progress: Callable[[int, int], None] = lambda _, __: None
    ) -> CopiedLog:
        """Copy the log into a folder as it is at one moment, or update a copy there. Topologies may run.

        `progress` is called with the number of files looked at, and their total. Copied files are compared with their
        checksums. Raises InvalidProjectError, CopyTargetError, UncopiableLogError, LogError if commits cannot be read,
        MachineError.
        """
        return self._logs.copy(Path(folder), progress)

    def cleanable(self, *, state: bool = False) -> tuple[Path, ...]:
        """The existing files and folders that `clean` would remove. Raises InvalidProjectError, SelectorError."""
        return self._cleaning.cleanable(state=state)

    def clean(self, *, state: bool = False) -> tuple[Path, ...]:
        """Remove `target/`, and with `state` the stores of all clients, which a run restores.

        Returns the removed paths.

        With a selection, only code and stores of the selected topologies. In the state directory, only what Headwater
        has made for this project is removed, also for topologies that are no longer in it. Stores on executors'
        machines stay: they cannot be reached without a run. Raises LockError while an application uses that state,
        InvalidProjectError, SelectorError.
        """
        return self._cleaning.clean(state=state)

    def _to_refresh(self, seeds: bool) -> list[str]:
        """The applications that a full refresh removes, if a run could start after it."""
        applications = self._runs.refreshed()
        self._plans.check_refresh(applications, self._topics.starting_again(applications) if seeds else ())
        return applications

    @cached_property
    def _spark(self) -> SparkOnDemand:
        from ..runtime.cluster.spark.on_demand import SparkOnDemand

        def starting(line: str) -> None:
            if self.spark_starts is not None:
                self.spark_starts(line)

        return SparkOnDemand(lambda: self._files.spark, self._session, starting)

    @cached_property
    def _code(self) -> GeneratedCode:
        from .target import GeneratedCode

        return GeneratedCode(self._files, self._selection)

    @cached_property
    def _target(self) -> Target:
        from .target import Target

        return Target(self._files)
