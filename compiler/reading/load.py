"""Loads a project's files, and chooses the target."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from .files import ProjectFiles, beside
from .jinja import render, withhold
from .source import Entry, FixedOrigin, MappingNode, Node, ScalarNode, SequenceNode, SourceFile
from .unread import Unread
from .validate import is_lost, validate
from .yaml_loader import read_yaml

# profiles.yml: only the chosen target is rendered, because other targets may read environment variables that are not
# set on this machine.


def choose(
    profiles: Node,
    profile_name: str,
    profile_at: Position | None,
    target: str,
    render: Callable[[Node], Node],
    diagnostics: Diagnostics,
) -> tuple[Node, str]:
    """Render the chosen target with `render`. Reports a missing profile or target.

    `profile_at`: the position of the profile's name; None if it is the project's name. `target`: empty for the
    profile's default. Returns the tree of profiles.yml, with only the chosen target rendered, and the target's name.
    """
    if not isinstance(profiles, MappingNode):
        return profiles, target
    profile = profiles.get(profile_name)
    if profile is None:
        at = profile_at or profiles.position
        diagnostics.add("HW008", at, f"There is no profile '{profile_name}'.", _hint(profile_name, profiles))
    if not isinstance(profile, MappingNode):
        return withhold(profiles), target
    default = render(profile["target"]) if "target" in profile else None
    name = target or (default.text if isinstance(default, ScalarNode) and not default.broken else "")
    targets = profile.get("targets")
    if isinstance(targets, MappingNode) and name and name not in targets:
        at = Position.option("--target") if target or default is None else default.position
        diagnostics.add("HW009", at, f"There is no target '{name}'.", _hint(name, targets))
    if isinstance(targets, MappingNode):
        targets = _only(targets, name, render)
        profile = MappingNode(
            tuple(
                Entry(entry.key, targets if entry.name == "targets" else render(entry.node))
                for entry in profile.entries
            ),
            profile.position,
        )
    rendered = profile
    return _only(profiles, profile_name, lambda _: rendered), name


def _only(node: MappingNode, name: str, render: Callable[[Node], Node]) -> MappingNode:
    entries = (
        Entry(entry.key, render(entry.node) if entry.name == name else withhold(entry.node)) for entry in node.entries
    )
    return MappingNode(tuple(entries), node.position)


def _hint(name: str, existing: MappingNode) -> str:
    return did_you_mean(name, existing) or f"Defined are: {', '.join(existing)}."


# A project: its files are found, read, rendered and checked against the schemas.


@dataclass(frozen=True)
class Definition:
    """A topic: its name (the key in `topics:`) and its entry. Or a topology: its name (`topology:`) and its file."""

    name: ScalarNode
    node: MappingNode

    @property
    def file(self) -> str:
        """The file with the definition, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class LoadedProject:
    """The rendered contents of a project's files, valid by the schemas unless the diagnostics have errors.

    Unreadable files are missing: without headwater.yml the project has no name, topics and topologies. `vars`: of
    headwater.yml, overridden by the command line. `target`: the chosen entry of `targets:` in profiles.yml; None after
    a reported error. A step written as a word (`- to_stream`) is a mapping of that word to null. `sources`: the texts
    of the files read, for printing. `complete`: all files of topics and topologies were read, so all names are known.
    """

    root: Path
    name: str
    version: str
    vars: AbstractMapping[str, Any]
    project: MappingNode
    profile_name: str
    target_name: str
    target: MappingNode | None
    topics: tuple[Definition, ...]
    topologies: tuple[Definition, ...]
    sources: AbstractMapping[str, str]
    complete: bool = True


