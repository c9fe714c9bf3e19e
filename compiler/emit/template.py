"""Templates of generated code: loading, docstrings, imports, the content hash."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from ..topology.graph import TopologyGraph
from .literals import WIDTH, Code, laid_out, one_a_line, tuple_of

_IGNORED = frozenset({"at", "file", "about", "notes", "readers", "turn"})
"""Fields without influence on the content hash: locations in the YAML, and names of other topologies."""


def render(template: str, data: Any) -> str:
    """The text of a template with the fields of `data`, a dataclass."""
    return _template(template).render({field.name: getattr(data, field.name) for field in fields(data)})


@cache
def _template(name: str) -> Template:
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    return environment.from_string(files("headwater.templates").joinpath(name).read_text("utf-8"))


def content_hash(graph: TopologyGraph) -> str:
    """SHA-256 of the computations of a topology, in hexadecimal, independent of comments, locations and file order."""
    text = json.dumps(_plain(graph), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in _IGNORED}
        # Only with a value, so that topologies without these fields keep the hash of earlier versions.
        for name in ("dead_letter", "start", "step_policies", "was", "forgets", "expired", "ended", "asks_by", "kafka"):
            if not named.get(name, True):
                del named[name]
        if policies := named.get("step_policies"):
            named["step_policies"] = {policy: len(places) for policy, places in policies.items()}
        return {"": type(value).__name__, **{name: _plain(part) for name, part in named.items()}}
    if isinstance(value, Mapping):
        return [[key, _plain(item)] for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def title(graph: TopologyGraph) -> str:
    """`Topology carrier_delays of project flights 1.0.`"""
    return f"Topology {graph.name} of project {graph.project} {graph.version}."


def docstring(*paragraphs: str, indent: int = 0) -> str:
    """A docstring of the paragraphs that are not empty, wrapped. Its first line has no indent."""
    margin = " " * indent
    wrapped = [
        "\n".join(
            line
            for written in paragraph.strip().splitlines()
            for line in textwrap.wrap(
                _escaped(written), WIDTH - indent - 6, break_long_words=False, break_on_hyphens=False
            )
        )
        for paragraph in paragraphs
        if paragraph.strip()
    ]
    text = textwrap.indent("\n\n".join(wrapped), margin).removeprefix(margin)
    if "\n" in text:
        return f'"""{text}\n{margin}"""'
    return f'"""{text}"""'


def _escaped(text: str) -> str:
    """The text, safe for a docstring: with escaped backslashes, and without triple double quotes."""
    return "".join(c if c.isprintable() else " " for c in text.replace("\\", "\\\\").replace('"""', "'''"))


def import_from(module: str, names: Iterable[str]) -> str:
    """An import in ruff's order: CONSTANTS, Classes, functions."""
    ordered = sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name.lower(), name))
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) <= WIDTH:
        return line
    items = one_a_line(tuple_of(Code(name) for name in ordered))
    return f"from {module} import {laid_out(items)}"
