"""The files of a project, checked once, and the topologies selected by `select`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiler.checks.plugins import PluginCatalog
from ..compiler.diagnostics import did_you_mean
from ..compiler.outcomes import InvalidProjectError, Parsed, UnknownNameError
from ..compiler.pipeline import CheckedProject, compile_project
from ..compiler.resources import Resource, Resources, resources_of
from ..compiler.selectors import NoTopologyError, SelectorError, select
from ..compiler.target_settings import absolute, plugins_of, settings_of, spark_of
from ..errors import HeadwaterError
from ..plugins.manager import PluginManager
from ..runtime.expressions.analyzer import Analyzer
from ..runtime.ir.topology import Settings

if TYPE_CHECKING:
    from ..compiler.topology.graph import TopologyGraph


# The files of a project, checked once, on first use.


@dataclass(frozen=True)
class Options:
    """Options of a project, see `Project`."""

    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    without_plugins: tuple[str, ...] = ()


class CheckedFiles:
    """The files below `root`. `analyzer`: makes the type checker of expressions when types are needed."""

    def __init__(self, root: Path, options: Options, analyzer: Callable[[], Analyzer]) -> None:
        self.root = root
        self.options = options
        self._analyzer = analyzer

    @cached_property
    def untyped(self) -> CheckedProject:
        """The project, checked without Spark and without its Python modules."""
        return self._compiled()

    @cached_property
    def typed(self) -> CheckedProject:
        """The project, checked with types and plugins, with the graphs of topologies.

        Starts Spark for new expressions.
        """
        return self._compiled(analyzer=self._analyzer(), plugins=PluginCatalog(self.plugins))

    @cached_property
    def typed_without_spark(self) -> CheckedProject:
        """The project, checked with plugins and the types known without Spark.

        It has the graphs of the topologies whose types are all known.
        """
        return self._compiled(plugins=PluginCatalog(self.plugins))

    @cached_property
    def typed_or_unknown(self) -> CheckedProject:
        """The same, with an unknown type for expressions that were never typed: see `UntypedAnalyzer`."""
        from ..compiler.language.type_checker import UntypedAnalyzer

        return self._compiled(analyzer=UntypedAnalyzer(), keep_verdicts=False)

    @property
    def checked(self) -> CheckedProject:
        """`typed` if it exists, else `untyped`: for uses that need no types."""
        checked: CheckedProject = self.__dict__.get("typed") or self.untyped
        return checked

    @cached_property
    def resources(self) -> Resources:
        """Topics, topologies, and the resources in them."""
        return resources_of(self.checked.loaded, self.checked.model)

    @property
    def name(self) -> str:
        """The project's name."""
        return self.checked.loaded.name

    @property
    def seeds(self) -> str:
        """The application that commits seeds and appended records."""
        return f"{self.name}-seed"

    @property
    def spark(self) -> Mapping[str, Any]:
        """Spark's settings, also of a project with errors."""
        return spark_of(self.checked.loaded)

    def applications(self) -> list[str]:
        """The applications of all topologies, also of a project with errors."""
        return [f"{self.name}-{topology.name}" for topology in self.resources.of_kinds("topology")]

    def plugins(self, without: Collection[str] = ()) -> PluginManager:
        """Built-in, installed and local plugins. Imports the project's modules."""
        modules = plugins_of(self.untyped.loaded)
        return PluginManager(self.root, modules, (*self.options.without_plugins, *without))

    def parsed_fields(self) -> dict[str, Any]:
        """The fields of `Parsed`, as far as they are known."""
        checked = self.checked
        return {
            "root": self.root,
            "diagnostics": tuple(checked.diagnostics),
            "sources": checked.loaded.sources,
            "profile_name": checked.loaded.profile_name,
            "target_name": checked.loaded.target_name,
            "resources": tuple(self.resources.by_id.values()),
        }

    def parsed(self) -> Parsed:
        """The result of parsing, as far as it is known."""
        return Parsed(**self.parsed_fields())

    def settings_to_read(self) -> Settings:
        """The settings of the target, with absolute paths. Errors in other files do not matter.

        Raises InvalidProjectError.
        """
        parsed = self.parsed()
        if not parsed.target_ok:
            raise InvalidProjectError(parsed)
        settings = absolute(settings_of(self.checked.loaded), self.root)
        return replace(settings, without_plugins=self.options.without_plugins)

    def has_log_folder(self) -> bool:
        """Whether the target's log is in an existing folder. Raises InvalidProjectError."""
        path = self.settings_to_read().log.options.get("path")
        return isinstance(path, str) and Path(path).is_dir()

    def require_valid(self) -> None:
        """Raise InvalidProjectError if errors were found."""
        if self.checked.diagnostics.has_errors:
            raise InvalidProjectError(self.parsed())

    def or_project_errors(self, error: UnknownNameError) -> HeadwaterError:
        """The error, or InvalidProjectError if the files have errors: the missing name may be in an unreadable file."""
        parsed = self.parsed()
        return error if parsed.ok else InvalidProjectError(parsed)

    def unknown_topic(self, name: str) -> UnknownNameError:
        """The error for a topic that does not exist, with a suggestion."""
        hint = did_you_mean(name, self.checked.topics) or "`headwater ls --type topic` lists the topics"
        return UnknownNameError("topic", name, hint)

    def _compiled(self, **kwargs: Any) -> CheckedProject:
        return compile_project(
            self.root,
            vars=self.options.vars,
            profile=self.options.profile,
            target=self.options.target,
            without_plugins=self.options.without_plugins,
            earlier=self.__dict__.get("untyped"),
            **kwargs,
        )