def load_project(
    root: Path,
    diagnostics: Diagnostics,
    *,
    vars: AbstractMapping[str, Any] | None = None,  # noqa: A002 - the word of headwater.yml
    profile: str | None = None,
    target: str | None = None,
    environment: AbstractMapping[str, str] = os.environ,
) -> LoadedProject:
    """Load the project in the folder `root`, without importing or running its code.

    `vars`, `profile`, `target`: of the command line.
    """
    loading = _Loading(root, diagnostics, vars or {}, environment)
    project = loading.project()
    if project is None:
        loading.read_the_rest()
        return LoadedProject(root, "", "", dict(vars or {}), _EMPTY, "", "", None, (), (), loading.files.sources)
    name = _text(project, "name")
    profile_name, target_name, chosen = loading.target(project, profile, target)
    topics, topologies = tuple(loading.topics()), tuple(loading.topologies())
    loading.check_unread(project, vars or {})
    return LoadedProject(
        root=root,
        name=name,
        version=_text(project, "version"),
        vars=loading.vars,
        project=project,
        profile_name=profile_name,
        target_name=target_name,
        target=chosen,
        topics=topics,
        topologies=topologies,
        sources=loading.files.sources,
        complete=loading.complete,
    )


_EMPTY = MappingNode((), Position("headwater.yml"))


class _Loading:
    """One project while its files are loaded."""

    def __init__(
        self,
        root: Path,
        diagnostics: Diagnostics,
        variables: AbstractMapping[str, Any],
        environment: AbstractMapping[str, str],
    ) -> None:
        self.files = ProjectFiles(root, diagnostics)
        self.vars: AbstractMapping[str, Any] = dict(variables)
        self.complete = True
        self._seeds: list[str] = []
        self._vars_known = True
        self._root = root
        self._diagnostics = diagnostics
        self._environment = environment

    def project(self) -> MappingNode | None:
        """Read headwater.yml with the command line's variables. Afterwards `vars` has all variables."""
        source = self.files.required("headwater", "Start a project with `headwater init`.")
        node = self._document(source, "project") if source else None
        if not isinstance(node, MappingNode):
            return None
        declared = node.get("vars")
        if isinstance(declared, MappingNode):
            self.vars = declared.to_python() | dict(self.vars)
        self._vars_known = not is_lost(node, "vars", "project")
        return node

    def read_the_rest(self) -> None:
        """Report YAML errors of the other files, without headwater.yml."""
        for folder in ("topics", "topologies"):
            for source in self.files.below(folder):
                read_yaml(source, self._diagnostics)

    def target(
        self, project: MappingNode, profile: str | None, target: str | None
    ) -> tuple[str, str, MappingNode | None]:
        """The names of the profile and the target, and the target; None, with a diagnostic, if it is missing."""
        named = project.get("profile")
        at = named.position if isinstance(named, ScalarNode) else None
        at = Position.option("--profile") if profile else at
        name = profile or _text(project, "profile") or _text(project, "name")
        source = self.files.required("profiles", "It defines where the project runs.")
        node = read_yaml(source, self._diagnostics) if source else None
        if node is None or not name:
            return name, target or "", None
        tree, target_name = choose(node, name, at, target or "", self._render_profile, self._diagnostics)
        valid = validate(tree, "profiles", self._diagnostics)
        return name, target_name, _target(valid, name, target_name)

    def topics(self) -> Iterator[Definition]:
        """The topics of all files in `topics/`. Duplicate names are reported."""
        firsts: dict[str, ScalarNode] = {}
        for source in self.files.below("topics"):
            document = self._document(source, "topics")
            section = document.get("topics") if isinstance(document, MappingNode) else None
            self.complete &= isinstance(section, MappingNode)
            for entry in section.entries if isinstance(section, MappingNode) else ():
                self.complete &= isinstance(entry.node, MappingNode)
                if isinstance(entry.node, MappingNode) and self._is_first(entry.key, firsts, "topic"):
                    self._check_seed(entry.node)
                    yield Definition(entry.key, entry.node)

    def topologies(self) -> Iterator[Definition]:
        """The files of `topologies/`. Duplicate names are reported."""
        firsts: dict[str, ScalarNode] = {}
        for source in self.files.below("topologies"):
            document = self._document(source, "topology")
            name = document.get("topology") if isinstance(document, MappingNode) else None
            if (
                not isinstance(document, MappingNode)
                or not isinstance(name, ScalarNode)
                or not isinstance(name.value, str)
            ):
                self.complete = False
            elif self._is_first(name, firsts, "topology"):
                yield Definition(name, _with_words_as_steps(document))

    def check_unread(self, project: MappingNode, given: Collection[str]) -> None:
        """Report unread files, and unused variables. `given`: the variables of the command line."""
        declared = project.get("vars")
        unread = Unread(self._root, self.files, self._seeds, self._diagnostics)
        unread.report_files()
        unread.report_variables(declared if isinstance(declared, MappingNode) else None, given)
        unread.report_environment(self._environment)

    def _document(self, source: SourceFile, schema: str) -> Node | None:
        node = read_yaml(source, self._diagnostics)
        if node is None:
            return None
        diagnostics = Diagnostics()
        rendered = render(node, self.vars, diagnostics, None)
        # If `vars` could not be read, which was reported, all variables seem to be unknown.
        self._diagnostics.extend(item for item in diagnostics if self._vars_known or item.code != "HW102")
        return validate(rendered, schema, self._diagnostics)

    def _render_profile(self, node: Node) -> Node:
        return render(node, self.vars, self._diagnostics, self._environment)

    def _is_first(self, name: ScalarNode, firsts: dict[str, ScalarNode], what: str) -> bool:
        first = firsts.setdefault(name.text, name)
        if first is not name:
            message = f"The {what} '{name.text}' is also defined in {first.position.file}, line {first.position.line}."
            self._diagnostics.add("HW026", name.position, message, "Rename or remove one.")
        return first is name

    def _check_seed(self, topic: MappingNode) -> None:
        seed = topic.get("seed")
        path = seed.get("path") if isinstance(seed, MappingNode) else None
        if not isinstance(path, ScalarNode) or not isinstance(path.value, str):
            return
        self._seeds.append(path.value)
        file = self._root / path.value
        if is_outside(self._root, file):
            message = f"The seed '{path.value}' is outside of the project."
            self._diagnostics.add("HW002", path.position, message, "Copy the file into the project.")
        elif not os.path.exists(file):
            hint = did_you_mean(file.name, beside(file)) or "Add the file, or fix the path."
            self._diagnostics.add("HW027", path.position, f"The seed '{path.value}' does not exist.", hint)


