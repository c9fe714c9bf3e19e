"""The files of a project, checked once, and the topologies that `select` names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiler.checks.plugins import InstalledPlugins
from ..compiler.diagnostics import did_you_mean
from ..compiler.language.type_checker import Analyzer
from ..compiler.outcomes import InvalidProjectError, Parsed, UnknownNameError
from ..compiler.pipeline import CheckedProject, compile_project
from ..compiler.resources import Resource, Resources, resources_of
from ..compiler.selectors import NoTopologyError, select
from ..compiler.target_settings import absolute, plugins_of, settings_of, spark_of
from ..errors import HeadwaterError
from ..plugins.manager import PluginManager
from ..runtime.ir.topology import Settings

if TYPE_CHECKING:
    from ..compiler.topology.graph import TopologyGraph


# The files of a project, checked once, when they are first needed.


@dataclass(frozen=True)
class Options:
    """What a caller chooses of a project, see `Project`."""

    profile: str | None = None
    target: str | None = None
    vars: Mapping[str, Any] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    without_plugins: tuple[str, ...] = ()


class CheckedFiles:
    """The files below `root`. `analyzer`: what judges the types of expressions, made when types are needed."""

    def __init__(self, root: Path, options: Options, analyzer: Callable[[], Analyzer]) -> None:
        self.root = root
        self.options = options
        self._analyzer = analyzer

    @cached_property
    def untyped(self) -> CheckedProject:
        """The project checked without Spark and without its Python modules."""
        return self._compiled()

    @cached_property
    def typed(self) -> CheckedProject:
        """The project checked with types and plugins, with the graphs of topologies.

        Starts Spark for new expressions.
        """
        return self._compiled(analyzer=self._analyzer(), plugins=InstalledPlugins(self.plugins))

    @cached_property
    def judged(self) -> CheckedProject:
        """The project checked with plugins and with the types that are known without Spark. It has the graphs of those
        topologies of which all types are known.
        """
        return self._compiled(plugins=InstalledPlugins(self.plugins))

    @cached_property
    def guessed(self) -> CheckedProject:
        """The same, with an unknown type for each expression that was never judged: see `UntypedAnalyzer`."""
        from ..compiler.language.stand_in import UntypedAnalyzer

        return self._compiled(analyzer=UntypedAnalyzer(), keep_verdicts=False)

    @property
    def checked(self) -> CheckedProject:
        """The one of both that exists, for uses without types."""
        found: CheckedProject = self.__dict__.get("typed") or self.untyped
        return found

    @cached_property
    def resources(self) -> Resources:
        """Topics, topologies and what is in them."""
        return resources_of(self.checked.loaded, self.checked.model)

    @property
    def name(self) -> str:
        """The project's name."""
        return self.checked.loaded.name

    @property
    def seeds(self) -> str:
        """The application that commits records from outside."""
        return f"{self.name}-seed"

    @property
    def spark(self) -> Mapping[str, Any]:
        """Spark's settings, even of a project with errors."""
        return spark_of(self.checked.loaded)

    def applications(self) -> list[str]:
        """The applications of all topologies, even of a project with errors."""
        return [f"{self.name}-{each.name}" for each in self.resources.of("topology")]

    def plugins(self, without: Collection[str] = ()) -> PluginManager:
        """Built-in and installed plugins, and those of the project, whose modules are imported here."""
        modules = plugins_of(self.untyped.loaded)
        return PluginManager(self.root, modules, (*self.options.without_plugins, *without))

    def found(self) -> dict[str, Any]:
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
        return Parsed(**self.found())

    def settings_to_read(self) -> Settings:
        """The settings of the target, with absolute paths, even if other files have errors.

        Raises InvalidProjectError.
        """
        parsed = self.parsed()
        if not parsed.target_ok:
            raise InvalidProjectError(parsed)
        settings = absolute(settings_of(self.checked.loaded), self.root)
        return replace(settings, without_plugins=self.options.without_plugins)

    def has_log_folder(self) -> bool:
        """Whether the target's log is in a folder, which is there. Raises InvalidProjectError."""
        path = self.settings_to_read().log.options.get("path")
        return isinstance(path, str) and Path(path).is_dir()

    def require_valid(self) -> None:
        """Raises InvalidProjectError if errors have been found."""
        if self.checked.diagnostics.has_errors:
            raise InvalidProjectError(self.parsed())

    def unknown(self, error: UnknownNameError) -> HeadwaterError:
        """The error.

        If the project's files have errors, those: the missing name may be in a file that cannot be read.
        """
        parsed = self.parsed()
        return error if parsed.ok else InvalidProjectError(parsed)

    def no_topic(self, name: str) -> UnknownNameError:
        """The error that there is no topic of that name."""
        hint = did_you_mean(name, self.checked.topics) or "`headwater ls --type topic` lists those that there are"
        return UnknownNameError("topic", name, hint)

    def _compiled(self, **more: Any) -> CheckedProject:
        return compile_project(
            self.root,
            vars=self.options.vars,
            profile=self.options.profile,
            target=self.options.target,
            without_plugins=self.options.without_plugins,
            earlier=self.__dict__.get("untyped"),
            **more,
        )


