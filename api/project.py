"""The Python API of a project: `Project("flights").build()`. It does what the command line does, without printing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..compiler.outcomes import Compiled, Parsed
from ..compiler.resources import Resource
from .arguments import check_methods, check_names
from .files import CheckedFiles, Options
from .selection import Selection

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from ..plugins.registry import Registry
    from ..runtime.driver.reports.events import Observer
    from ..runtime.driver.reports.results import RunResults
    from ..runtime.ingest.append import AppendResult
    from ..runtime.ingest.seeds import SeedResult
    from ..runtime.log.log import Log
    from ..runtime.query.frames import Rows
    from ..runtime.query.rows import Row
    from ..runtime.records.record_json import Record
    from ..runtime.simulation.report import Simulation
    from ..runtime.simulation.scenario import Scenario
    from ..runtime.spark.session.on_demand import SparkOnDemand
    from ..runtime.topology import Settings
    from .cleaning import Cleaning
    from .code import GeneratedCode
    from .pauses import ApplicationPause, Pauses
    from .runs import Runs
    from .stores import Stores
    from .target import Target
    from .tasks import ApplicationTasks, Tasks
    from .topics import Topics


class Project:
    """A project folder, as its files are when they are first needed.

    `select`: the topics and topologies that commands work on, as for `--select`. `session`: a Spark session to use,
    which stays open. Without one, a session is started when it is needed, and `close` (or the end of a `with` block)
    stops it.

    A method imports what it needs when it is called: `parse` loads no Arrow, and only `run` loads Spark.
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
        options = Options(profile, target, dict(vars or {}), tuple(select), tuple(without_plugins))
        self._files = CheckedFiles(self.root, options, lambda: self._spark)
        self._selection = Selection(self._files)
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
        return self._files.parsed()

    def compile(self, *, check: bool = True) -> Compiled:
        """Check everything and write `target/`: code of the selected topologies, the manifest of all.

        Spark is started only for expressions that it has not judged before. Raises InvalidProjectError if there are
        errors, unless `check` is False: then they are in the result, and nothing is written.
        """
        return self._code.compile(check=check)

    def resources(self) -> tuple[Resource, ...]:
        """The selected topics and topologies, and what is in them, even of a project with errors.

        Raises InvalidProjectError if headwater.yml is missing or cannot be read.
        """
        return self._selection.resources()

    def describe(self, style: str = "text") -> str:
        """The selected topologies as `text` (as Kafka Streams does) or `mermaid`. Raises InvalidProjectError."""
        from ..compiler.topology.topology_description import describe, mermaid

        show = mermaid if style == "mermaid" else describe
        return "\n".join(show(graph) for graph in self._selection.graphs())

    def settings(self) -> Settings:
        """The chosen target, with absolute paths. Raises InvalidProjectError."""
        return self._target.settings()

    def log(self) -> Log:
        """The log of the chosen target. It is made if there is none yet.

        Raises InvalidProjectError, LogError, OtherLogError if stores on this machine were made of another log.
        """
        return self._target.log()

    def assignors(self) -> Registry:
        """Task assignors by name, the project's own among them. Raises InvalidProjectError, PluginError."""
        self._files.require_valid()
        return self._files.plugins().assignors

    def seed(self, topics: Sequence[str] = (), *, full_refresh: bool = False) -> tuple[SeedResult, ...]:
        """Fill topics from their seeds: the named topics, or the selected ones and those that selected topologies read.

        With `full_refresh` a topic whose seed has changed is emptied first, and topologies that have read it start
        again from the beginning. Raises UnknownNameError, InvalidProjectError, SeedError, SeedChangedError (not with
        `full_refresh`), LockError.
        """
        return self._topics.seed(topics, full_refresh=full_refresh)

    def append(self, topic: str, records: Any) -> AppendResult:
        """Append records to a topic that no topology writes: a table, or an iterable of rows or of records.

        Raises UnknownNameError, SeedError for rows that the topic cannot hold, TopicChangedError, WriterChangedError.
        """
        return self._topics.append(topic, records)

    def run(
        self,
        *,
        until_caught_up: bool = False,
        observer: Observer | None = None,
        stop: threading.Event | None = None,
        check: bool = True,
    ) -> RunResults:
        """Run the generated code of the selected topologies, until it has caught up or `stop` is set.

        On the main thread and without `stop`, Ctrl-C and SIGTERM end the run after the epoch was committed. The result
        is also in `target/run_results.json`. Spark is not started if the log refuses all of them. Raises
        InvalidProjectError, JavaError, OtherLogError, and RunFailedError if an application failed or was taken over,
        unless `check` is False: then that is in the result.
        """
        return self._runs.run(until_caught_up=until_caught_up, observer=observer, stop=stop, check=check)

    def build(self, *, full_refresh: bool = False, observer: Observer | None = None, check: bool = True) -> RunResults:
        """Compile, seed, and run until all input is consumed. Raises and `check` as `seed` and `run` do."""
        check_methods("observer", observer, "on")
        self.compile()
        if full_refresh:
            self.full_refresh()
        self.seed(full_refresh=full_refresh)
        return self.run(until_caught_up=True, observer=observer, check=check)

    def full_refresh(self) -> None:
        """Remove all that the selected topologies have committed, with their output and their state.

        Topologies that are no longer in the project are removed with them. If some are selected, only those that have
        written topics which these write or read, or have read from them. Raises LockError while one of them is
        running, ReaderError if one that is not selected has read their output.
        """
        self._runs.full_refresh()

    def simulate(self, scenario: Scenario | None = None) -> tuple[Simulation, ...]:
        """Try the selected topologies' assignors on a model of clients that come and go. Nothing is run.

        Raises InvalidProjectError, EventError, UnknownPluginError, and what an assignor raises.
        """
        from ..runtime.simulation.scenario import Scenario, simulate

        topologies, assignors = self._code.topologies(), self.assignors()
        log = self._target.plugins().log(self.settings().log)
        return tuple(simulate(topology, scenario or Scenario(), assignors, log) for topology in topologies)

    def read(
        self, topic: str, *, start: int | None = None, limit: int | None = None, follow: bool = False
    ) -> Rows[Record]:
        """Committed records of a topic from offset `start` on, at most `limit`. `follow`: also future ones.

        Iterate over them, or take them as an Arrow, pandas or Spark frame. Records have the columns that were declared
        when they were written, see `declared_otherwise`. Only errors in headwater.yml and profiles.yml matter. Raises
        UnknownNameError, InvalidProjectError.
        """
        return self._topics.read(topic, start=start, limit=limit, follow=follow)

    def declared_otherwise(self, topic: str) -> str | None:
        """How a topic's declaration differs from that of its records when they were written, as `read` shows them.

        None if both are the same. Raises UnknownNameError, InvalidProjectError.
        """
        return self._topics.declared_otherwise(topic)

    def query(
        self, store: str, *, key: Mapping[str, Any] | None = None, start: int | None = None, end: int | None = None
    ) -> Rows[Row]:
        """The rows of a store (`store` or `topology.store`) after the last commit, even while its topology runs.

        `key`: some or all key columns. `start`, `end`: of a window store, bounds of window starts in ms, the second
        excluded. Iterate over the rows, or take them as an Arrow, pandas or Spark frame. Only errors in files that the
        store's topology needs matter. Raises UnknownNameError, InvalidProjectError. Reading the result raises
        StoreKeyError.
        """
        return self._stores.query(store, key=key, start=start, end=end)

    def tasks(self) -> tuple[ApplicationTasks, ...]:
        """What the selected topologies' clients and tasks do just now, as the driver of each has written last.

        Without Spark and locks, from any machine that has the log. Only errors in headwater.yml and profiles.yml
        matter. Raises InvalidProjectError, SelectorError, NewerStatusError.
        """
        return self._tasks.now()

    def pause(self) -> tuple[ApplicationPause, ...]:
        """Have the selected topologies stand still, until `resume`. It does not wait for what they are working on.

        Their drivers notice within a second, commit what is open, begin nothing, and keep their claims. The pause is in
        the log: it also holds for a run that starts later. Only errors in headwater.yml and profiles.yml matter. Raises
        InvalidProjectError, SelectorError, LogError.
        """
        return self._pauses.pause()

    def resume(self) -> tuple[ApplicationPause, ...]:
        """Have the selected topologies go on. Raises as `pause`."""
        return self._pauses.resume()

    def cleanable(self, *, state: bool = False) -> tuple[Path, ...]:
        """The existing files and folders that `clean` would remove. Raises InvalidProjectError, SelectorError."""
        return self._cleaning.cleanable(state=state)

    def clean(self, *, state: bool = False) -> tuple[Path, ...]:
        """Remove `target/`, and with `state` the stores of all clients, which a run restores. Returns what was removed.

        If topologies are selected, only their code and stores. Of the state directory, only what Headwater has made
        for this project is removed, also for topologies that are no longer in it. Stores on executors'
        machines stay: they cannot be reached without a run. Raises LockError while an application runs on that state,
        InvalidProjectError, SelectorError.
        """
        return self._cleaning.clean(state=state)

    @cached_property
    def _spark(self) -> SparkOnDemand:
        from ..runtime.spark.session.on_demand import SparkOnDemand

        return SparkOnDemand(lambda: self._files.spark, self._session)

    @cached_property
    def _code(self) -> GeneratedCode:
        from .code import GeneratedCode

        return GeneratedCode(self._files, self._selection)

    @cached_property
    def _target(self) -> Target:
        from .target import Target

        return Target(self._files)

    @cached_property
    def _topics(self) -> Topics:
        from .topics import Topics

        return Topics(self._files, self._selection, self._target, self._spark)

    @cached_property
    def _stores(self) -> Stores:
        from .stores import Stores

        return Stores(self._files, self._target, self._topics, self._spark)

    @cached_property
    def _runs(self) -> Runs:
        from .runs import Runs

        return Runs(self._files, self._selection, self._code, self._target, self._spark)

    @cached_property
    def _tasks(self) -> Tasks:
        from .tasks import Tasks

        return Tasks(self._files, self._selection, self._target)

    @cached_property
    def _pauses(self) -> Pauses:
        from .pauses import Pauses

        return Pauses(self._files, self._selection, self._target)

    @cached_property
    def _cleaning(self) -> Cleaning:
        from .cleaning import Cleaning

        return Cleaning(self._files, self._selection, self._target)
