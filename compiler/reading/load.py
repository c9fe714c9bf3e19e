"""The files of a project, loaded, and the target that is chosen."""

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

# Reads profiles.yml and renders only the chosen target.
#
# Other targets, such as one for production, may read environment variables that are not set on this machine.


@dataclass(frozen=True)
class Choice:
    """The names of the profile and the target to use. `profile_at`: the place that names the profile.

    `profile_at` is None if the profile is called like the project. `target` is empty if the profile's default applies.
    """

    profile: str
    target: str
    profile_at: Position | None = None


@dataclass(frozen=True)
class Chosen:
    """The tree of profiles.yml, in which only the chosen part is rendered, and the name of the target."""

    tree: Node
    target_name: str


def choose(profiles: Node, choice: Choice, render: Callable[[Node], Node], diagnostics: Diagnostics) -> Chosen:
    """Render the chosen target with `render`. Report a profile or target that does not exist."""
    if not isinstance(profiles, MappingNode):
        return Chosen(profiles, choice.target)
    profile = profiles.get(choice.profile)
    if profile is None:
        at = choice.profile_at or profiles.position
        diagnostics.add("HW008", at, f"There is no profile '{choice.profile}'.", _hint(choice.profile, profiles))
    if not isinstance(profile, MappingNode):
        return Chosen(withhold(profiles), choice.target)
    default = render(profile["target"]) if "target" in profile else None
    name = choice.target or (default.text if isinstance(default, ScalarNode) and not default.broken else "")
    targets = profile.get("targets")
    if isinstance(targets, MappingNode) and name and name not in targets:
        at = Position.option("--target") if choice.target or default is None else default.position
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
    return Chosen(_only(profiles, choice.profile, lambda _: rendered), name)


def _only(node: MappingNode, name: str, render: Callable[[Node], Node]) -> MappingNode:
    entries = (
        Entry(entry.key, render(entry.node) if entry.name == name else withhold(entry.node)) for entry in node.entries
    )
    return MappingNode(tuple(entries), node.position)


def _hint(name: str, there: MappingNode) -> str:
    return did_you_mean(name, there) or f"There are: {', '.join(there)}."


# Loads a project: finds its files, reads them, renders their Jinja and checks them against the schemas.


@dataclass(frozen=True)
class TopicDefinition:
    """A topic of the project: its name (the key in `topics:`, with its place) and its definition."""

    name: ScalarNode
    node: MappingNode

    @property
    def file(self) -> str:
        """The file that defines it, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class TopologyDocument:
    """A file of `topologies/`: the topology's name (the value of `topology:`) and the whole document."""

    name: ScalarNode
    node: MappingNode

    @property
    def file(self) -> str:
        """The file it is, relative to the project's root."""
        return self.name.position.file


