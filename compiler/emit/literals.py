"""Values as Python source, and names of constants and functions in generated code."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...runtime.ir.functions import Udf
from ...runtime.ir.topology import GlobalTable, Store, Topic
from ..reading.files import DurationFromEnvironment, FromEnvironment, Lookup, NumberFromEnvironment
from ..topology.graph import TopologyGraph

# Python expressions, printed in the layout of `ruff format`.
#
# No formatter runs on generated code. A bracket that fits into 100 columns is printed on one line. Otherwise every item
# is on its own line, with a comma after the last. A test checks that the formatter would change nothing.

WIDTH = 100
"""The width of generated code, in columns."""

INDENT = 4


@dataclass(frozen=True)
class Code:
    """An expression that is never broken into lines, such as a name or a number."""

    text: str


@dataclass(frozen=True)
class Text:
    """A string. If it is too long for a line, it is broken at spaces and line ends."""

    value: str


@dataclass(frozen=True)
class Items:
    """An expression in brackets: a call, a tuple, a list, a dict. An item may have a prefix (`name=`, `"key": `).

    `broken`: every item is on its own line, even if all would fit on one.
    """

    opening: str
    items: tuple[tuple[str, Expression], ...]
    closing: str
    broken: bool = False


@dataclass(frozen=True)
class Commented:
    """An expression with a comment above it, among the items of a `broken` bracket."""

    comment: tuple[str, ...]
    expression: Expression


@dataclass(frozen=True)
class Sum:
    """Terms joined by `+`."""

    terms: tuple[Expression, ...]


Expression = Code | Text | Items | Commented | Sum


def call(function: str, /, *arguments: Expression, **named: Expression) -> Items:
    """A call of `function`."""
    items = [("", argument) for argument in arguments] + [(f"{key}=", value) for key, value in named.items()]
    return Items(f"{function}(", tuple(items), ")")


def one_a_line(items: Items) -> Items:
    """The expression with every item on its own line."""
    return replace(items, broken=True)


def tuple_of(items: Iterable[Expression]) -> Items:
    """A tuple of expressions."""
    return Items("(", tuple(("", item) for item in items), ")")


def dict_of(items: Mapping[str, Expression]) -> Items:
    """A dict with string keys."""
    return Items("{", tuple((f"{quoted(key)}: ", value) for key, value in items.items()), "}")


def literal(value: Any) -> Expression:
    """Plain data as an expression: None, bool, int, float, str, and lists, tuples and mappings of these.

    A value from the environment is written as a lookup of the variable, because the value may be a secret.
    """
    if isinstance(value, FromEnvironment):
        return _looked_up(value)
    if isinstance(value, NumberFromEnvironment):
        return call("whole_number", Code(_lookup(value.lookup, value.at)), at=Code(quoted(value.at)))
    if isinstance(value, DurationFromEnvironment):
        return call("duration", _looked_up(value.text), at=Code(quoted(value.text.at)))
    if isinstance(value, str):
        return Text(value)
    if isinstance(value, Mapping):
        return dict_of({str(key): literal(item) for key, item in value.items()})
    if isinstance(value, tuple):
        return tuple_of(literal(item) for item in value)
    if isinstance(value, Sequence):
        return Items("[", tuple(("", literal(item)) for item in value), "]")
    if isinstance(value, int) and not isinstance(value, bool):
        return Code(f"{value:_}" if abs(value) >= 10_000 else str(value))
    if value is None or isinstance(value, bool | float):
        return Code(repr(value))
    raise TypeError(f"{type(value).__name__} has no literal in generated code")


def _looked_up(value: FromEnvironment) -> Expression:
    terms = tuple(Code(quoted(part) if isinstance(part, str) else _lookup(part, value.at)) for part in value.parts)
    return terms[0] if len(terms) == 1 else Sum(terms)


def _lookup(lookup: Lookup, at: str) -> str:
    default = "" if lookup.default is None else f", {quoted(lookup.default)}"
    return f"env_var({quoted(lookup.name)}{default}, at={quoted(at)})"


def quoted(text: str) -> str:
    """A string literal in double quotes, or in single quotes if the text has more double quotes than single ones."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    escaped = "".join(_escape(character, quote) for character in text)
    return f"{quote}{escaped}{quote}"


def laid_out(expression: Expression, indent: int = 0, before: int = 0, after: int = 0) -> str:
    """The text of an expression in a line indented by `indent`, behind `before` columns of text.

    `after`: the number of columns behind it on the last line (a comma, a bracket). All lines but the first include
    their indent.
    """
    flat = _flat(expression)
    if flat is not None and indent + before + len(flat) + after <= WIDTH:
        return flat
    if isinstance(expression, Code):
        return expression.text
    if isinstance(expression, Text):
        return _broken_text(expression.value, indent)
    if isinstance(expression, Commented):
        comment = "".join(f"{line}\n{' ' * indent}" for line in expression.comment)
        return f"{comment}{laid_out(expression.expression, indent, before, after)}"
    inner = " " * (indent + INDENT)
    if isinstance(expression, Sum):
        if flat is not None and len(inner) + len(flat) <= WIDTH:
            return f"(\n{inner}{flat}\n{' ' * indent})"
        terms = f"\n{inner}+ ".join(laid_out(term, indent + INDENT, 2) for term in expression.terms)
        return f"(\n{inner}{terms}\n{' ' * indent})"
    lines = [
        f"{inner}{prefix}{laid_out(item, indent + INDENT, before=len(prefix), after=1)},\n"
        for prefix, item in expression.items
    ]
    return f"{expression.opening}\n{''.join(lines)}{' ' * indent}{expression.closing}"


