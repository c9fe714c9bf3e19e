"""Expressions of a project, checked against the columns that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from zlib import crc32

from sqlglot import exp
from sqlglot.tokens import TokenType

from ...runtime.ir.functions import Udf
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..reading.source import ScalarNode
from .sql import SHIFT, Parsed, Sql

# Expressions with resolved columns.
#
# A reference names a column by its role and its own name. The physical name depends on the other columns of the same
# row (see `compiler.topology`). `Expression.render` inserts the physical names once they are known.

Types = Mapping[str, str | None]
OtherSide = Literal["table", "stream"]
"""The right side of a join."""

Role = Literal["key", "value", "table", "meta", "aggregate"]

_RECORD_FORM = frozenset({"_key", "_offset", "_partition", "_headers"})


@dataclass(frozen=True, order=True)
class Ref:
    """A column that an expression reads, at `text[start:end]`.

    Roles: `key`, `value`: a column of the flow; `table`: of the joined table or stream; `meta`: `_timestamp` or `_now`;
    `aggregate`: the result of an aggregate, named by its SQL.
    """

    start: int
    end: int
    role: Role
    name: str


@dataclass(frozen=True)
class Scope:
    """The columns that an expression may read. A type is None if it is unknown.

    `open`: some columns are unknown because of an earlier error, so an unknown name is not reported. `joins`: the kind
    of `table`. A joined stream is also called `other`, and the flow `this`. `udfs`: the Python functions that the
    expression may call, by their names in lower case; None for a declaration with a reported error. `unseen`: the table
    whose row the expression selects, so its columns are not available.
    """

    key: Types
    value: Types
    table: str | None = None
    table_key: Types = field(default_factory=dict)
    table_value: Types = field(default_factory=dict)
    aggregates: Types = field(default_factory=dict)
    open: bool = False
    joins: OtherSide = "table"
    udfs: Mapping[str, Udf | None] = field(default_factory=dict)
    unseen: str | None = None

    def type_of(self, ref: Ref) -> str | None:
        """The type of a column."""
        if ref.role == "meta":
            return "timestamp"
        return {"key": self.key, "value": self.value, "table": self.table_value, "aggregate": self.aggregates}[
            ref.role
        ].get(ref.name)


@dataclass(frozen=True)
class Expression:
    """SQL with its references, in the order of the text.

    `type`: canonical; None before the type is known. `calls`: the Python functions it calls, without calls in their
    arguments. The result of a call is a reference to a value column. `named`: the name of the column that the
    expression becomes, if it is not the SQL.
    """

    sql: Sql
    refs: tuple[Ref, ...]
    type: str | None = None
    calls: tuple[FunctionCall, ...] = ()
    named: str = ""

    @property
    def plain(self) -> Ref | None:
        """The column, if the expression is just a column; otherwise None."""
        if len(self.refs) == 1 and (self.refs[0].start, self.refs[0].end) == (0, len(self.sql.text)):
            return self.refs[0]
        return None

    @property
    def position(self) -> Position:
        """The position of the whole expression in the file."""
        return self.sql.position(0, len(self.sql.text))

    @property
    def as_column(self) -> Ref:
        """The column from which an operator reads the value: the plain column, or the column of a projection."""
        plain = self.plain
        if plain is not None and plain.role in ("key", "value"):
            return plain
        return Ref(0, len(self.sql.text), "value", self.named or self.sql.text)

    def render(self, name_of: Callable[[Ref], str]) -> str:
        """The SQL with each reference replaced by `name_of(reference)`."""
        return self.render_with_offsets(name_of)[0]

    def render_with_offsets(self, name_of: Callable[[Ref], str]) -> tuple[str, list[int]]:
        """The rendered SQL, and for each of its characters the index in `sql.text` it comes from.

        `a + b` with `b` rendered as `xy` gives `a + xy` and `[0, 1, 2, 3, 4, 4]`.
        """
        parts: list[str] = []
        origin: list[int] = []
        last = 0
        for ref in self.refs:
            name = name_of(ref)
            parts += [self.sql.text[last : ref.start], name]
            origin += [*range(last, ref.start), *(min(ref.start + at, ref.end - 1) for at in range(len(name)))]
            last = ref.end
        parts.append(self.sql.text[last:])
        origin += range(last, len(self.sql.text))
        return "".join(parts), origin

    @property
    def reads(self) -> Iterator[Ref]:
        """The references, also those in arguments of Python functions."""
        yield from self.refs
        for call in self.calls:
            for argument in call.arguments:
                yield from argument.reads

    def referring(self, instead: Callable[[Ref], Ref]) -> Expression:
        """The expression with each reference replaced, also in arguments of Python functions."""
        calls = (
            replace(call, arguments=tuple(argument.referring(instead) for argument in call.arguments))
            for call in self.calls
        )
        return replace(self, refs=tuple(map(instead, self.refs)), calls=tuple(calls))

    def typed(self, type_: str | None) -> Expression:
        """The expression with this type."""
        return replace(self, type=type_)


@dataclass(frozen=True)
class FunctionCall:
    """A call of a Python function in an expression. `column`: the value column of its result, named by its SQL."""

    udf: Udf
    arguments: tuple[Expression, ...]
    column: str

    @property
    def every(self) -> Iterator[FunctionCall]:
        """The call and those in its arguments, inner ones first."""
        for argument in self.arguments:
            for call in argument.calls:
                yield from call.every
        yield self


def column(scalar: ScalarNode, role: Role, name: str, type_: str | None) -> Expression:
    """An expression of one column, made by the compiler. Its position is that of `scalar`."""
    sql = Sql(scalar, name, (0,) * len(name))
    return Expression(sql, (Ref(0, len(name), role, name),), type_)


def resolve(parsed: Parsed, scope: Scope, diagnostics: Diagnostics) -> tuple[tuple[Ref, ...], bool]:
    """The columns that an expression reads, and whether all were found. Unknown and ambiguous ones are reported."""
    refs: list[Ref] = list(_clock(parsed))
    complete = True
    for node in parsed.tree.find_all(exp.Column):
        identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
        if identifiers and isinstance(node.this, exp.Identifier):
            ref = _Name(parsed.sql, identifiers, scope, diagnostics).resolve()
            if ref is None:
                complete = False
            else:
                refs.append(ref)
    return tuple(sorted(refs)), complete


def _clock(parsed: Parsed) -> list[Ref]:
    """References to `current_timestamp` and `current_timestamp()`, the planned time of the epoch."""
    refs = []
    tokens = parsed.tokens
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.CURRENT_TIMESTAMP:
            called = [other.token_type for other in tokens[index + 1 : index + 3]]
            end = tokens[index + 2].end if called == [TokenType.L_PAREN, TokenType.R_PAREN] else token.end
            refs.append(Ref(token.start, end + 1, "meta", "_now"))
    return refs


@dataclass(frozen=True)
class _Name:
    """A name in an expression, as its parts between dots, and the scope of its column."""

    sql: Sql
    parts: Sequence[exp.Identifier]
    scope: Scope
    diagnostics: Diagnostics

    @property
    def names(self) -> list[str]:
        return [str(part.this) for part in self.parts]

    def resolve(self) -> Ref | None:
        """The column; None if no column has the name, which is reported."""
        role, columns = self._side()
        if role is None:
            return self._plain()
        name = _lookup(self.names[1], columns)
        if name is not None:
            return self._ref(role, name, used=2)
        if _lookup(self.names[0], {**self.scope.key, **self.scope.value}) is not None:  # a field of that column
            return self._plain()
        if not self.scope.open:
            self._report_missing(role, columns)
        return None

    def _side(self) -> tuple[Role | None, Types]:
        """The side that the first part names, such as `key`, and its columns; None if it names no side."""
        head, scope = self.names[0], self.scope
        if len(self.parts) > 1 and not self.parts[0].args.get("quoted"):
            if head == scope.table or (scope.joins == "stream" and head == "other"):
                return "table", scope.table_value
            if scope.joins == "stream" and head == "this":
                in_value = _lookup(self.names[1], scope.value) is not None
                return ("value", scope.value) if in_value else ("key", scope.key)
            if head == "key":
                return "key", scope.key
            if head == "value":
                return "value", scope.value
        return None, {}

    def _plain(self) -> Ref | None:
        """The column that the first part names."""
        head, scope = self.names[0], self.scope
        if head == "_timestamp" and len(self.parts) == 1:
            return self._ref("meta", "_timestamp")
        sides: tuple[tuple[Role, Types], ...] = (
            ("key", scope.key),
            ("value", scope.value),
            ("table", scope.table_value),
        )
        matches = {role: name for role, columns in sides if (name := _lookup(head, columns)) is not None}
        if "key" in matches and "value" in matches:
            message = f"The column '{head}' is in the key and in the value."
            self._report("HW404", message, f"Write key.{head} or value.{head}.")
        elif "table" in matches and len(matches) > 1:
            message = f"The column '{head}' is in the flow and in the {scope.joins} '{scope.table}'."
            mine, theirs = ("this", "other") if scope.joins == "stream" else (next(iter(matches)), scope.table)
            self._report("HW404", message, f"Write {mine}.{head} or {theirs}.{head}.")
        elif matches:
            return self._ref(*next(iter(matches.items())))
        elif not scope.open:
            self._report("HW403", *_unknown(self.names, scope))
        return None

    def _report_missing(self, role: Role, columns: Types) -> None:
        """Report that the side of the first part has no column with the name of the second part."""
        head, name = self.names[:2]
        if role == "table" and _lookup(name, self.scope.table_key) is not None:
            message = f"'{head}.{name}' is a key column of the {self.scope.joins}."
            why = "the lookup compares it" if self.scope.joins == "table" else "both keys are equal"
            self._report("HW403", message, f"Use the flow's own column: {why}.", 1)
            return
        if role == "table" and name == "_timestamp":
            message = f"A join adds only columns of the {self.scope.joins} '{head}', not its `_timestamp`."
            self._report("HW403", message, "Copy it into a column before, with `with_columns`.", 1)
            return
        side = f"the {self.scope.joins} '{head}'" if role == "table" else f"the {head}"
        self._report("HW403", f"There is no column '{name}' in {side}.", did_you_mean(name, columns), 1)

    def _ref(self, role: Role, name: str, used: int = 1) -> Ref:
        return Ref(*self._span(0, used - 1), role, name)

    def _report(self, code: str, message: str, hint: str | None, part: int = 0) -> None:
        self.diagnostics.add(code, self.sql.position(*self._span(part, part)), message, hint)

    def _span(self, first: int, last: int) -> tuple[int, int]:
        return int(self.parts[first].meta["start"]) - SHIFT, int(self.parts[last].meta["end"]) + 1 - SHIFT


def _unknown(names: Sequence[str], scope: Scope) -> tuple[str, str]:
    """The message and hint for an unknown column."""
    head = names[0]
    if head in _RECORD_FORM:
        message = f"'{head}' is part of the record form, not a column of the flow."
        return message, "The only field of the record form in expressions is `_timestamp`."
    if len(names) == 1 and head in ("key", "value", scope.table):
        return f"'{head}' is not a column.", f"Write one of its columns: {head}.<column>."
    if head in ("None", "nil", "undefined") and len(names) == 1:
        return f"There is no column '{head}'.", "Write `null`, and `is null` or `is not null` to compare with it."
    if len(names) == 2 and head == scope.unseen:
        message = f"`by` selects the row of '{head}', so it cannot use columns of '{head}'."
        return message, f"Write an expression over the flow's columns: {', '.join([*scope.key, *scope.value])}."
    columns = [*scope.key, *scope.value, *scope.table_value, "_timestamp"]
    hint = did_you_mean(head, columns)
    if hint is None:
        hint = f"The columns are {', '.join(columns[:-1])}." if len(columns) > 1 else "The flow has no columns."
    return f"There is no column '{head}'.", hint


def _lookup(name: str, columns: Types) -> str | None:
    """The declared spelling of a column. Spark SQL ignores upper and lower case."""
    if name in columns:
        return name
    folded = name.casefold()
    return next((column for column in columns if column.casefold() == folded), None)


# Columns named by their SQL. To Spark SQL, names that differ only in upper and lower case are the same.


def column_name(sql: str) -> str:
    """The name of a column with this SQL, unique among all columns."""
    return sql if sql == sql.lower() else _marked(sql)


def distinct_names(texts: Iterable[str]) -> dict[str, str]:
    """Names of columns by their SQL: the SQL itself, or a marked name if an earlier one differs only in case.

    So `sum(if(x = 'A', 1, 0))` behind `sum(if(x = 'a', 1, 0))` gets a marked name. All others keep the names of earlier
    versions.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(texts):
        names[text] = _marked(text) if text.lower() in taken else text
        taken.add(text.lower())
    return names


def _marked(sql: str) -> str:
    return f"{sql} #{crc32(sql.encode()):08x}"