@dataclass(frozen=True)
class LoadedProject:
    """The rendered contents of a project's files. They fit the schemas unless the diagnostics have errors.

    Files that cannot be read are missing: without headwater.yml the project has no name, no topics and no topologies.
    `vars` are those of headwater.yml, overridden by the command line's. `target` is the chosen entry of `targets:` in
    profiles.yml; None if there is none, and then a diagnostic says why. A step written as a bare word (`- to_stream`)
    comes as a mapping of that word to null, so every step is a mapping. `sources` holds the text of each file read, for
    printing. `complete`: whether every file of topics and topologies was read, so that a name that none of them has is
    unknown.
    """

    root: Path
    name: str
    version: str
    vars: AbstractMapping[str, Any]
    project: MappingNode
    profile_name: str
    target_name: str
    target: MappingNode | None
    topics: tuple[TopicDefinition, ...]
    topologies: tuple[TopologyDocument, ...]
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
    """Load the project in the folder `root`. `vars`, `profile` and `target` are those of the command line.

    Nothing of the project is imported or run.
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
        """Read headwater.yml. Only the command line's variables apply in it; afterwards `vars` has all variables."""
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
        """Report YAML errors of the other files. Without headwater.yml nothing more can be checked in them."""
        for folder in ("topics", "topologies"):
            for source in self.files.below(folder):
                read_yaml(source, self._diagnostics)

    def target(
        self, project: MappingNode, profile: str | None, target: str | None
    ) -> tuple[str, str, MappingNode | None]:
        """The names of the profile and the target, and the target; None, with a diagnostic, if there is none."""
        asked = project.get("profile")
        at = asked.position if isinstance(asked, ScalarNode) else None
        at = Position.option("--profile") if profile else at
        choice = Choice(profile or _text(project, "profile") or _text(project, "name"), target or "", at)
        source = self.files.required("profiles", "It says where the project runs.")
        node = read_yaml(source, self._diagnostics) if source else None
        if node is None or not choice.profile:
            return choice.profile, choice.target, None
        chosen = choose(node, choice, self._render_profile, self._diagnostics)
        valid = validate(chosen.tree, "profiles", self._diagnostics)
        return choice.profile, chosen.target_name, _target(valid, choice.profile, chosen.target_name)

    def topics(self) -> Iterator[TopicDefinition]:
        """The topics of all files in `topics/`, each name once."""
        known: dict[str, ScalarNode] = {}
        for source in self.files.below("topics"):
            document = self._document(source, "topics")
            section = document.get("topics") if isinstance(document, MappingNode) else None
            self.complete &= isinstance(section, MappingNode)
            for entry in section.entries if isinstance(section, MappingNode) else ():
                self.complete &= isinstance(entry.node, MappingNode)
                if isinstance(entry.node, MappingNode) and self._is_first(entry.key, known, "topic"):
                    self._check_seed(entry.node)
                    yield TopicDefinition(entry.key, entry.node)

    def topologies(self) -> Iterator[TopologyDocument]:
        """The files of `topologies/`, each name once."""
        known: dict[str, ScalarNode] = {}
        for source in self.files.below("topologies"):
            document = self._document(source, "topology")
            name = document.get("topology") if isinstance(document, MappingNode) else None
            if (
                not isinstance(document, MappingNode)
                or not isinstance(name, ScalarNode)
                or not isinstance(name.value, str)
            ):
                self.complete = False
            elif self._is_first(name, known, "topology"):
                yield TopologyDocument(name, _with_words_as_steps(document))

    def check_unread(self, project: MappingNode, given: Collection[str]) -> None:
        """Report files that nothing reads, and variables, of the command line (`given`) too, that nothing uses."""
        declared = project.get("vars")
        unread = Unread(self._root, self.files, self._seeds, self._diagnostics)
        unread.report_files()
        unread.report_variables(declared if isinstance(declared, MappingNode) else None, given)
        unread.report_environment(self._environment)

    def _document(self, source: SourceFile, schema: str) -> Node | None:
        node = read_yaml(source, self._diagnostics)
        if node is None:
            return None
        found = Diagnostics()
        rendered = render(node, self.vars, found, None)
        # Where `vars` itself cannot be read, no variable is known, which has been reported there.
        self._diagnostics.extend(each for each in found if self._vars_known or each.code != "HW102")
        return validate(rendered, schema, self._diagnostics)

    def _render_profile(self, node: Node) -> Node:
        return render(node, self.vars, self._diagnostics, self._environment)

    def _is_first(self, name: ScalarNode, known: dict[str, ScalarNode], what: str) -> bool:
        first = known.setdefault(name.text, name)
        if first is not name:
            message = f"The {what} '{name.text}' is defined in {first.position.file}, line {first.position.line}, too."
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
            message = f"The seed '{path.value}' leads out of the project."
            self._diagnostics.add("HW002", path.position, message, "Copy the file into the project.")
        elif not os.path.exists(file):
            hint = did_you_mean(file.name, beside(file)) or "Put it there, or fix the path."
            self._diagnostics.add("HW027", path.position, f"The seed '{path.value}' is not there.", hint)


def _target(profiles: Node, profile: str, target: str) -> MappingNode | None:
    node: Node | None = profiles
    for key in (profile, "targets", target):
        node = node.get(key) if isinstance(node, MappingNode) else None
    return node if isinstance(node, MappingNode) else None


def _with_words_as_steps(topology: MappingNode) -> MappingNode:
    """The topology with each bare-word step (`- to_stream`) as a mapping of that word to null."""

    def step(node: Node) -> Node:
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            return node
        nothing = ScalarNode(None, "", node.position, FixedOrigin(node.position))
        return MappingNode((Entry(node, nothing),), node.position)

    def steps(node: Node) -> Node:
        return SequenceNode(tuple(map(step, node)), node.position) if isinstance(node, SequenceNode) else node

    def flow(node: Node) -> Node:
        return _replaced(node, "steps", steps)

    def flows(node: Node) -> Node:
        if not isinstance(node, MappingNode):
            return node
        return MappingNode(tuple(Entry(entry.key, flow(entry.node)) for entry in node.entries), node.position)

    made = _replaced(topology, "flows", flows)
    assert isinstance(made, MappingNode)
    return made


def _replaced(node: Node, key: str, change: Callable[[Node], Node]) -> Node:
    if not isinstance(node, MappingNode) or key not in node:
        return node
    entries = (Entry(entry.key, change(entry.node)) if entry.name == key else entry for entry in node.entries)
    return MappingNode(tuple(entries), node.position)


def _text(node: MappingNode, key: str) -> str:
    found = node.get(key)
    return found.value if isinstance(found, ScalarNode) and isinstance(found.value, str) else ""
