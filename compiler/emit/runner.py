"""`runner.py`: a topology's tasks and where they run, as a program of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from ...runtime.topology import PluginRef, Settings, Topology
from ..topology.graph import TopologyGraph
from .declarations import Declarations
from .names import Constants
from .python import Code, Expression, Text, call, dict_of, literal, quoted, statement
from .template import content_hash, docstring, import_from, render, title


@dataclass(frozen=True)
class RunnerTemplate:
    """What `runner.py.j2` lays out: finished lines of code."""

    docstring: str
    imports: tuple[str, ...]
    topology: str
    settings: str


def render_runner(graph: TopologyGraph, settings: Settings) -> str:
    """The text of `runner.py`. Relative paths of `settings` are meant from the project's root."""
    writer = Declarations(Constants(graph))
    topology = Topology(
        project=graph.project,
        name=graph.name,
        version=graph.version,
        content_hash=content_hash(graph),
        subtopologies=(),
        assignment=graph.assignment,
        restore=graph.restore,
    )
    template = RunnerTemplate(
        docstring=docstring(
            f"Runs t{title(graph)[1:]}",
            "`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).",
            f"Made by `headwater compile` from {graph.file} and profiles.yml: change those files, not this one.",
        ),
        topology=statement("TOPOLOGY = ", writer.call(topology, subtopologies=Code("SUBTOPOLOGIES"))),
        settings=statement("SETTINGS = ", _settings(settings, writer)),
        imports=(
            import_from("headwater.runtime", writer.classes | {"main"}),
            import_from("job", {"SUBTOPOLOGIES"}),
        ),
    )
    return render("runner.py.j2", template)


def _settings(settings: Settings, writer: Declarations) -> Expression:
    log = _plugin(settings.log, writer)
    instead: dict[str, Expression] = {"log": log, "state_dir": _path(settings.state_dir)}
    if settings.plugins:
        instead["project_dir"] = Code("str(PROJECT)")
    if settings.rack_script:
        instead["rack_script"] = _path(settings.rack_script)
    return writer.call(settings, **instead)


def _plugin(plugin: PluginRef, writer: Declarations) -> Expression:
    """A log's reference; the `path` of one that lies in files is made absolute when the runner starts."""
    writer.classes.add("PluginRef")
    path = plugin.options.get("path")
    if not isinstance(path, str):
        return writer.call(plugin)
    options: Mapping[str, Expression] = {
        name: _path(path) if name == "path" else literal(value) for name, value in plugin.options.items()
    }
    return call("PluginRef", Text(plugin.name), dict_of(options))


def _path(path: str) -> Expression:
    """An expression for a path: from the project's root, where it is not absolute (or a URL)."""
    if PurePath(path).is_absolute() or "://" in path:
        return Text(path)
    return Code(f"str(PROJECT / {quoted(PurePath(path).as_posix())})")
