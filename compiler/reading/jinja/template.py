"""Renders the template of one scalar: `{{ expression }}` and `{% if %}` in a text, with a map back to the template.

Jinja's lexer and parser read the template; `expressions` computes the values. A template that is exactly one
expression has that expression's value, with its type. Every other template is a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from ..environment import Lookup, lookup, number, reads_environment
from ..source import Piece
from .expressions import MOST_CHARACTERS, Evaluator, ExpressionError, written

MOST_TEMPLATE_CHARACTERS = 10_000
_AT = re.compile(r" at (\d+)$")


class TemplateError(Exception):
    """An error in a template: a diagnostic's code, message and hint, and the range of offsets."""

    def __init__(self, code: str, message: str, hint: str | None, start: int, end: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.start = start
        self.end = end


@dataclass(frozen=True, slots=True)
class Rendered:
    """The result of a template: its value and, for texts, the pieces that it is made of.

    `lookups`: if it reads the environment, the literal texts and lookups that it is made of.
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
    """The branches in order. The condition of an `else` is None."""

    branches: list[tuple[_Expression | None, list[_Part]]] = field(default_factory=list)


_Part = _Data | _Expression | _If


_COMPUTED = "Nothing can be computed from a value of the environment: it is looked up again when the job runs."
_ALONE = "Write `{{ env_var('NAME') }}`, with `| int` for a number, or take a variable: `var('name')`."


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
        if len(text) > MOST_TEMPLATE_CHARACTERS:
            message = f"A value with Jinja may have {MOST_TEMPLATE_CHARACTERS:,} characters."
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

        Refuses what generated code could not compute.
        """
        found: list[str | Lookup] = []
        for part in parts:
            if isinstance(part, _Expression) and _reads_environment(part):
                read = lookup(part.tree) or (number(part.tree) if len(parts) == 1 else None)
                if read is None:
                    raise _at(part, ExpressionError("HW111", _COMPUTED, _ALONE))
                found.append(read)
            elif isinstance(part, _If):
                if _reads_environment(part):
                    raise TemplateError("HW111", _COMPUTED, _ALONE, 0, 2)
                found.extend(text for _, text in self._rendered([part]))
            else:
                found.append(part.text if isinstance(part, _Data) else written(self._value(part)))
        return tuple(found)

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
            if length > MOST_CHARACTERS:
                message = f"This renders to more than {MOST_CHARACTERS:,} characters."
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
        """The parts of the template.

        Open `if` blocks are on a stack: (the `if`, where it began, the list around it).
        """
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
                raise TemplateError("HW105", message, "Only if, elif, else and endif are there.", start, end)
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
        """The parts of the template in order: `data`, `variable` or `block`; its range; the range inside its braces."""
        at = begin = inside = 0
        try:
            for _, token, value in self._jinja.lex(text):
                # A tag with a minus drops the white space before it. No token has that, so search for the token.
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
            hint = "A literal {{ is written {{ '{{' }}."
            raise TemplateError("HW101", f"This Jinja does not parse: {message}.", hint, start, start + 1) from None


def _first_tag(text: str, at: int) -> int:
    starts = [found for tag in ("{{", "{%", "{#") if (found := text.find(tag, at)) >= 0]
    return min(starts, default=min(at, len(text) - 1))


def _at(expression: _Expression, error: ExpressionError) -> TemplateError:
    return TemplateError(error.code, error.message, error.hint, expression.start, expression.end)
