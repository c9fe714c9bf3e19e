"""Renders the Jinja of a tree, one scalar at a time. Keys are not rendered."""

from __future__ import annotations

import os
from collections.abc import Mapping as AbstractMapping
from operator import is_
from typing import TYPE_CHECKING, Any

from ....hidden_values import hidden_value
from ...diagnostics import Diagnostics, Position
from ..environment import FromEnvironment, Lookup, NumberFromEnvironment
from ..nodes import Entry, FixedOrigin, Mapping, Node, Scalar, Sequence
from ..source import RenderedOrigin

if TYPE_CHECKING:
    from .template import Rendered, TemplateRenderer

_TAGS = ("{{", "{%", "{#")
_MOST_NODES = 100_000
_MOST_CHARACTERS = 2_000_000
_MOST_LEVELS = 64
_MOST_TEMPLATES = 10_000
_MOST_PROBLEMS = 200


def render(
    node: Node,
    variables: AbstractMapping[str, Any],
    diagnostics: Diagnostics,
    environment: AbstractMapping[str, str] | None = os.environ,
) -> Node:
    """The tree with every template replaced by its value; the same tree if it has none.

    A scalar that fails to render is marked as broken.
    `environment`: the variables that `env_var` reads; None where `env_var` is not allowed.
    """
    return _Rendering(variables, environment, diagnostics).node(node)


def withhold(node: Node) -> Node:
    """The tree with its templates unrendered and marked as broken, so that nobody uses their values."""
    match node:
        case Mapping():
            return Mapping(tuple(Entry(entry.key, withhold(entry.node)) for entry in node.entries), node.position)
        case Sequence():
            return Sequence(tuple(map(withhold, node)), node.position)
        case Scalar():
            return _broken(node) if _is_template(node) else node


class _Rendering:
    """The rendering of one tree.

    It counts what templates produce, because a short file must not expand into a huge one.
    """

    def __init__(
        self,
        variables: AbstractMapping[str, Any],
        environment: AbstractMapping[str, str] | None,
        diagnostics: Diagnostics,
    ) -> None:
        self._variables = variables
        self._environment = environment
        self._diagnostics = diagnostics
        self._renderer: TemplateRenderer | None = None
        self._done: dict[int, Node] = {}
        self._nodes = 0
        self._characters = 0
        self._templates = 0
        self._problems = 0

    def node(self, node: Node) -> Node:
        """The rendered node. Nodes that aliases share stay shared."""
        # By identity: an alias is the same node as its anchor. Rendering it once keeps nested aliases from growing
        # exponentially.
        done = self._done.get(id(node))
        if done is None:
            match node:
                case Scalar():
                    done = self._scalar(node)
                case Sequence():
                    items = tuple(self.node(item) for item in node.items)
                    done = node if _same(items, node.items) else Sequence(items, node.position)
                case Mapping():
                    entries = tuple(self._entry(entry) for entry in node.entries)
                    done = node if _same(entries, node.entries) else Mapping(entries, node.position)
            self._done[id(node)] = done
        return done

    def _entry(self, entry: Entry) -> Entry:
        if any(tag in entry.name for tag in _TAGS):
            message = "Keys are not rendered: this one stays as it is written."
            self._diagnostics.add("HW109", entry.key.position, message, "Write the name out.")
        rendered = self.node(entry.node)
        return entry if rendered is entry.node else Entry(entry.key, rendered)

    def _scalar(self, scalar: Scalar) -> Node:
        if not isinstance(scalar.value, str) or not _is_template(scalar):
            return scalar
        # Imported only here: files without templates do not need Jinja.
        from .template import TemplateError, TemplateRenderer

        self._templates += 1
        if self._problems >= _MOST_PROBLEMS:
            return _broken(scalar)
        if self._renderer is None:
            self._renderer = TemplateRenderer(self._variables, self._environment)
        try:
            rendered = self._renderer.render(scalar.value)
            for each in rendered.lookups:
                if isinstance(each, Lookup) and self._environment is not None and each.name in self._environment:
                    hidden_value(self._environment[each.name], scalar.position.line_text)
            made = self._native(_traced(rendered, scalar), scalar, RenderedOrigin(scalar.origin, rendered.pieces), 0)
            if self._is_exhausted():
                raise TemplateError("HW107", "The Jinja of this file is too much.", None, 0, len(scalar.value))
        except TemplateError as error:
            self._problems = _MOST_PROBLEMS if self._is_exhausted() else self._problems + 1
            at = scalar.position_at(error.start, error.end)
            self._diagnostics.add(error.code, at, error.message, error.hint)
            return _broken(scalar)
        return made

    def _is_exhausted(self) -> bool:
        return self._templates > _MOST_TEMPLATES or self._nodes > _MOST_NODES or self._characters > _MOST_CHARACTERS

    def _native(self, value: Any, template: Scalar, origin: RenderedOrigin, level: int) -> Node:
        """A Python value as nodes, all at the place of the template."""
        self._nodes += 1
        at = template.position
        if self._nodes > _MOST_NODES or level > _MOST_LEVELS:
            return _broken(template)
        match value:
            case AbstractMapping():
                return Mapping(tuple(self._made_entry(pair, template, origin, level) for pair in value.items()), at)
            case list() | tuple():
                return Sequence(tuple(self._native(item, template, origin, level + 1) for item in value), at)
            case None | bool() | int() | float() | str():
                text = _text(value)
                self._characters += len(text)
                return Scalar(value, text, at, origin, template.cut_by_comment)
            case _:
                return Scalar(str(value), str(value), at, origin, template.cut_by_comment)

    def _made_entry(self, pair: tuple[Any, Any], template: Scalar, origin: RenderedOrigin, level: int) -> Entry:
        name = str(pair[0])
        key = Scalar(name, name, template.position, FixedOrigin(template.position))
        return Entry(key, self._native(pair[1], template, origin, level + 1))


def _same(made: tuple[Node | Entry, ...], given: tuple[Node | Entry, ...]) -> bool:
    return all(map(is_, made, given))


def _is_template(scalar: Scalar) -> bool:
    return isinstance(scalar.value, str) and any(tag in scalar.value for tag in _TAGS)


def _text(value: str | int | float | bool | None) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _traced(rendered: Rendered, template: Scalar) -> Any:
    """The value, marked with the environment variables that it comes from."""
    value, lookups = rendered.value, rendered.lookups
    at = template.position.line_text
    if lookups and isinstance(value, int) and isinstance(lookups[0], Lookup):
        return NumberFromEnvironment(value, lookups[0], at)
    return FromEnvironment(value, lookups, at) if lookups and isinstance(value, str) else value


def _broken(scalar: Scalar) -> Scalar:
    at: Position = scalar.position
    return Scalar(None, scalar.text, at, scalar.origin, scalar.cut_by_comment, broken=True)
