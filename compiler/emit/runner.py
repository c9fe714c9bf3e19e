"""Generates `runner.py`: a program that runs one topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any

from ...runtime.ir.topology import KafkaCluster, PluginRef, Settings
from ..model.project import FROM_KAFKA, TO_KAFKA
from ..reading.files import FromEnvironment, comes_from_environment
from ..target_settings import PemFile
from ..topology.graph import TopologyGraph
from .calls import Declarations
from .literals import Code, Constants, Expression, Text, call, dict_of, laid_out, literal, quoted, statement
from .template import docstring, import_from, render, title

_LOOKUPS = ("env_var", "whole_number", "duration", "pem_text")
"""Functions of `headwater.runtime` for reading the environment and files in generated settings."""


@dataclass(frozen=True)
class RunnerTemplate:
    """The input of `runner.py.j2`: finished lines of code."""

    docstring: str
    imports: str
    settings: str
    given: str


def render_runner(graph: TopologyGraph, settings: Settings) -> str:
    """The text of `runner.py`. Relative paths in `settings` are relative to the project's root."""
    writer = Declarations(Constants(graph), graph.file)
    if graph.name not in (FROM_KAFKA, TO_KAFKA):
        settings = replace(settings, kafka={})  # only the copying applications connect to Kafka
    written = _settings(settings, writer)
    looked_up = _is_looked_up(settings)
    settings_text = _function(written) if looked_up else statement("SETTINGS = ", written)
    functions = {name for name in _LOOKUPS if f"{name}(" in settings_text} if looked_up else set()
    template = RunnerTemplate(
        docstring=docstring(
            f"Runs t{title(graph)[1:]}",
            "`headwater run` runs it; so do `python runner.py` and `spark-submit runner.py` (`--help` lists options).",
            f"Made by `headwater compile` from {graph.file} and profiles.yml: change those files, not this one.",
        ),
        settings=settings_text,
        given="settings" if looked_up else "SETTINGS",
        imports=import_from("headwater.runtime", writer.classes | {"main", "topology_beside"} | functions),
    )
    return render("runner.py.j2", template)


def _is_looked_up(settings: Settings) -> bool:
    """Whether settings come from the environment, or from files."""
    values = [getattr(settings, field.name) for field in fields(settings)] + [settings.log.options]
    of_kafka: list[Any] = []
    for cluster in settings.kafka.values():
        of_kafka += [cluster.bootstrap_servers, cluster.prefix, *cluster.client.values()]
        of_kafka += vars(cluster.registry).values() if cluster.registry is not None else ()
    return any(isinstance(value, PemFile) for value in of_kafka) or comes_from_environment([*values, *of_kafka])


def _function(written: Expression) -> str:
    """The settings as a function, which reads the environment when it is called."""
    return f"\ndef settings() -> Settings:\n{statement('return ', written, indent=4)}\n"


def _settings(settings: Settings, writer: Declarations) -> Expression:
    log = _plugin(settings.log, writer)
    instead: dict[str, Expression] = {"log": log, "state_dir": _path(settings.state_dir)}
    if settings.plugins:
        instead["project_dir"] = Code("str(PROJECT)")
    if "file" in settings.lineage:
        lineage = {name: _path(text) if name == "file" else literal(text) for name, text in settings.lineage.items()}
        instead["lineage"] = dict_of(lineage)
    if settings.rack_script:
        instead["rack_script"] = _path(settings.rack_script)
    if settings.kafka:
        instead["kafka"] = dict_of({name: _cluster(cluster, writer) for name, cluster in settings.kafka.items()})
    return writer.call(settings, **instead)


def _plugin(plugin: PluginRef, writer: Declarations) -> Expression:
    """The log's PluginRef. A `path` option is made absolute when the runner starts."""
    writer.classes.add("PluginRef")
    path = plugin.options.get("path")
    if not isinstance(path, str):
        return writer.call(plugin)
    options: Mapping[str, Expression] = {
        name: _path(path) if name == "path" else literal(value) for name, value in plugin.options.items()
    }
    return call("PluginRef", Text(plugin.name), dict_of(options))


def _cluster(cluster: KafkaCluster, writer: Declarations) -> Expression:
    """The KafkaCluster. PEM files are read when the runner starts."""
    instead: dict[str, Expression] = {}
    if cluster.client:
        instead["client"] = dict_of({setting: _text(value) for setting, value in cluster.client.items()})
    if cluster.registry is not None:
        ca = {"ca": _text(cluster.registry.ca)} if cluster.registry.ca else {}
        instead["registry"] = writer.call(cluster.registry, **ca)
    return writer.call(cluster, **instead)


def _text(value: Any) -> Expression:
    """A setting, which may be the text of a PEM file."""
    return call("pem_text", Code(f"PROJECT / {_operand(value.path)}")) if isinstance(value, PemFile) else literal(value)


def _operand(path: str) -> str:
    """A path as the operand of `/`."""
    return f"({laid_out(literal(path))})" if isinstance(path, FromEnvironment) else quoted(path)


def _path(path: str) -> Expression:
    """An expression for a path. A relative path is relative to the project's root."""
    if isinstance(path, FromEnvironment):
        return Code(f"str(PROJECT / {_operand(path)})")
    if PurePath(path).is_absolute() or "://" in path:
        return Text(path)
    return Code(f"str(PROJECT / {quoted(PurePath(path).as_posix())})")
