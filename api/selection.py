"""The topics and topologies that `select` names."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from ..compiler.outcomes import InvalidProjectError
from ..compiler.resources import Resource
from ..compiler.selectors import NoTopologyError, select
from .files import CheckedFiles

if TYPE_CHECKING:
    from ..compiler.topology.graph import TopologyGraph


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