# The topics and topologies selected by `select`.


class Selection:
    """The selected part of a project: all of it without a selector."""

    def __init__(self, files: CheckedFiles) -> None:
        self._files = files
        self._selectors = files.options.select

    @property
    def narrows(self) -> bool:
        """Whether there is a selector."""
        return bool(self._selectors)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The names of the selected topics and topologies. Raises SelectorError."""
        return select(self._files.resources, self._selectors)

    def resources(self) -> tuple[Resource, ...]:
        """The selected topics and topologies, and the resources in them. Raises InvalidProjectError, SelectorError."""
        if not self._files.checked.loaded.project.entries:
            raise InvalidProjectError(self._files.parsed())
        selected = self.ids
        return tuple(
            resource
            for resource in self._files.resources.by_id.values()
            if (f"topology.{resource.topology}" if resource.topology else resource.id) in selected
        )

    def topologies(self) -> tuple[str, ...]:
        """Names of the selected topologies, of a valid project. Raises InvalidProjectError, SelectorError."""
        self._files.require_valid()
        names = tuple(
            topology.name for topology in self._files.resources.of_kinds("topology") if topology.id in self.ids
        )
        if not names:
            raise NoTopologyError(" ".join(self._selectors))
        return names

    def topologies_to_read(self) -> tuple[str, ...]:
        """The same for a project that may have errors. Raises InvalidProjectError, SelectorError."""
        names = tuple(resource.name for resource in self.resources() if resource.kind == "topology")
        if self.narrows and not names:
            raise NoTopologyError(" ".join(self._selectors))
        return names

    def matching(self, selectors: Collection[str]) -> tuple[str, ...]:
        """Names of the topologies that other selectors match, of a project that may have errors.

        Raises InvalidProjectError, SelectorError.
        """
        if not self._files.checked.loaded.project.entries:
            raise InvalidProjectError(self._files.parsed())
        ids = select(self._files.resources, selectors)
        names = tuple(topology.name for topology in self._files.resources.of_kinds("topology") if topology.id in ids)
        if not names:
            raise NoTopologyError(" ".join(selectors))
        return names

    def matching_one(self, selector: str) -> str:
        """The name of the one topology that a selector matches. Raises InvalidProjectError, SelectorError."""
        names = self.matching([selector])
        if len(names) > 1:
            raise SelectorError(selector, f"{selector!r} selects {', '.join(names)}", "name one topology")
        return names[0]

    def graphs(self) -> tuple[TopologyGraph, ...]:
        """The graphs of the selected topologies.

        Raises InvalidProjectError, and SelectorError if only topics are selected.
        """
        checked = self._files.typed
        self._files.require_valid()
        graphs = tuple(graph for graph in checked.topologies if f"topology.{graph.name}" in self.ids)
        if self.narrows and not graphs:
            raise NoTopologyError(" ".join(self._selectors))
        return graphs

    def seeds(self) -> list[str]:
        """Topics with a seed: the selected ones, and those that selected topologies read."""
        resources = self._files.resources
        wanted = {parent for id_ in self.ids for parent in resources.by_id[id_].parents} | self.ids
        return [topic.name for topic in resources.of_kinds("topic") if topic.seeded and topic.id in wanted]

    def topics_around(self, applications: Collection[str]) -> set[str]:
        """The topics that these applications read or write."""
        resources = self._files.resources
        topologies = {f"topology.{application.partition('-')[2]}" for application in applications}
        read = {parent for id_ in topologies for parent in resources.by_id[id_].parents}
        return {
            topic.name for topic in resources.of_kinds("topic") if topic.id in read or topologies & set(topic.parents)
        }