def statement(start: str, expression: Expression, indent: int = 0) -> str:
    """`start` (such as `rows = `) and an expression, indented."""
    return f"{' ' * indent}{start}{laid_out(expression, indent, len(start))}"


def _flat(expression: Expression) -> str | None:
    """The text on one line; None if a part must be broken."""
    if isinstance(expression, Code):
        return expression.text
    if isinstance(expression, Text):
        return quoted(expression.value)
    if isinstance(expression, Sum):
        terms = [_flat(term) for term in expression.terms]
        return None if None in terms else " + ".join(term for term in terms if term is not None)
    if isinstance(expression, Commented) or (expression.broken and expression.items):
        return None
    parts = []
    for prefix, item in expression.items:
        flat = _flat(item)
        if flat is None:
            return None
        parts.append(prefix + flat)
    lone = "," if expression.opening == "(" and len(parts) == 1 else ""
    return f"{expression.opening}{', '.join(parts)}{lone}{expression.closing}"


def _broken_text(text: str, indent: int) -> str:
    """The string in pieces, one per line, in parentheses."""
    inner = " " * (indent + INDENT)
    whole = quoted(text)
    if len(inner) + len(whole) <= WIDTH:
        return f"(\n{inner}{whole}\n{' ' * indent})"
    pieces = [piece for line in text.splitlines(keepends=True) for piece in _pieces(line, WIDTH - len(inner))]
    lines = "".join(f"{inner}{quoted(piece)}\n" for piece in pieces)
    return f"(\n{lines}{' ' * indent})"


def _pieces(line: str, width: int) -> Iterable[str]:
    """The line in pieces with literals of at most `width` columns, broken after a comma, or else after a space.

    With a width of 10, `ab, cd ef gh` gives `ab, ` and `cd ef gh`.
    """
    piece: list[str] = []
    for word in re.findall(r"[^ ]* +|[^ ]+", line):
        if piece and len(quoted("".join(piece) + word)) > width:
            end = max((n for n, part in enumerate(piece, 1) if part.endswith(", ")), default=len(piece))
            yield "".join(piece[:end])
            piece = piece[end:]
        piece.append(word)
    if piece:
        yield "".join(piece)


def _escape(character: str, quote: str) -> str:
    if character in (quote, "\\"):
        return f"\\{character}"
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if named:
        return named
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Names of topics, stores, global tables, Python functions and subtopologies in generated code.

Declared = Topic | Store | GlobalTable | Udf

_SUFFIXES: dict[type, str] = {Topic: "_TOPIC", Store: "_STORE", GlobalTable: "_TABLE", Udf: "_FUNCTION"}

_AMBIGUOUS = frozenset({"l", "I", "O"})
"""Names that look like digits. Linters reject them (E741)."""

FUNCTIONS = "FUNCTIONS"
"""The constant with the Python code of a topology's functions."""

_TAKEN = frozenset({"FILE", FUNCTIONS, "TOPOLOGY"}) | _AMBIGUOUS


class Constants:
    """The constants of topics, stores, global tables and Python functions: their names in capitals, made unique.

    Topics are named first, then stores, global tables and functions, in the order of declaration. Names of repartition
    topics omit the application's name.
    """

    def __init__(self, graph: TopologyGraph) -> None:
        self._names: dict[tuple[type, str], str] = {}
        taken = set(_TAKEN)
        prefix = f"{graph.application}-"
        everything: tuple[Declared, ...] = (*graph.topics, *graph.stores, *graph.global_tables, *graph.udfs)
        for declared in everything:
            kind = type(declared)
            if (kind, declared.name) in self._names:
                continue
            plain = declared.name.removeprefix(prefix) if kind is Topic else declared.name
            if isinstance(declared, Topic) and declared.kafka is not None:
                plain = f"{declared.kafka.name}_in_kafka"
            base = _identifier(plain).upper()
            name = _free([base, f"{base}{_SUFFIXES[kind]}"], taken)
            taken.add(name)
            self._names[kind, declared.name] = name

    def __getitem__(self, declared: Declared) -> str:
        return self._names[type(declared), declared.name]


def function_names(wanted: Iterable[str], imported: Iterable[str]) -> list[str]:
    """Names of functions, with a `_` added to a name of a keyword, a built-in or an import."""
    taken = {*keyword.kwlist, *dir(builtins), *imported, *_AMBIGUOUS, "rows"}
    names = []
    for name in wanted:
        base = _identifier(name).lower()
        chosen = _free([base, f"{base}_"], taken)
        taken.add(chosen)
        names.append(chosen)
    return names


def _identifier(name: str) -> str:
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return f"_{plain}" if plain[:1].isdigit() or not plain else plain


def _free(candidates: list[str], taken: set[str]) -> str:
    for candidate in candidates:
        if candidate not in taken:
            return candidate
    number = 2
    while f"{candidates[-1]}{number}" in taken:
        number += 1
    return f"{candidates[-1]}{number}"
