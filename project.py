"""A project as Python: `Project("flights").build()`. Everything the command line does, returned and not printed."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .arguments import ArgumentError, check_methods, check_name, check_names, check_number
from .compiler.checks.catalog import InstalledPlugins
from .compiler.diagnostics import did_you_mean
from .compiler.outcomes import Compiled, InvalidProjectError, OwnedStore, Parsed, UnknownNameError, find_store
from .compiler.pipeline import CheckedProject, compile_project
from .compiler.resources import Resource, Resources, resources_of
from .compiler.select import NoTopologyError, select
from .compiler.settings import absolute, plugins_of, settings_of, spark_of
from .errors import HeadwaterError
from .plugins.manager import PluginManager
from .plugins.registry import Registry
from .private_files import write_text
from .runtime.topology import Settings, Topic

if TYPE_CHECKING:
    import os

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from .compiler.topology.graph import TopologyGraph
    from .runtime.driver.events import Observer
    from .runtime.driver.results import RunResults
    from .runtime.ingest.append import AppendResult
    from .runtime.ingest.seeds import SeedResult
    from .runtime.log.log import Log
    from .runtime.query.frames import Rows
    from .runtime.query.rows import Row
    from .runtime.query.topics import TopicReader
    from .runtime.records.record_json import Record
    from .runtime.simulation.report import Simulation
    from .runtime.simulation.scenario import Scenario
    from .runtime.spark.session.on_demand import SparkOnDemand
    from .runtime.state.directory import StateDirectory

TARGET = "target"
RUN_RESULTS = "run_results.json"

_FOLLOW_SECONDS = 0.2
"""Between two looks at a log that `read` follows."""


class Project:
    """A project folder, as its files are when they are first needed.

    `select`: what commands are about, in the words of `--select`. `session`: a Spark session to use, which stays open;
    without one, a session is started when it is needed, and `close` (or the end of a `with` block) stops it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        profile: str | None = None,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the word of headwater.yml
        select: Sequence[str] = (),
        without_plugins: Sequence[str] = (),
        session: SparkSession | None = None,
    ) -> None:
        check_names("select", select)
        check_names("without_plugins", without_plugins)
        self.root = Path(path).resolve()
        self._profile = profile
        self._target = target
        self._vars = dict(vars or {})
        self._select = tuple(select)
        self._without_plugins = tuple(without_plugins)
        self._session = session

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] = ".",
        *,
        profile: str | None = None,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the word of headwater.yml
        select: Sequence[str] = (),
        without_plugins: Sequence[str] = (),
        session: SparkSession | None = None,
    ) -> Self:
        """The project in a folder; the same as calling the class."""
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
        """Check the files: no Spark, no Java, no Python of the project."""
        return Parsed(**self._found(self._parsed))

    def compile(self, *, check: bool = True) -> Compiled:
        """Check everything and write `target/`: code of the selected topologies, the manifest of all.

        Spark is started only for expressions that it has not judged before. Raises InvalidProjectError if there are
        errors, unless `check` is False: then they are in the result, and nothing is written.
        """
        if not self._plain.diagnostics.has_errors:
            _ = self._selected  # a selector that nothing answers to is told before Spark is started
        checked = self._checked
        found = self._found(checked)
        if checked.diagnostics.has_errors:
            if check:
                raise InvalidProjectError(Parsed(**self._found(checked)))
            return Compiled(**found)
        from .compiler.emit.manifest import manifest
        from .compiler.emit.target import emit

        content = manifest(checked.loaded, self._resources, checked.topologies)
        emitted = emit(self.root / TARGET, self._selected_graphs(), settings_of(checked.loaded), content)
        return Compiled(**found, graphs=checked.topologies, emitted=emitted, manifest=content)

    def resources(self) -> tuple[Resource, ...]:
        """Topics, topologies and what is in them, as far as selected; also of a project with errors.

        Raises InvalidProjectError where headwater.yml is missing or cannot be read.
        """
        if not self._parsed.loaded.project.entries:
            raise InvalidProjectError(self.parse())
        selected = self._selected
        return tuple(
            each
            for each in self._resources.by_id.values()
            if (f"topology.{each.topology}" if each.topology else each.id) in selected
        )

    def describe(self, style: str = "text") -> str:
        """The selected topologies as `text` (as Kafka Streams does) or `mermaid`. Raises InvalidProjectError."""
        from .compiler.topology.describe import describe, mermaid

        show = mermaid if style == "mermaid" else describe
        return "\n".join(show(graph) for graph in self._selected_graphs())

    def settings(self) -> Settings:
        """The chosen target, with absolute paths. Raises InvalidProjectError."""
        checked = self._parsed
        if checked.diagnostics.has_errors:
            raise InvalidProjectError(Parsed(**self._found(checked)))
        return self._target_settings()

    def log(self) -> Log:
        """The log of the chosen target, made if there is none yet.

        Raises InvalidProjectError, LogError, OtherLogError if stores on this machine were made of another log.
        """
        return self._log(self.settings())

    def assignors(self) -> Registry:
        """Task assignors by name, the project's own among them. Raises InvalidProjectError, PluginError."""
        self.settings()
        return self._plugins().assignors

    def seed(self, topics: Sequence[str] = (), *, full_refresh: bool = False) -> tuple[SeedResult, ...]:
        """Fill topics from their seeds: those named, or the selected and what selected topologies read.

        With `full_refresh` a topic whose seed has changed is emptied first, and what has read it starts anew. Raises
        UnknownNameError, InvalidProjectError, SeedError, SeedChangedError (not with `full_refresh`), LockError.
        """
        from .runtime.progress.full_refresh import held, readers, start_anew

        check_names("topics", topics)
        settings = self.settings()
        log, state_dir = self._log(settings), _state_here(settings)
        names = topics or self._seeds()
        with held(state_dir, readers(log, names) if full_refresh else ()):
            seeded = tuple(self._seed(log, name, full_refresh) for name in names)
        replaced = [each.topic for each in seeded if each.outcome == "replaced"]
        start_anew(log, state_dir, readers(log, replaced))
        return seeded

    def append(self, topic: str, records: Any) -> AppendResult:
        """Append records to a topic that no topology writes: a table, or an iterable of rows or of records.

        Raises UnknownNameError, SeedError for rows that the topic cannot hold, TopicChangedError, WriterChangedError.
        """
        from .runtime.ingest.append import append
        from .runtime.log.declarations import check_writers

        settings = self.settings()
        check_name("topic", topic)
        declared = self._parsed.topics.get(topic)
        if declared is None:
            raise self._no_topic(topic)
        if declared.writer is not None:
            raise HeadwaterError(
                f"{topic} is written by {declared.writer}", "append to a topic that is fed from outside"
            )
        log = self._log(settings)
        check_writers(log, self._parsed.loaded.name, [declared])
        return append(log, self._seed_application, declared, records)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        observer: Observer | None = None,
        stop: threading.Event | None = None,
        check: bool = True,
    ) -> RunResults:
        """Run the generated code of the selected topologies, until it has caught up or `stop` is set.

        On the main thread and without `stop`, Ctrl-C and SIGTERM finish the epoch and commit it. What was done is
        also in `target/run_results.json`. Spark is not started where the log refuses all of them. Raises
        InvalidProjectError, JavaError, OtherLogError, and RunFailedError if an application failed or was taken over,
        unless `check` is False: then that is in the result.
        """
        from .runtime.driver.application import refused, run_topologies
        from .runtime.generated_code import load_runner
        from .runtime.spark.cluster import SparkCluster

        check_methods("observer", observer, "on")
        check_methods("stop", stop, "is_set", "wait")
        self._log_to_read(self._target_settings())  # before `compile`, which may have to start Spark
        runners = [load_runner(emitted.runner) for emitted in self.compile().emitted]
        topologies = [runner.topology for runner in runners]
        settings = self.settings()
        results = refused(topologies, settings, _state_here(settings), observer)
        if results is None:
            session = self._spark.session()
            with _stopping(stop) as event:
                results = run_topologies(
                    topologies,
                    settings,
                    SparkCluster(session),
                    until_caught_up=until_caught_up,
                    observer=observer,
                    stop=event,
                )
        self._write_results(results)
        if check:
            results.check()
        return results

    def build(self, *, full_refresh: bool = False, observer: Observer | None = None, check: bool = True) -> RunResults:
        """Compile, seed, and run until all input is consumed. Raises and `check` as `seed` and `run` do."""
        check_methods("observer", observer, "on")
        self.compile()
        if full_refresh:
            self.start_anew()
        self.seed(full_refresh=full_refresh)
        return self.run(until_caught_up=True, observer=observer, check=check)

    def start_anew(self) -> None:
        """Forget what the selected topologies have committed, their output and their state.

        Topologies that are no longer in the project are forgotten with them: all, or where some are selected, those
        that have written what these write or read, or have read from them. Raises LockError while one of them is
        running, ReaderError when one that is not selected has read their output.
        """
        from .runtime.log.declarations import applications_of, gone_with
        from .runtime.progress.full_refresh import start_anew

        settings = self.settings()
        log = self._log(settings)
        applications = {graph.application for graph in self._selected_graphs()}
        gone = set(applications_of(log, self._parsed.loaded.name)) - set(self._applications())
        if self._select:
            gone = gone_with(log, gone, applications, self._topics_around(applications))
        start_anew(log, _state_here(settings), sorted(applications | gone))

    def simulate(self, scenario: Scenario | None = None) -> tuple[Simulation, ...]:
        """Try the selected topologies' assignors on a model of clients that come and go; nothing is run.

        Raises InvalidProjectError, EventError, UnknownPluginError, and what an assignor raises.
        """
        from .runtime.chosen_plugins import ChosenPlugins, origin_of
        from .runtime.generated_code import load_runner
        from .runtime.simulation.scenario import Scenario, simulate

        topologies = [load_runner(emitted.runner).topology for emitted in self.compile().emitted]
        settings, assignors = self.settings(), self.assignors()
        log = ChosenPlugins(origin_of(settings)).log(settings.log)
        return tuple(simulate(topology, scenario or Scenario(), assignors, log) for topology in topologies)

    def read(
        self, topic: str, *, start: int | None = None, limit: int | None = None, follow: bool = False
    ) -> Rows[Record]:
        """Committed records of a topic from offset `start` on, at most `limit`. `follow`: and those yet to come.

        To go through, or as an Arrow, pandas or Spark frame. Records are shown as they were declared when they were
        written, see `declared_otherwise`. Errors of the project elsewhere than in headwater.yml and profiles.yml do not
        matter. Raises UnknownNameError, InvalidProjectError.
        """
        from .runtime.query.frames import Rows
        from .runtime.query.topic_table import table_schema
        from .runtime.query.topics import TopicReader

        check_name("topic", topic)
        check_number("start", start, 0)
        check_number("limit", limit, 0)
        log = self._log_to_read(self._target_settings())
        declared = self._topic_of(log, topic)

        def reader() -> TopicReader:
            return TopicReader(log, declared.writer or self._seed_application, declared, start)

        return Rows(
            f"topic {topic}",
            table_schema(declared),
            lambda: _records(reader(), limit, follow),
            lambda: _table(declared, reader(), limit, follow),
            self._spark.session,
        )

    def query(
        self, store: str, *, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> Rows[Row]:
        """Rows of a store (`store` or `topology.store`) as of the last commit, also while its topology runs.

        `key`: some or all key columns. `start`, `end`: of a window store, bounds of window starts in ms, the second
        excluded. To go through, or as an Arrow, pandas or Spark frame. Errors of the project matter where they are in
        what the store's topology needs. Raises UnknownNameError, InvalidProjectError; the result StoreKeyError, when it
        is read.
        """
        from .runtime.chosen_plugins import ChosenPlugins, origin_of
        from .runtime.query.frames import Rows
        from .runtime.query.rows import table_schema
        from .runtime.query.stores import GlobalQuery, StoreQuery

        check_name("store", store)
        check_number("start", start)
        check_number("end", end)
        if key is not None and not isinstance(key, Mapping):
            raise ArgumentError("key", key, "a mapping of key columns to values")
        try:
            owned = find_store(self._checked.topologies, store)
        except UnknownNameError as error:
            if error.kind == "store" and store in self._parsed.topics:
                error = UnknownNameError("store", store, f"it is a topic: `headwater read {store}` shows it")
            raise self._unknown(error) from None
        if owned.store.type != "window" and (start is not None or end is not None):
            raise UnknownNameError("window store", store, "only windows have bounds of time")
        settings = self._target_settings()
        log = self._log_to_read(settings)
        rows: Callable[[], Iterator[Row]]
        table: Callable[[], pa.Table]
        if owned.table is not None:
            writer = self._topic_of(log, owned.table.topic.name).writer or self._seed_application
            held = GlobalQuery(owned.table, writer, log)
            rows, table = partial(held.rows, key), partial(held.to_table, key)
        else:
            self._check_started(log, owned)
            query = StoreQuery(
                owned.application,
                owned.subtopology,
                owned.store,
                log,
                _state_here(settings),
                ChosenPlugins(origin_of(settings)).backend(owned.store).open_to_read,
            )
            rows, table = partial(query.rows, key, start, end), partial(query.to_table, key, start, end)
        return Rows(f"store {store}", table_schema(owned.store), rows, table, self._spark.session)

    def cleanable(self, *, state: bool = False) -> tuple[Path, ...]:
        """What `clean` would remove, of what is there. Raises InvalidProjectError, SelectorError."""
        generated = [self.root / TARGET]
        if self._select:
            generated = [self.root / TARGET / topology for topology in self._selected_topologies()]
        found = [path for path in generated if path.exists()]
        return (*found, *(directory.path for directory in (self._state_directories() if state else ())))

    def clean(self, *, state: bool = False) -> tuple[Path, ...]:
        """Remove `target/`, and with `state` the stores of all clients, which a run restores; what was removed.

        Where topologies are selected: the code and the stores of these. Of the state directory, only what Headwater
        has made for this project is removed, for topologies that are no longer in it, too. Stores on executors'
        machines stay: they cannot be reached without a run. Raises LockError while an application runs on that state,
        InvalidProjectError, SelectorError.
        """
        from .runtime.progress.full_refresh import forget_state

        doomed = self.cleanable(state=state)
        directories = self._state_directories() if state else []
        forget_state(directories)
        for path in set(doomed) - {directory.path for directory in directories}:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        return doomed

    def _target_settings(self) -> Settings:
        """Also of a project with errors elsewhere, for those who only read. Raises InvalidProjectError."""
        parsed = Parsed(**self._found(self._parsed))
        if not parsed.target_ok:
            raise InvalidProjectError(parsed)
        settings = absolute(settings_of(self._parsed.loaded), self.root)
        return replace(settings, without_plugins=self._without_plugins)

    def _unknown(self, error: UnknownNameError) -> HeadwaterError:
        """The error; where the project has errors, those: what is missing may be in what cannot be understood."""
        parsed = Parsed(**self._found(self._parsed))
        return error if parsed.ok else InvalidProjectError(parsed)

    @cached_property
    def _spark(self) -> SparkOnDemand:
        from .runtime.spark.session.on_demand import SparkOnDemand

        return SparkOnDemand(lambda: spark_of(self._parsed.loaded), self._session)

    @cached_property
    def _plain(self) -> CheckedProject:
        return compile_project(
            self.root,
            vars=self._vars,
            profile=self._profile,
            target=self._target,
            without_plugins=self._without_plugins,
        )

    @cached_property
    def _checked(self) -> CheckedProject:
        """With types."""
        return compile_project(
            self.root,
            analyzer=self._spark,
            plugins=InstalledPlugins(self._plugins),
            vars=self._vars,
            profile=self._profile,
            target=self._target,
            without_plugins=self._without_plugins,
        )

    @property
    def _parsed(self) -> CheckedProject:
        """Whichever is there: for all that does not need types."""
        checked: CheckedProject = self.__dict__.get("_checked") or self._plain
        return checked

    @cached_property
    def _resources(self) -> Resources:
        return resources_of(self._parsed.loaded)

    @cached_property
    def _selected(self) -> frozenset[str]:
        return select(self._resources, self._select)

    def _selected_topologies(self) -> tuple[str, ...]:
        """By name, of a project whose names are known to be names. Raises InvalidProjectError, SelectorError."""
        self.settings()
        found = tuple(each.name for each in self._resources.of("topology") if each.id in self._selected)
        if not found:
            raise NoTopologyError(" ".join(self._select))
        return found

    def _state_directories(self) -> list[StateDirectory]:
        """Those of the selected topologies; without a selection, of all that this project has or had."""
        from .runtime.state.directory import StateDirectory

        state_dir, project = _state_here(self.settings()), self._parsed.loaded.name
        topologies = self._selected_topologies() if self._select else ("*",)
        return [
            directory
            for here in ([] if state_dir is None else [state_dir])
            for topology in topologies
            for directory in StateDirectory.found(here, f"{project}-{topology}")
        ]

    def _topics_around(self, applications: Collection[str]) -> set[str]:
        """The topics that these applications read or write."""
        topologies = {f"topology.{application.partition('-')[2]}" for application in applications}
        read = {parent for id_ in topologies for parent in self._resources.by_id[id_].parents}
        topics = self._resources.of("topic")
        return {each.name for each in topics if each.id in read or topologies & set(each.parents)}

    @property
    def _seed_application(self) -> str:
        return f"{self._parsed.loaded.name}-seed"

    def _found(self, checked: CheckedProject) -> dict[str, Any]:
        loaded = checked.loaded
        return {
            "root": self.root,
            "diagnostics": tuple(checked.diagnostics),
            "sources": loaded.sources,
            "profile_name": loaded.profile_name,
            "target_name": loaded.target_name,
            "resources": tuple(self._resources.by_id.values()),
        }

    def _selected_graphs(self) -> tuple[TopologyGraph, ...]:
        """The selected topologies. Raises InvalidProjectError, SelectorError where only topics are selected."""
        checked = self._checked
        if checked.diagnostics.has_errors:
            raise InvalidProjectError(Parsed(**self._found(checked)))
        found = tuple(graph for graph in checked.topologies if f"topology.{graph.name}" in self._selected)
        if self._select and not found:
            raise NoTopologyError(" ".join(self._select))
        return found

    def _plugins(self, without: Collection[str] = ()) -> PluginManager:
        """Built-in and installed plugins, and those of the project, whose modules are imported here."""
        modules = plugins_of(self._plain.loaded)
        return PluginManager(self.root, modules, (*self._without_plugins, *without))

    def _seeds(self) -> list[str]:
        """Topics that have a seed, of the selected ones and of those that selected topologies read."""
        wanted = {parent for id_ in self._selected for parent in self._resources.by_id[id_].parents} | self._selected
        return [each.name for each in self._resources.of("topic") if each.seeded and each.id in wanted]

    def _log(self, settings: Settings) -> Log:
        """The log of a target, once it can be written. Raises OtherLogError, see `_log_to_read`."""
        log = self._log_to_read(settings)
        log.check()
        return log

    def _log_to_read(self, settings: Settings) -> Log:
        """The log of a target, whoever may write to it. Raises OtherLogError if stores on this machine were made of
        another one.
        """
        from .runtime.chosen_plugins import ChosenPlugins, origin_of
        from .runtime.state.known_log import check_known_by, place_of

        log, state_dir = ChosenPlugins(origin_of(settings)).log(settings.log), _state_here(settings)
        if state_dir is not None:
            place = place_of(settings.log.name, settings.log.options)
            check_known_by(state_dir, self._applications(), log.identity(), place)
        return log

    def _applications(self) -> list[str]:
        """Of all topologies of the project, also of one with errors."""
        return [f"{self._parsed.loaded.name}-{each.name}" for each in self._resources.of("topology")]

    def _topic_of(self, log: Log, name: str) -> Topic:
        """A topic as it was committed last, else as it is declared. Raises WriterChangedError, UnknownNameError."""
        from .runtime.log.declarations import check_writers, declared_topic

        project, declared = self._parsed.loaded.name, self._parsed.topics.get(name)
        if self._parsed.diagnostics.has_errors:  # who writes the topic may be in what cannot be understood
            found = declared_topic(log, project, name) or declared
        else:
            if declared is not None:
                check_writers(log, project, [declared])
            found = declared_topic(log, project, name, declared) or declared
        if found is None:
            is_store = name.rpartition(".")[2] in {each.name for each in self._resources.of("store")}
            raise self._unknown(
                UnknownNameError("topic", name, f"it is a store: `headwater query {name}` shows it")
                if is_store
                else self._no_topic(name)
            )
        return found

    def _no_topic(self, name: str) -> UnknownNameError:
        hint = did_you_mean(name, self._parsed.topics) or "`headwater ls --type topic` lists those that there are"
        return UnknownNameError("topic", name, hint)

    def declared_otherwise(self, topic: str) -> str | None:
        """How the project declares a topic other than its records were written, which is how `read` shows them.

        None where both are the same. Raises UnknownNameError, InvalidProjectError.
        """
        from .runtime.log.descriptions import FedTopic

        now = self._parsed.topics.get(topic)
        if now is None or self._parsed.diagnostics.has_errors:  # which may be in what it says of the topic
            return None
        then = self._topic_of(self._log_to_read(self._target_settings()), topic)
        was, is_ = FedTopic.of(then).changes(now)
        return ", ".join(f"{field} was {was[field]!r} and is {is_[field]!r}" for field in was) or None

    def _check_started(self, log: Log, owned: OwnedStore) -> None:
        """Refuse to show as empty a store that was filled under the name of another topology so far.

        Raises WriterChangedError.
        """
        from .runtime.log.declarations import check_writers
        from .runtime.log.state import LogState

        if owned.store.name not in LogState.load(log.commits(owned.application)).topology.stores:
            written = [topic for topic in self._parsed.topics.values() if topic.writer == owned.application]
            check_writers(log, self._parsed.loaded.name, written)

    def _seed(self, log: Log, name: str, full_refresh: bool) -> SeedResult:
        from .runtime.ingest.seeds import SeedSpec, seed
        from .runtime.log.declarations import check_writers

        model = self._parsed.model.topics.get(name)
        if name not in self._parsed.topics:
            raise self._no_topic(name)
        if model is None or model.seed is None:
            writer = self._parsed.topics[name].writer
            written = f"it is written by {writer}; " if writer is not None else ""
            hint = f"{written}topics with a seed: {', '.join(self._seeds()) or 'none'}"
            raise UnknownNameError("seed for the topic", name, hint)
        said = model.seed.to_python()
        spec = SeedSpec(**{key: said[key] for key in ("path", "function", "format", "order") if key in said})
        check_writers(log, self._parsed.loaded.name, [self._parsed.topics[name]])
        return seed(log, self._seed_application, self._parsed.topics[name], spec, self.root, full_refresh)

    def _write_results(self, results: RunResults) -> None:
        path = self.root / TARGET / RUN_RESULTS
        write_text(path, json.dumps(results.to_json(), indent=2) + "\n")


def _state_here(settings: Settings) -> Path | None:
    """The folder of the stores, where clients are on this machine; None where executors have them on theirs."""
    from .runtime.spark.clients import local_state

    return local_state(settings)


def _records(reader: TopicReader, limit: int | None, follow: bool) -> Iterator[Record]:
    """Records as they are committed, `limit` of them at most."""
    left = limit
    while True:
        for record in reader.read(left):
            left = None if left is None else left - 1
            yield record
        if not follow or left == 0:
            return
        time.sleep(_FOLLOW_SECONDS)


def _table(topic: Topic, reader: TopicReader, limit: int | None, follow: bool) -> pa.Table:
    """The records that are committed, `limit` of them at most; with `follow` that many. Raises HeadwaterError."""
    import pyarrow as pa

    from .runtime.query.topic_table import read_table

    if follow and limit is None:
        raise HeadwaterError("a read that follows has no end", "give a limit, or go through its records")
    table = read_table(topic, reader, limit)
    while follow and limit is not None and table.num_rows < limit:
        time.sleep(_FOLLOW_SECONDS)
        table = pa.concat_tables([table, read_table(topic, reader, limit - table.num_rows)])
    return table


@contextmanager
def _stopping(stop: threading.Event | None) -> Iterator[threading.Event]:
    """The given event; else one that Ctrl-C and SIGTERM set, where signals can be handled."""
    from .runtime.driver.stopping import stopping

    if stop is not None:
        yield stop
    elif threading.current_thread() is threading.main_thread():
        with stopping() as event:
            yield event
    else:
        yield threading.Event()
