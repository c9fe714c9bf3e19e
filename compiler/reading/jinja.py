"""Renders Jinja templates in YAML, with a map from rendered text to the source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from ...hidden_values import hidden_value
from ..diagnostics import Diagnostics, Position
from .files import FromEnvironment, Lookup, NumberFromEnvironment, lookup, number, reads_environment
from .jinja_expressions import MAX_CHARACTERS, Evaluator, ExpressionError, written
from .source import Entry, FixedOrigin, MappingNode, Node, Piece, RenderedOrigin, ScalarNode, SequenceNode

# The template of one scalar: `{{ expression }}` and `{% if %}` in a text.
#
# Jinja's lexer and parser read the template; `jinja_expressions` computes the values. A template that is just one
# expression has the value of the expression, with its type. Other templates are strings.

MAX_TEMPLATE_CHARACTERS = 10_000
_AT = re.compile(r" at (\d+)$")


class TemplateError(Exception):
    """An error in a template: code, message and hint of the diagnostic, and the range `[start, end)` of offsets."""

    def __init__(self, code: str, message: str, hint: str | None, start: int, end: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.start = start
        self.end = end


@dataclass(frozen=True, slots=True)
class Rendered:
    """The result of a template: its value and, for strings, the pieces of the text.

    `lookups`: the literal texts and lookups of the value, if it reads the environment.
    """

    value: Any
    pieces: tuple[Piece, ...]
    lookups: tuple[str | Lookup, ...] = ()


@dataclass(frozen=True, slots=True)
class _Data:
    start: int
    text: str


@dataclass(frozen=True, slots=True)
class _Expression:
    start: int
    end: int
    tree: nodes.Node


@dataclass(frozen=True, slots=True)
class _If:
    """The branches in order, with their conditions; None for `else`."""

    branches: list[tuple[_Expression | None, list[_Part]]] = field(default_factory=list)


_Part = _Data | _Expression | _If


_COMPUTED = "A value of the environment cannot be used in computations, because the job looks it up again when it runs."
_ALONE = "Write `{{ env_var('NAME') }}`, with `| int` for a number, or use a variable: `var('name')`."


def _reads_environment(part: _Part) -> bool:
    match part:
        case _Expression():
            return reads_environment(part.tree)
        case _If():
            return any(
                (condition is not None and _reads_environment(condition)) or any(map(_reads_environment, body))
                for condition, body in part.branches
            )
    return False


class TemplateRenderer:
    """Renders templates with one set of variables."""

    def __init__(self, variables: Mapping[str, Any], environment: Mapping[str, str] | None) -> None:
        self._jinja = Environment(keep_trailing_newline=True, autoescape=False)
        self._evaluator = Evaluator(variables, environment)

    def render(self, text: str) -> Rendered:
        """Render the text of one scalar. Raises TemplateError."""
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            message = f"A value with Jinja may have at most {MAX_TEMPLATE_CHARACTERS:,} characters."
            raise TemplateError("HW107", message, "Split it.", 0, 2)
        try:
            parts = self._parse(text)
            lookups = self._lookups(parts) if any(map(_reads_environment, parts)) else ()
            if len(parts) == 1 and isinstance(whole := parts[0], _Expression):
                return Rendered(self._value(whole), (Piece(0, whole.start, whole.end, verbatim=False),), lookups)
            return replace(self._text(parts), lookups=lookups)
        except RecursionError:
            raise TemplateError("HW107", "This is nested too deeply.", None, 0, len(text)) from None

    def _lookups(self, parts: list[_Part]) -> tuple[str | Lookup, ...]:
        """The texts and lookups from which generated code makes the value.

        Raises TemplateError for computations with a lookup.
        """
        lookups: list[str | Lookup] = []
        for part in parts:
            if isinstance(part, _Expression) and _reads_environment(part):
                variable = lookup(part.tree) or (number(part.tree) if len(parts) == 1 else None)
                if variable is None:
                    raise _at(part, ExpressionError("HW111", _COMPUTED, _ALONE))
                lookups.append(variable)
            elif isinstance(part, _If):
                if _reads_environment(part):
                    raise TemplateError("HW111", _COMPUTED, _ALONE, 0, 2)
                lookups.extend(text for _, text in self._rendered([part]))
            else:
                lookups.append(part.text if isinstance(part, _Data) else written(self._value(part)))
        return tuple(lookups)

    def _text(self, parts: list[_Part]) -> Rendered:
        texts: list[str] = []
        pieces: list[Piece] = []
        length = 0
        for part, text in self._rendered(parts):
            if text:
                verbatim = isinstance(part, _Data)
                pieces.append(Piece(length, part.start, part.start if verbatim else part.end, verbatim))  # type: ignore[union-attr]
                texts.append(text)
                length += len(text)
            if length > MAX_CHARACTERS:
                message = f"This renders to more than {MAX_CHARACTERS:,} characters."
                raise TemplateError("HW107", message, None, 0, 2)
        return Rendered("".join(texts), tuple(pieces))

    def _rendered(self, parts: list[_Part]) -> Iterator[tuple[_Data | _Expression, str]]:
        for part in parts:
            match part:
                case _Data():
                    yield part, part.text
                case _Expression():
                    value = self._value(part)
                    try:
                        yield part, written(value)
                    except ExpressionError as error:
                        raise _at(part, error) from None
                case _If():
                    for condition, body in part.branches:
                        if condition is None or self._value(condition):
                            yield from self._rendered(body)
                            break

    def _value(self, expression: _Expression) -> Any:
        try:
            return self._evaluator.value(expression.tree)
        except ExpressionError as error:
            raise _at(expression, error) from None

    def _parse(self, text: str) -> list[_Part]:
        """The parts of the template. The stack of open `if` blocks has their starts, and the lists around them."""
        parts: list[_Part] = []
        body = parts
        open_ifs: list[tuple[_If, int, list[_Part]]] = []
        for kind, start, end, inside in self._tags(text):
            if kind == "data":
                body.append(_Data(start, text[start:end]))
                continue
            if kind == "variable":
                body.append(self._expression(text, inside, start, end))
                continue
            word, _, _ = text[inside.start : inside.stop].strip().partition(" ")
            if word == "if":
                block = _If()
                open_ifs.append((block, start, body))
                body.append(block)
            elif word not in ("elif", "else", "endif"):
                message = f"The statement '{word}' is not allowed." if word else "This statement is empty."
                raise TemplateError("HW105", message, "Allowed are if, elif, else and endif.", start, end)
            elif not open_ifs:
                raise TemplateError("HW101", f"This '{word}' has no 'if'.", None, start, end)
            if word == "endif":
                body = open_ifs.pop()[2]
                continue
            begin = text.index(word, inside.start) + len(word)
            condition = None if word == "else" else self._expression(text, range(begin, inside.stop), start, end)
            body = []
            open_ifs[-1][0].branches.append((condition, body))
        if open_ifs:
            start = open_ifs[-1][1]
            raise TemplateError("HW101", "This 'if' has no 'endif'.", "End it with {% endif %}.", start, start + 2)
        return parts

    def _expression(self, text: str, inside: range, start: int, end: int) -> _Expression:
        source = text[inside.start : inside.stop]
        try:
            parser = Parser(self._jinja, source, state="variable")
            tree = parser.parse_expression()
            if not parser.stream.eos:
                raise TemplateSyntaxError(f"unexpected {parser.stream.current.value!r}", 1)
        except TemplateSyntaxError as error:
            raise TemplateError("HW101", f"This Jinja does not parse: {error.message}.", None, start, end) from None
        except ValueError as error:  # a number too long for Python's int
            raise TemplateError("HW107", f"This Jinja does not parse: {error}.", None, start, end) from None
        return _Expression(start, end, tree)

    def _tags(self, text: str) -> Iterator[tuple[str, int, int, range]]:
        """The parts of the template in order: `data`, `variable` or `block`, their ranges, and those in braces."""
        at = begin = inside = 0
        try:
            for _, token, value in self._jinja.lex(text):
                # A tag with a minus drops the white space before it, which is in no token. So search for the token.
                start = max(text.find(value, at), at)
                at = start + len(value)
                if token == "data":
                    yield "data", start, at, range(start, at)
                elif token in ("variable_begin", "block_begin"):
                    begin, inside = start, at
                elif token in ("variable_end", "block_end"):
                    closed = start + len(value.rstrip())
                    yield token.removesuffix("_end"), begin, closed, range(inside, start)
                    inside = 0
            if inside:
                raise TemplateSyntaxError("the braces are not closed", 1)
        except TemplateSyntaxError as error:
            message = (error.message or "syntax error").rstrip(".")
            where = _AT.search(message)
            start = int(where[1]) if where else begin if inside else _first_tag(text, at)
            message = _AT.sub("", message)
            hint = "Write a literal {{ as {{ '{{' }}."
            raise TemplateError("HW101", f"This Jinja does not parse: {message}.", hint, start, start + 1) from None


def _first_tag(text: str, at: int) -> int:
    starts = [found for tag in ("{{", "{%", "{#") if (found := text.find(tag, at)) >= 0]
    return min(starts, default=min(at, len(text) - 1))


def _at(expression: _Expression, error: ExpressionError) -> TemplateError:
    return TemplateError(error.code, error.message, error.hint, expression.start, expression.end)


# The Jinja of a tree, one scalar at a time. Keys are not rendered.

_TAGS = ("{{", "{%", "{#")
_MAX_NODES = 100_000
_MAX_FILE_CHARACTERS = 2_000_000
_MAX_LEVELS = 64
_MAX_TEMPLATES = 10_000
_MAX_PROBLEMS = 200


def render(
    node: Node,
    variables: AbstractMapping[str, Any],
    diagnostics: Diagnostics,
    environment: AbstractMapping[str, str] | None = os.environ,
) -> Node:
    """The tree with the values of its templates; the same tree if it has no templates.

    A scalar that fails to render is marked as broken. `environment`: the variables for `env_var`; None if `env_var` is
    not allowed.
    """
    return _Rendering(variables, environment, diagnostics).node(node)


def withhold(node: Node) -> Node:
    """The tree with its templates unrendered and marked as broken, so that their values are not used."""
    match node:
        case MappingNode():
            return MappingNode(tuple(Entry(entry.key, withhold(entry.node)) for entry in node.entries), node.position)
        case SequenceNode():
            return SequenceNode(tuple(map(withhold, node)), node.position)
        case ScalarNode():
            return _broken(node) if _is_template(node) else node


@dataclass
class _Rendering:
    """The rendering of one tree. It limits the results of templates, so a short file cannot expand into a huge one."""

    variables: AbstractMapping[str, Any]
    environment: AbstractMapping[str, str] | None
    diagnostics: Diagnostics
    done: dict[int, Node] = field(default_factory=dict)
    nodes: int = 0
    characters: int = 0
    templates: int = 0
    problems: int = 0

    @cached_property
    def renderer(self) -> TemplateRenderer:
        return TemplateRenderer(self.variables, self.environment)

    def node(self, node: Node) -> Node:
        """The rendered node. Nodes that aliases share stay shared."""
        # By identity: an alias is the same node as its anchor. Rendering it once keeps nested aliases from growing
        # exponentially.
        done = self.done.get(id(node))
        if done is None:
            match node:
                case ScalarNode():
                    done = self._scalar(node)
                case SequenceNode():
                    items = tuple(self.node(item) for item in node.items)
                    done = node if _same(items, node.items) else SequenceNode(items, node.position)
                case MappingNode():
                    entries = tuple(self._entry(entry) for entry in node.entries)
                    done = node if _same(entries, node.entries) else MappingNode(entries, node.position)
            self.done[id(node)] = done
        return done

    def _entry(self, entry: Entry) -> Entry:
        if any(tag in entry.name for tag in _TAGS):
            message = "Keys are not rendered, so this one stays as it is."
            self.diagnostics.add("HW109", entry.key.position, message, "Write the name out.")
        rendered = self.node(entry.node)
        return entry if rendered is entry.node else Entry(entry.key, rendered)

    def _scalar(self, scalar: ScalarNode) -> Node:
        if not isinstance(scalar.value, str) or not _is_template(scalar):
            return scalar
        self.templates += 1
        if self.problems >= _MAX_PROBLEMS:
            return _broken(scalar)
        try:
            rendered = self.renderer.render(scalar.value)
            for part in rendered.lookups:
                if isinstance(part, Lookup) and self.environment is not None and part.name in self.environment:
                    hidden_value(self.environment[part.name], scalar.position.line_text)
            result = self._native(_traced(rendered, scalar), scalar, RenderedOrigin(scalar.origin, rendered.pieces), 0)
            if self._is_exhausted():
                raise TemplateError("HW107", "The Jinja of this file is too large.", None, 0, len(scalar.value))
        except TemplateError as error:
            self.problems = _MAX_PROBLEMS if self._is_exhausted() else self.problems + 1
            at = scalar.position_at(error.start, error.end)
            self.diagnostics.add(error.code, at, error.message, error.hint)
            return _broken(scalar)
        return result

    def _is_exhausted(self) -> bool:
        return self.templates > _MAX_TEMPLATES or self.nodes > _MAX_NODES or self.characters > _MAX_FILE_CHARACTERS

    def _native(self, value: Any, template: ScalarNode, origin: RenderedOrigin, level: int) -> Node:
        """A Python value as nodes, all at the position of the template."""
        self.nodes += 1
        at = template.position
        if self.nodes > _MAX_NODES or level > _MAX_LEVELS:
            return _broken(template)
        match value:
            case AbstractMapping():
                return MappingNode(tuple(self._made_entry(pair, template, origin, level) for pair in value.items()), at)
            case list() | tuple():
                return SequenceNode(tuple(self._native(item, template, origin, level + 1) for item in value), at)
            case None | bool() | int() | float() | str():
                text = _text(value)
                self.characters += len(text)
                return ScalarNode(value, text, at, origin, template.cut_by_comment)
            case _:
                return ScalarNode(str(value), str(value), at, origin, template.cut_by_comment)

    def _made_entry(self, pair: tuple[Any, Any], template: ScalarNode, origin: RenderedOrigin, level: int) -> Entry:
        name = str(pair[0])
        key = ScalarNode(name, name, template.position, FixedOrigin(template.position))
        return Entry(key, self._native(pair[1], template, origin, level + 1))


def _same(made: tuple[Node | Entry, ...], given: tuple[Node | Entry, ...]) -> bool:
    return all(map(is_, made, given))


def _is_template(scalar: ScalarNode) -> bool:
    return isinstance(scalar.value, str) and any(tag in scalar.value for tag in _TAGS)


def _text(value: str | int | float | bool | None) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _traced(rendered: Rendered, template: ScalarNode) -> Any:
    """The value, with the environment variables that it comes from."""
    value, lookups = rendered.value, rendered.lookups
    at = template.position.line_text
    if lookups and isinstance(value, int) and isinstance(lookups[0], Lookup):
        return NumberFromEnvironment(value, lookups[0], at)
    return FromEnvironment(value, lookups, at) if lookups and isinstance(value, str) else value


def _broken(scalar: ScalarNode) -> ScalarNode:
    at: Position = scalar.position
    return ScalarNode(None, scalar.text, at, scalar.origin, scalar.cut_by_comment, broken=True)
