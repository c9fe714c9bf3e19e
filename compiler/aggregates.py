"""The values of an `aggregate` step: expressions over aggregates, taken apart.

`sum(a) / count(*)` is two aggregates, each with its argument as an expression of one record, and an expression over
their results, in which each aggregate stands as one reference named by its SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokens import Token, TokenType

from .diagnostics import Diagnostics
from .expressions import Expression, Ref, Scope, resolve
from .functions import AGGREGATES, AggregateFunction
from .nodes import Scalar
from .sql import Call, Parsed, Sql, calls, check, parse

_OPEN = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSE = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_FORMS = {
    "filter": "Write the condition inside: `sum(if(p, x, null))`, `count_if(p)`.",
    "ignore": "Write `first(x, true)`.",
    "respect": "Leave it out: that is the default.",
    "within": None,
}


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate. `whole`: the call as an expression of the input's columns, for its type and as its name."""

    function: AggregateFunction
    arguments: tuple[Expression, ...]
    options: tuple[Any, ...]
    whole: Expression

    @property
    def name(self) -> str:
        """Its SQL."""
        return self.whole.sql.text


@dataclass(frozen=True)
class AggregateValue:
    """A value of the step. `result` refers to `calls` by name (role `aggregate`) and to key columns."""

    name: Scalar
    calls: tuple[AggregateCall, ...]
    result: Expression


def read_aggregate(name: Scalar, scalar: Scalar, scope: Scope, diagnostics: Diagnostics) -> AggregateValue | None:
    """Take a value of an `aggregate` step apart, or None after its diagnostics."""
    parsed = parse(scalar, diagnostics)
    if parsed is None or not check(parsed, diagnostics, aggregates=True):
        return None
    refs = resolve(parsed, scope, diagnostics)
    if refs is None:
        return None
    found: list[AggregateCall] = []
    results: list[Ref] = []
    end = -1
    for call in calls(parsed):
        if call.name not in AGGREGATES:
            continue
        if call.start < end:
            message = "An aggregate cannot stand inside another."
            diagnostics.add("HW409", parsed.sql.position(call.start, call.end), message)
            return None
        taken = _take(parsed, call, refs, diagnostics)
        if taken is None:
            return None
        aggregate, end = taken
        found.append(aggregate)
        results.append(Ref(call.start, end, "aggregate", aggregate.name))
    outside = [ref for ref in refs if not any(result.start <= ref.start < result.end for result in results)]
    if not found:
        message = f"The value '{name.text}' holds no aggregate."
        hint = "Wrap it: `max(...)`, `first(...)`. Key columns are in the result anyway."
        diagnostics.add("HW410", parsed.sql.position(0, len(parsed.sql.text)), message, hint)
        return None
    for ref in outside:
        if ref.role != "key":
            message = f"'{parsed.sql.text[ref.start : ref.end]}' stands outside of an aggregate."
            diagnostics.add(
                "HW410", parsed.sql.position(ref.start, ref.end), message, "Wrap it: `max(...)`, `first(...)`."
            )
            return None
    return AggregateValue(name, tuple(found), Expression(parsed.sql, tuple(sorted([*results, *outside]))))


def _take(
    parsed: Parsed, call: Call, refs: Sequence[Ref], diagnostics: Diagnostics
) -> tuple[AggregateCall, int] | None:
    """An aggregate and the end of its text."""
    tokens = parsed.tokens
    close = _closing(tokens, call.index + 1)
    function = AGGREGATES[call.name]
    position = parsed.sql.position(call.start, call.end)
    inside = tokens[call.index + 2 : close]
    if inside and inside[0].token_type is TokenType.DISTINCT:
        hint = "Collect and count: `size(collect_set(x))`, or estimate: `approx_count_distinct(x)`."
        diagnostics.add("HW409", position, "Aggregates of distinct values are not supported.", hint)
        return None
    after = tokens[close + 1].text.lower() if close + 1 < len(tokens) else ""
    if after in _FORMS:
        message = f"'{after.upper()}' behind an aggregate is not supported."
        diagnostics.add("HW409", parsed.sql.position(tokens[close + 1].start), message, _FORMS[after])
        return None
    parts = [_expression(parsed.sql, span, refs) for span in _arguments(inside)]
    star = len(inside) == 1 and inside[0].token_type is TokenType.STAR
    arguments = () if star else tuple(parts[: function.columns])
    options: list[Any] = []
    if function.name == "count" and len(parts) > 1:
        arguments = (_all_known(parts),)
    elif not star:
        for span in _arguments(inside)[function.columns :]:
            literal = _literal(span)
            if literal is None:
                where = parsed.sql.position(span[0].start, span[-1].end + 1)
                message = f"'{function.name}' takes no further column, only literals."
                diagnostics.add("HW409", where, message)
                return None
            options.append(literal[0])
    if (star and function.name != "count") or (not star and len(parts) < function.columns):
        diagnostics.add("HW409", position, f"'{call.name}' needs {_columns(function)}.")
        return None
    end = tokens[close].end + 1
    whole = _expression(parsed.sql, tokens[call.index : close + 1], refs)
    return AggregateCall(function, arguments, tuple(options), whole), end


def _columns(function: AggregateFunction) -> str:
    return "a column" if function.columns == 1 else f"{function.columns} columns"


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].token_type in _OPEN) - (tokens[index].token_type in _CLOSE)
        if depth == 0:
            return index
    raise AssertionError("the expression has been parsed, so its parentheses match")


def _arguments(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Tokens between commas that stand in no inner parentheses."""
    spans: list[list[Token]] = [[]] if tokens else []
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
        if token.token_type is TokenType.COMMA and depth == 0:
            spans.append([])
        else:
            spans[-1].append(token)
    return [span for span in spans if span]


def _expression(sql: Sql, span: Sequence[Token], refs: Sequence[Ref]) -> Expression:
    start, end = span[0].start, span[-1].end + 1
    mine = tuple(
        Ref(ref.start - start, ref.end - start, ref.role, ref.name) for ref in refs if start <= ref.start < end
    )
    return Expression(sql[start:end], mine)


def _all_known(parts: Sequence[Expression]) -> Expression:
    """What `count(a, b)` counts: rows in which none of them is null."""
    text = ""
    offsets: tuple[int, ...] = ()
    refs: list[Ref] = []
    for part in parts:
        text += " AND (" if text else "IF(("
        refs += [Ref(ref.start + len(text), ref.end + len(text), ref.role, ref.name) for ref in part.refs]
        offsets = (*offsets, *(part.sql.offsets[:1] * (len(text) - len(offsets))), *part.sql.offsets)
        text += f"{part.sql.text}) IS NOT NULL"
        offsets = (*offsets, *(part.sql.offsets[-1:] * (len(text) - len(offsets))))
    text += ", 1, NULL)"
    offsets = (*offsets, *(offsets[-1:] * (len(text) - len(offsets))))
    return Expression(Sql(parts[0].sql.scalar, text, offsets), tuple(refs))


def _literal(span: Sequence[Token]) -> tuple[Any] | None:
    if len(span) != 1:
        return None
    match span[0].token_type:
        case TokenType.TRUE:
            return (True,)
        case TokenType.FALSE:
            return (False,)
        case TokenType.STRING:
            return (span[0].text,)
        case TokenType.NUMBER:
            return (float(span[0].text) if "." in span[0].text else int(span[0].text),)
    return None
