"""Topologies driven by tests: compiled once for each set of variables, run in this process or on a local Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..compiler.diagnostics import did_you_mean
from ..compiler.emit.job import render_job
from ..compiler.emit.target import code_of
from ..compiler.language.type_checker import more
from ..compiler.outcomes import UnknownNameError
from ..compiler.target_settings import plugins_of
from ..compiler.testing.cases import alone
from ..compiler.testing.checked import TestedTopology, columns_of_topic
from ..compiler.topology.engines import StepEngine, step_engines
from ..compiler.topology.graph import TopologyGraph
from ..errors import HeadwaterError
from ..private_files import make_folder
from ..runtime.cluster.local import LocalCluster
from ..runtime.environment import parse_duration
from ..runtime.generated_code import topology_beside
from ..runtime.ingest.incoming import from_python
from ..runtime.records.arrays import BadValueError
from ..runtime.testing.driven import Advance, DrivenTopology, incoming_of, yielded_records
from ..runtime.testing.rows import UnfitRowError, record_form
from .arguments import ArgumentError, check_name
from .files import CheckedFiles, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..runtime.cluster.spark.on_demand import SparkOnDemand
    from ..runtime.driver.cluster import Cluster
    from ..runtime.ir.topology import ExpressionEngine, Topic, Topology
    from ..runtime.query.rows import Row
    from ..runtime.records.record_json import Record


class NotLocalError(HeadwaterError):
    """Tests with Spark run on a local one, but the target names a cluster: `master`."""

    def __init__(self, master: str) -> None:
        super().__init__(
            f"tests run on a local Spark, and the target's master is {master}",
            "choose a target with `master: local[2]` for tests: --target NAME",
        )
        self.master = master


class UnfitRecordsError(HeadwaterError):
    """Rows given to a driver that a topic cannot hold: `topic`, `row` (from 0), `cause`."""

    def __init__(self, topic: str, row: int, cause: str, hint: str | None = None) -> None:
        super().__init__(f"row {row + 1} for {topic}: {cause}", hint)
        self.topic = topic
        self.row = row
        self.cause = cause


class DrivenProject:
    """A project with its variables, compiled for tests. Compiled topologies are kept."""

    def __init__(self, files: CheckedFiles, spark: SparkOnDemand) -> None:
        self.files = files
        self._spark = spark
        self._topologies: dict[str, Topology] = {}
        self._kept: dict[str, tuple[StepEngine, ...]] = {}

    @cached_property
    def graphs(self) -> dict[str, TopologyGraph]:
        """The graphs of the project's topologies by name, each on its own, without those that copy from and to Kafka.

        Raises InvalidProjectError.
        """
        checked = self.files.typed
        self.files.require_valid()
        return {graph.name: alone(graph) for graph in checked.topologies if graph.name in checked.whole}

    def kept_on_spark(self, name: str) -> tuple[StepEngine, ...]:
        """The steps of a topology that only Spark can do."""
        if name not in self._kept:
            self._kept[name] = tuple(step for step in step_engines(self.graphs[name]) if step.kept)
        return self._kept[name]

    def driven(self, name: str, engine: ExpressionEngine) -> DrivenTopology:
        """A topology with its own log; on Spark with `engine="spark"` or if steps need it. Raises NotLocalError."""
        files = self.files
        origin = (str(files.root), plugins_of(files.untyped.loaded), files.options.without_plugins)
        cluster = self._cluster(name, engine)
        return DrivenTopology(self._topology(name), cluster, files.seeds, origin, files.spark)

    def on_spark(self, name: str, engine: ExpressionEngine) -> bool:
        """Whether a topology runs on Spark."""
        return engine == "spark" or bool(self.kept_on_spark(name))

    def _cluster(self, name: str, engine: ExpressionEngine) -> Cluster:
        if not self.on_spark(name, engine):
            return LocalCluster()
        from ..runtime.cluster.spark.cluster import SparkCluster
        from ..runtime.cluster.spark.job import has_executors

        if engine == "task":
            first, *others = self.kept_on_spark(name)
            instead = "write it otherwise, or use a Python function"
            self._spark.because(f"{first.at}: {first.kind}: {first.kept} (to do without: {instead}){more(len(others))}")
        session = self._spark.session()
        if has_executors(session.sparkContext.master):
            raise NotLocalError(session.sparkContext.master)
        return SparkCluster(session, in_tasks=engine == "task")

    def _topology(self, name: str) -> Topology:
        """The topology as its generated code declares it. The code is not written to `target/`."""
        if name not in self._topologies:
            with tempfile.TemporaryDirectory(prefix="headwater-test-") as folder:
                job = Path(folder) / "job.py"
                job.write_text(render_job(self.graphs[name]), "utf-8")
                for path, text in code_of(self.graphs[name]).files:
                    make_folder(job.parent.joinpath(path).parent)
                    job.parent.joinpath(path).write_text(text, "utf-8")
                self._topologies[name] = topology_beside(job)
        return self._topologies[name]


class TopologyTestDriver:
    """One topology of a project, driven by a test: pipe records in, let time pass, read its output and its stores.

    It runs the real compiler, operators and epoch loop on a log of its own, which `close` (or the end of a `with`
    block) removes: in this process, or on a local Spark with `engine="spark"` or if an expression needs it.

    A call processes all given records before it returns. The time of the test starts at 1970-01-01; it moves to the
    time of each record, and with `advance`. Records without a time get the time of the test.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        topology: str,
        *,
        profile: str | None = None,
        target: str | None = None,
        vars: Mapping[str, Any] | None = None,  # noqa: A002 - the name in headwater.yml
        without_plugins: Iterable[str] = (),
        engine: ExpressionEngine = "task",
        session: SparkSession | None = None,
    ) -> None:
        check_name("topology", topology)
        if engine not in ("task", "spark"):
            raise ArgumentError("engine", engine, "'task' or 'spark'")
        from ..runtime.cluster.spark.on_demand import SparkOnDemand

        options = Options(profile, target, dict(vars or {}), (), tuple(without_plugins))
        files = CheckedFiles(Path(path).resolve(), options, lambda: self._spark)
        self._spark = SparkOnDemand(lambda: files.spark, session)
        project = DrivenProject(files, self._spark)
        if topology not in project.graphs:
            raise UnknownNameError("topology", topology, did_you_mean(topology, project.graphs))
        self._surface = TestedTopology.from_graph(project.graphs[topology])
        self._driven = project.driven(topology, engine)
        self._read: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._surface.name!r})"

    def close(self) -> None:
        """Remove everything that the topology has written, and stop Spark if it was started here."""
        self._driven.close()
        self._spark.close()

    @property
    def time(self) -> int:
        """The time of the test, in ms since 1970."""
        return self._driven.time

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped records so far, by reason: `late`, `null_key`, `null_value`."""
        return dict(self._driven.dropped)

    def pipe_input(self, topic: str, records: Any) -> None:
        """Add records to an input topic of the topology, and process them to the end.

        `records`: as for `Project.append`: a table, or an iterable of rows or of records; rows by name may also have
        `timestamp` (ms or ISO 8601), `partition`, `headers`, and `value: None` for a tombstone. Raises
        UnknownNameError, UnfitRecordsError, SeedError, DrivenRunError if the topology cannot process them.
        """
        check_name("topic", topic)
        inputs = {
            name: input_topic for name, input_topic in self._surface.read.items() if name not in self._surface.written
        }
        if topic not in inputs:
            hint = did_you_mean(topic, inputs) or f"{self._surface.name} reads {', '.join(sorted(inputs))}"
            raise UnknownNameError("input topic", topic, hint)
        self._driven.feed([(inputs[topic], _incoming(inputs[topic], records, self._driven.time))])

    def advance(self, duration: str) -> None:
        """Let time pass: `"2h"`. Stream time advances in every operator, as if a record of that time arrived there:
        windows close, rows that wait for time are released, punctuations run. Later records without a time are that
        much later.

        Raises ArgumentError, and DrivenRunError if the topology cannot process the results.
        """
        self._driven.feed([Advance(_milliseconds(duration))])

    def advance_wall_clock(self, duration: str) -> None:
        """Let wall-clock time pass, as `advanceWallClockTime` of Kafka Streams does: wall-clock punctuations run, and
        later records without a time are that much later.

        Raises ArgumentError, and DrivenRunError if the topology cannot process the results.
        """
        self._driven.feed([Advance(_milliseconds(duration), wall_clock=True)])

    def read_output(self, topic: str) -> list[Record]:
        """The records that the topology has written to a topic since the last call. Raises UnknownNameError."""
        check_name("topic", topic)
        if topic not in self._surface.written:
            outputs = sorted(self._surface.written)
            hint = did_you_mean(topic, outputs) or f"{self._surface.name} writes {', '.join(outputs)}"
            raise UnknownNameError("output topic", topic, hint)
        records = self._driven.records(self._surface.written[topic])
        new = [record for record in records if record.offset >= self._read.get(f"{topic}/{record.partition}", 0)]
        self._read |= {f"{topic}/{record.partition}": record.offset + 1 for record in new}
        return new

    def query(self, store: str, *, key: Mapping[str, Any] | None = None) -> list[Row]:
        """The present rows of a store. `key`: some or all key columns.

        Raises UnknownNameError, StoreKeyError.
        """
        check_name("store", store)
        return rows_of_store(self._driven, self._surface, store, key)


def rows_of_store(
    driven: DrivenTopology, surface: TestedTopology, store: str, key: Mapping[str, Any] | None = None
) -> list[Row]:
    """The rows of a store of a driven topology. Raises UnknownNameError."""
    if store in surface.global_tables:
        return driven.global_rows(surface.global_tables[store], key)
    if store not in surface.stores:
        names = [*surface.stores, *surface.global_tables]
        raise UnknownNameError("store", store, did_you_mean(store, names))
    return driven.rows(*surface.stores[store], key)


def with_vars(files: CheckedFiles, spark: SparkOnDemand, variables: Mapping[str, Any]) -> DrivenProject:
    """The project with more variables; without any, the given files."""
    if not variables:
        return DrivenProject(files, spark)
    options = replace(files.options, vars={**files.options.vars, **variables})
    return DrivenProject(CheckedFiles(files.root, options, lambda: spark), spark)


def _milliseconds(duration: str) -> int:
    """Raises ArgumentError."""
    try:
        return parse_duration(duration)
    except (ValueError, TypeError, AttributeError):
        raise ArgumentError("duration", duration, "a duration such as '2h'") from None


def _incoming(topic: Topic, records: Any, now: int) -> list[Any]:
    """Records of a caller, in the form that the log stores. Raises UnfitRecordsError, SeedError."""
    if hasattr(records, "__arrow_c_stream__") or isinstance(records, Mapping | str):
        return yielded_records(topic, records, now)
    rows = list(records)
    if not all(isinstance(row, Mapping) for row in rows):
        return yielded_records(topic, rows, now)
    columns, formed = columns_of_topic(topic), []
    for number, row in enumerate(rows):
        try:
            formed.append(record_form(columns, row, given=True))
        except UnfitRowError as error:
            raise UnfitRecordsError(topic.name, number, error.cause, error.hint) from None
    try:
        return [incoming_of(topic, formed, now, from_python)]
    except BadValueError as error:
        column = f"{error.column.partition('.')[2]}: " if error.column else ""
        raise UnfitRecordsError(topic.name, error.row, f"{column}{error.cause}") from None
