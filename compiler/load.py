"""From the files of a project to its positioned tree: discovered, read, rendered, validated."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .nodes import Mapping, Scalar


@dataclass(frozen=True)
class TopicDefinition:
    """A topic of the project: its name (the key in `topics:`, with its place) and what is said of it."""

    name: Scalar
    node: Mapping

    @property
    def file(self) -> str:
        """The file that defines it, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class TopologyDocument:
    """A file of `topologies/`: the topology's name (the value of `topology:`) and the whole document."""

    name: Scalar
    node: Mapping

    @property
    def file(self) -> str:
        """The file it is, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class LoadedProject:
    """A project as its files say it, rendered; valid by the schemas unless the diagnostics say otherwise.

    `vars` are those of headwater.yml with the command line's on top. `target` is the chosen entry of `targets:` in
    profiles.yml, None where there is none (then a diagnostic says why). Steps written as a bare word (`- to_stream`)
    come as mappings with a null value, so every step is a mapping. `sources` holds the text of each file read,
    for printing.
    """

    root: Path
    name: str
    version: str
    vars: AbstractMapping[str, Any]
    project: Mapping
    profile_name: str
    target_name: str
    target: Mapping | None
    topics: tuple[TopicDefinition, ...]
    topologies: tuple[TopologyDocument, ...]
    sources: AbstractMapping[str, str]
