"""The stages of the compiler, from a folder to a checked project with its graphs.

parse     load, render, validate, resolve, check; without Spark and without the project's Python
compile   also with Spark's analyzer for types, with plugins and Python functions; then graphs
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ..runtime.builtin_plugins import REQUIRED
from ..runtime.expressions.analyzer import Analyzer
from ..runtime.ir.topology import Topic
from .checks.kafka import check_formats, check_kafka
from .checks.plugins import PluginCatalog, check_functions, check_packages, check_plugins
from .checks.project import Checked, check_disabled, check_former_names, check_modules, check_project
from .checks.target import check_folders, check_spark
from .diagnostics import Diagnostic, Diagnostics
from .language.type_checker import LeftToSpark, TypeChecker, VerdictCache
from .language.udfs import ProjectFunctions, declared_udfs
from .model.build import build_model
from .model.project import ProjectModel
from .model.resolve import resolve
from .operations.base.context import CheckedTopology, read_by
from .ordering import topological_order
from .reading.load import LoadedProject, load_project
from .target_settings import absolute, settings_of
from .topology.file_names import check_case_conflicts, check_lengths, is_case_sensitive
from .topology.graph import TopologyGraph
from .topology.kafka import graph_from_kafka, graph_to_kafka
from .topology.sharing_checks import check_shared_stores
from .topology.subtopologies import build_graph

CACHE = Path("target", ".cache", "expressions.json")
"""The file of the analyzer's verdicts, relative to the project's folder."""


@dataclass(frozen=True)
class CheckedProject:
    """The compiler's result for a project.

    `whole`: topologies by name, writers of a topic before its readers, unless they form a cycle; without topologies
    with errors or (without an analyzer) unknown types. `topics`: all topics of the project by name, declared or only
    written, without repartition topics. `left_to_spark`: expressions whose types only Spark knows. `read`: findings of
    reading the files.
    """

    loaded: LoadedProject
    model: ProjectModel
    topics: Mapping[str, Topic]
    whole: Mapping[str, CheckedTopology]
    diagnostics: Diagnostics
    left_to_spark: tuple[LeftToSpark, ...] = ()
    read: tuple[Diagnostic, ...] = ()

    @cached_property
    def topologies(self) -> tuple[TopologyGraph, ...]:
        """The graphs of `whole`, built on first use; before and behind them those that copy topics from and to Kafka.

        The latter are missing if the project has errors.
        """
        topologies = self.model.topologies
        graphs = (build_graph(self.model, topologies[name], checked) for name, checked in self.whole.items())
        if self.diagnostics.has_errors:
            return tuple(graphs)
        return (*graph_from_kafka(self.model, self.topics), *graphs, *graph_to_kafka(self.model, self.topics))

    def topology(self, name: str) -> TopologyGraph:
        """The graph of a topology. Raises KeyError if there is none."""
        for graph in self.topologies:
            if graph.name == name:
                return graph
        raise KeyError(name)


def compile_project(
    root: Path,
    *,
    analyzer: Analyzer | None = None,
    plugins: PluginCatalog | None = None,
    vars: Mapping[str, Any] | None = None,  # noqa: A002 - the word of headwater.yml
    profile: str | None = None,
    target: str | None = None,
    environment: Mapping[str, str] = os.environ,
    without_plugins: Collection[str] = (),
    keep_verdicts: bool = True,
    only_spark: bool = False,
    earlier: CheckedProject | None = None,
) -> CheckedProject:
    """Check the project in the folder `root`. Without `analyzer` and `plugins` this is `parse`.

    Findings are in the result's diagnostics and are not raised. `keep_verdicts`: the analyzer's verdicts are saved for
    the next call. `only_spark`: the analyzer types all expressions, also those with a type rule. `earlier`: the same
    project, checked with the same variables and target; its files are not read again.
    """
    diagnostics = Diagnostics(earlier.read if earlier is not None else ())
    if earlier is not None:
        loaded = earlier.loaded
    else:
        loaded = load_project(root, diagnostics, vars=vars, profile=profile, target=target, environment=environment)
    read = tuple(diagnostics)
    check_folders(loaded, diagnostics)
    if not check_spark(loaded.target, diagnostics):
        analyzer = None  # no session could be started
    model = build_model(loaded, diagnostics)
    cache = VerdictCache(root / CACHE)
    checker = TypeChecker(analyzer, cache, diagnostics, only_spark=only_spark)
    functions = ProjectFunctions(root, plugins is not None, diagnostics)
    udfs = declared_udfs(loaded.project, functions, diagnostics)
    resolution = resolve(model, diagnostics)
    checked = check_project(model, resolution, checker, functions, diagnostics, udfs)
    check_former_names(model, diagnostics)
    check_kafka(model, loaded, diagnostics)
    check_functions(model, root, diagnostics)
    failures = plugins.failures if plugins is not None else None
    check_disabled(loaded.project.get("plugins"), without_plugins, diagnostics)
    modules_valid = check_modules(loaded.project.get("plugins"), root, without_plugins, failures, diagnostics)
    use_plugins = plugins is not None and modules_valid
    check_packages(model, loaded.target, diagnostics, {} if use_plugins else REQUIRED)
    if plugins is not None and modules_valid:
        check_plugins(model, loaded.target, plugins, diagnostics)
        check_formats(model, checked.topics, plugins, diagnostics)
    if analyzer is not None and keep_verdicts:
        cache.save()
    for name, topology in _whole(loaded, checked, diagnostics).items():
        check_shared_stores(model.topologies[name], topology, f"{model.name}-{name}", diagnostics)
    check_lengths(model, resolution, _whole(loaded, checked, diagnostics), diagnostics)
    if not diagnostics.has_errors and not all(map(is_case_sensitive, _folders(loaded))):
        check_case_conflicts(model, diagnostics)
    whole = _whole(loaded, checked, diagnostics)
    return CheckedProject(loaded, model, checked.topics, whole, diagnostics, checker.left_to_spark, read)


def _folders(loaded: LoadedProject) -> tuple[Path, ...]:
    """The folders in which names become file names: the project, its stores, and a log in a folder."""
    settings = absolute(settings_of(loaded), loaded.root)
    log = settings.log.options.get("path")
    return (loaded.root, Path(settings.state_dir), *((Path(log),) if isinstance(log, str) else ()))


def _whole(loaded: LoadedProject, checked: Checked, diagnostics: Diagnostics) -> dict[str, CheckedTopology]:
    """The topologies with flows or tables, without errors and unknown types, in their order."""
    faulty = _faulty(loaded, diagnostics)
    return {
        name: topology
        for name, topology in _ordered(checked).items()
        if (topology.flows or topology.tables) and _known(topology) and faulty.isdisjoint(_parts(topology))
    }


def _faulty(loaded: LoadedProject, diagnostics: Diagnostics) -> set[str]:
    """Files with errors. An error in the definition of a topic counts for that topic only, not for its file."""
    faulty: set[str] = set()
    for error in diagnostics.errors:
        at = error.position
        topics = (topic.name for topic in loaded.topics if topic.file == at.file)
        before = [name for name in topics if name.position.line <= at.line]
        faulty.add(max(before, key=lambda name: name.position.line).text if before else at.file)
    return faulty


def _parts(topology: CheckedTopology) -> set[str]:
    """The topology's file, and the topics it reads and writes."""
    topics = {source for flow in topology.flows.values() for source in read_by(flow) if source in topology.topics}
    topics |= {topic.name for flow in topology.flows.values() for topic in flow.to}
    return {topology.file, *topics, *(table.topic.name for table in topology.tables.values())}


def _known(topology: CheckedTopology) -> bool:
    shapes = [shape for flow in topology.flows.values() for shape in (flow.before, flow.after)]
    routes = [flow.route.operations for flow in topology.flows.values() if flow.route is not None]
    placed = chain(*(flow.operations for flow in topology.flows.values()), *routes)
    shapes += [shape for operation in placed for shape in (operation.before, operation.after)]
    return all(shape.known for shape in shapes)


def _ordered(checked: Checked) -> dict[str, CheckedTopology]:
    """The topologies, writers of a topic before its readers; in a cycle, in order of declaration."""
    writers = {
        topic.name: name
        for name, topology in checked.topologies.items()
        for flow in topology.flows.values()
        for topic in flow.to
    }
    reads: dict[str, list[str]] = {}
    for name, topology in checked.topologies.items():
        topics = [source for flow in topology.flows.values() for source in read_by(flow)]
        topics += [table.topic.name for table in topology.tables.values()]
        reads[name] = [writers[topic] for topic in topics if topic in writers]
    return {name: checked.topologies[name] for name in topological_order(reads)}