# The topics and topologies that `select` names.


class Selection:
    """The selected part of a project; all of it if nothing is selected."""

    def __init__(self, files: CheckedFiles) -> None:
        self._files = files
        self._words = files.options.select

    @property
    def narrows(self) -> bool:
        """Whether anything was selected."""
        return bool(self._words)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The names of the selected topics and topologies. Raises SelectorError."""
        return select(self._files.resources, self._words)

    def resources(self) -> tuple[Resource, ...]:
        """What is selected, and what is in it. Raises InvalidProjectError without a headwater.yml, SelectorError."""
        if not self._files.checked.loaded.project.entries:
            raise InvalidProjectError(self._files.parsed())
        selected = self.ids
        return tuple(
            each
            for each in self._files.resources.by_id.values()
            if (f"topology.{each.topology}" if each.topology else each.id) in selected
        )

    def topologies(self) -> tuple[str, ...]:
        """By name, of a project whose names are known to be names. Raises InvalidProjectError, SelectorError."""
        self._files.require_valid()
        found = tuple(each.name for each in self._files.resources.of("topology") if each.id in self.ids)
        if not found:
            raise NoTopologyError(" ".join(self._words))
        return found

    def topologies_to_read(self) -> tuple[str, ...]:
        """By name, of a project that may have errors. Raises InvalidProjectError, SelectorError."""
        found = tuple(each.name for each in self.resources() if each.kind == "topology")
        if self.narrows and not found:
            raise NoTopologyError(" ".join(self._words))
        return found

    def named(self, words: Collection[str]) -> tuple[str, ...]:
        """The topologies that other words select, by name, of a project that may have errors.

        Raises InvalidProjectError, SelectorError.
        """
        if not self._files.checked.loaded.project.entries:
            raise InvalidProjectError(self._files.parsed())
        ids = select(self._files.resources, words)
        found = tuple(each.name for each in self._files.resources.of("topology") if each.id in ids)
        if not found:
            raise NoTopologyError(" ".join(words))
        return found

    def graphs(self) -> tuple[TopologyGraph, ...]:
        """The graphs of the selected topologies.

        Raises InvalidProjectError, SelectorError if only topics are selected.
        """
        checked = self._files.typed
        self._files.require_valid()
        found = tuple(graph for graph in checked.topologies if f"topology.{graph.name}" in self.ids)
        if self.narrows and not found:
            raise NoTopologyError(" ".join(self._words))
        return found

    def seeds(self) -> list[str]:
        """Topics that have a seed, of the selected ones and of those that selected topologies read."""
        resources = self._files.resources
        wanted = {parent for id_ in self.ids for parent in resources.by_id[id_].parents} | self.ids
        return [each.name for each in resources.of("topic") if each.seeded and each.id in wanted]

    def topics_around(self, applications: Collection[str]) -> set[str]:
        """The topics that these applications read or write."""
        resources = self._files.resources
        topologies = {f"topology.{application.partition('-')[2]}" for application in applications}
        read = {parent for id_ in topologies for parent in resources.by_id[id_].parents}
        return {each.name for each in resources.of("topic") if each.id in read or topologies & set(each.parents)}