def _target(profiles: Node, profile: str, target: str) -> MappingNode | None:
    node: Node | None = profiles
    for key in (profile, "targets", target):
        node = node.get(key) if isinstance(node, MappingNode) else None
    return node if isinstance(node, MappingNode) else None


def _with_words_as_steps(topology: MappingNode) -> MappingNode:
    """The topology with steps written as a word (`- to_stream`) as mappings of that word to null."""

    def step(node: Node) -> Node:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return node
        null = ScalarNode(None, "", node.position, FixedOrigin(node.position))
        return MappingNode((Entry(node, null),), node.position)

    def steps(node: Node) -> Node:
        return SequenceNode(tuple(map(step, node)), node.position) if isinstance(node, SequenceNode) else node

    def flow(node: Node) -> Node:
        return _replaced(node, "steps", steps)

    def flows(node: Node) -> Node:
        if not isinstance(node, MappingNode):
            return node
        return MappingNode(tuple(Entry(entry.key, flow(entry.node)) for entry in node.entries), node.position)

    result = _replaced(topology, "flows", flows)
    assert isinstance(result, MappingNode)
    return result


def _replaced(node: Node, key: str, change: Callable[[Node], Node]) -> Node:
    if not isinstance(node, MappingNode) or key not in node:
        return node
    entries = (Entry(entry.key, change(entry.node)) if entry.name == key else entry for entry in node.entries)
    return MappingNode(tuple(entries), node.position)


def _text(node: MappingNode, key: str) -> str:
    scalar = node.get(key)
    return scalar.value if isinstance(scalar, ScalarNode) and isinstance(scalar.value, str) else ""
