"""Splits the values of an `aggregate` step into their aggregates.

`sum(a) / count(*)` has two aggregates. The argument of an aggregate is an expression over one record. The rest is an
expression over their results, in which an aggregate is a reference, named by its SQL. Some aggregates are first
rewritten with simpler ones: `count_if(p)` as `count(IF(p, 1, NULL))` (`functions.AggregateFunction.meaning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokens import Token, TokenType

from ..diagnostics import Diagnostics
from ..reading.source import ScalarNode
from .determinism import check, is_of_one_row
from .expressions import Expression, FunctionCall, Ref, Scope, resolve
from .functions import AGGREGATES, AggregateFunction
from .sql import Call, Parsed, Sql, arguments, calls, closing, parse, parse_sql
from .udfs import FunctionCalls

_FORMS = {
    "filter": "Write the condition inside: `sum(if(p, x, null))`, `count_if(p)`.",
    "ignore": "Write `first(x, true)`.",
    "respect": "Remove it: it is the default.",
    "within": "",
}


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate; `argument` is None for `count(*)`.

    `whole`: the call as an expression over the input's columns, for its type and its name. `written`: the call as in
    the file, before it was rewritten with simpler aggregates.
    """

    function: AggregateFunction
    argument: Expression | None
    options: tuple[Any, ...]
    whole: Expression
    written: WrittenCall

    @property
    def name(self) -> str:
        """The SQL of the call."""
        return self.whole.sql.text


@dataclass(frozen=True)
class WrittenCall:
    """An aggregate as the user wrote it, for messages: its name, its column arguments, and the whole call."""

    word: str
    columns: tuple[Expression, ...]
    whole: Expression

    @property
    def function(self) -> AggregateFunction:
        """The aggregate function with this name."""
        return AGGREGATES[self.word]


@dataclass(frozen=True)
class AggregateValue:
    """A value of the step.

    `result`: an expression over `calls`, by name (role `aggregate`), and over key columns. `written`: the same as the
    user wrote it, with the SQL of `AggregateCall.written` as names. `functions`: calls of Python functions in arguments
    of aggregates.
    """

    name: ScalarNode
    calls: tuple[AggregateCall, ...]
    result: Expression
    written: Expression
    functions: tuple[FunctionCall, ...] = ()


def read_aggregate(
    name: ScalarNode, scalar: ScalarNode, scope: Scope, diagnostics: Diagnostics
) -> AggregateValue | None:
    """Read a value of an `aggregate` step; None, with diagnostics, if it is wrong."""
    parsed = parse(scalar, diagnostics, scope.udfs.keys())
    if parsed is None or not is_of_one_row(parsed, diagnostics):
        return None
    allowed = check(parsed, diagnostics, aggregates=True, udfs=scope.udfs.keys())
    aggregates = _aggregates(parsed)
    if allowed and not aggregates:
        message = f"The value '{name.text}' has no aggregate."
        hint = "Wrap it: `max(...)`, `first(...)`. Key columns are in the result anyway."
        diagnostics.add("HW410", parsed.sql.position(0, len(parsed.sql.text)), message, hint)
    supported = [_check_form(parsed, call, diagnostics) for call in aggregates]
    refs, complete = resolve(parsed, scope, diagnostics)
    if not aggregates or not all(supported):
        return None
    with_functions = _with_functions(parsed, aggregates, refs, scope, diagnostics)
    if with_functions is None:
        return None
    refs = with_functions.refs
    written = [_written(parsed, call, refs) for call in aggregates]
    names = [call.whole.sql.text for call in written]
    as_written = _over(parsed, refs, list(zip(aggregates, names, strict=True)))
    stray = [ref for ref in as_written.refs if ref.role not in ("key", "aggregate")] if allowed else []
    for ref in stray:
        message = f"'{parsed.sql.text[ref.start : ref.end]}' is outside of an aggregate."
        hint = "Wrap it: `max(...)`, `first(...)`."
        diagnostics.add("HW410", parsed.sql.position(ref.start, ref.end), message, hint)
    simple = _simplified(parsed, scope, diagnostics) if allowed and complete and not stray else None
    if simple is None:
        return None
    refs, _ = resolve(simple, scope, diagnostics)
    simple_aggregates = _aggregates(simple)
    simple_functions = _with_functions(simple, simple_aggregates, refs, scope, diagnostics)
    if simple_functions is None:
        return None
    refs = simple_functions.refs
    aggregate_calls = tuple(
        _take(simple, call, refs, original) for call, original in zip(simple_aggregates, written, strict=True)
    )
    names = [call.name for call in aggregate_calls]
    result = _over(simple, refs, list(zip(simple_aggregates, names, strict=True)))
    return AggregateValue(name, aggregate_calls, result, as_written, with_functions.calls)


def _with_functions(
    parsed: Parsed, aggregates: Sequence[Call], refs: tuple[Ref, ...], scope: Scope, diagnostics: Diagnostics
) -> Expression | None:
    """The whole expression, with calls of Python functions. A wrong call is reported, and the result is None."""
    functions = FunctionCalls.read(parsed, refs, scope.udfs, diagnostics)
    for call in functions.calls:
        if any(call.start < aggregate.start < _end(parsed, call) for aggregate in aggregates):
            message = f"'{call.name}' is called with the result of an aggregate."
            hint = "Call it in a `with_columns` step behind the `aggregate`: functions are called before it."
            diagnostics.add("HW422", parsed.sql.position(call.start, call.end), message, hint)
            return None
    return functions.expression(0, len(parsed.sql.text))


def _aggregates(parsed: Parsed) -> list[Call]:
    return [call for call in calls(parsed) if call.name in AGGREGATES]


def _check_form(parsed: Parsed, call: Call, diagnostics: Diagnostics) -> bool:
    """Whether a call has a supported form; otherwise reports why not."""
    tokens = parsed.tokens
    close = closing(tokens, call.index + 1)
    function = AGGREGATES[call.name]
    inside = tokens[call.index + 2 : close]
    spans = arguments(inside)
    after = tokens[close + 1].text.lower() if close + 1 < len(tokens) else ""
    position, message, hint = parsed.sql.position(call.start, call.end), "", None
    extra_column = next((span for span in spans[function.columns :] if _literal(span) is None), None)
    if any(call.start < inner.start < tokens[close].start for inner in _aggregates(parsed)):
        message = "An aggregate cannot contain another one."
    elif any(_is_star(span) for span in spans) and len(spans) > 1:
        message = f"'{call.name}(*)' takes no argument beside the star."
    elif inside and inside[0].token_type is TokenType.ALL:
        position = parsed.sql.position(inside[0].start, inside[0].end + 1)
        message, hint = "'ALL' in an aggregate is not supported.", "Remove it: it is the default."
    elif inside and inside[0].token_type is TokenType.DISTINCT:
        message = "Aggregates of distinct values are not supported."
        hint = "Estimate with `approx_count_distinct(x)`, or make the column part of the key."
    elif after in _FORMS:
        position = parsed.sql.position(tokens[close + 1].start, tokens[close + 1].end + 1)
        message, hint = f"'{after.upper()}' behind an aggregate is not supported.", _FORMS[after] or None
    elif len(spans) < function.columns:
        needs = "a column" if function.columns == 1 else f"{function.columns} columns"
        message = f"'{call.name}' needs {needs}."
    elif function.name != "count" and len(spans) > function.columns + function.options:
        position = parsed.sql.position(spans[-1][0].start, spans[-1][-1].end + 1)
        message = f"'{call.name}' has too many arguments: it takes at most {function.columns + function.options}."
    elif extra_column is not None and function.name != "count":
        position = parsed.sql.position(extra_column[0].start, extra_column[-1].end + 1)
        message = f"'{call.name}' takes no further columns, only literals."
    elif function.name == "approx_count_distinct" and not all(map(_is_fraction, spans[1:])):
        position = parsed.sql.position(spans[1][0].start, spans[1][-1].end + 1)
        message = f"The relative standard deviation of '{call.name}' is a number between 0 and 1."
    if message:
        diagnostics.add("HW409", position, message, hint)
    return not message


def _simplified(parsed: Parsed, scope: Scope, diagnostics: Diagnostics) -> Parsed | None:
    """The expression, rewritten with simpler aggregates."""
    sql = parsed.sql
    # From the end, because a replacement moves the calls behind it.
    for call in reversed(_aggregates(parsed)):
        close = closing(parsed.tokens, call.index + 1)
        inside = parsed.tokens[call.index + 2 : close]
        spans = [sql.text[span[0].start : span[-1].end + 1] for span in arguments(inside)]
        function = AGGREGATES[call.name]
        meaning = function.meaning
        if function.name == "count" and len(spans) > 1:
            not_null = " AND ".join(f"({span}) IS NOT NULL" for span in spans)
            meaning = f"count(IF({not_null}, 1, NULL))"
        elif meaning is not None:
            meaning = meaning.format(*spans)
        if meaning is not None:
            sql = sql.replaced(call.start, parsed.tokens[close].end + 1, meaning)
    return parsed if sql is parsed.sql else parse_sql(sql, diagnostics, scope.udfs.keys())


def _over(parsed: Parsed, refs: Sequence[Ref], named: Sequence[tuple[Call, str]]) -> Expression:
    """The expression over columns and over aggregates, as references with the given names."""
    results = [Ref(call.start, _end(parsed, call), "aggregate", name) for call, name in named]
    outside = [ref for ref in refs if not any(result.start <= ref.start < result.end for result in results)]
    return Expression(parsed.sql, tuple(sorted([*results, *outside])))


def _end(parsed: Parsed, call: Call) -> int:
    """The end of a call in the text, exclusive."""
    return int(parsed.tokens[closing(parsed.tokens, call.index + 1)].end) + 1


def _written(parsed: Parsed, call: Call, refs: Sequence[Ref]) -> WrittenCall:
    tokens = parsed.tokens
    close = closing(tokens, call.index + 1)
    inside = tokens[call.index + 2 : close]
    function = AGGREGATES[call.name]
    spans = [] if _is_star(inside) else arguments(inside)
    taken = spans if function.name == "count" else spans[: function.columns]
    whole = _expression(parsed.sql, tokens[call.index : close + 1], refs)
    return WrittenCall(call.name, tuple(_expression(parsed.sql, span, refs) for span in taken), whole)


def _take(parsed: Parsed, call: Call, refs: Sequence[Ref], written: WrittenCall) -> AggregateCall:
    tokens = parsed.tokens
    close = closing(tokens, call.index + 1)
    inside = tokens[call.index + 2 : close]
    spans = [] if _is_star(inside) else arguments(inside)
    argument = _expression(parsed.sql, spans[0], refs) if spans else None
    options = tuple(literal[0] for span in spans[1:] if (literal := _literal(span)) is not None)
    whole = _expression(parsed.sql, tokens[call.index : close + 1], refs)
    return AggregateCall(AGGREGATES[call.name], argument, options, whole, written)


def _is_fraction(span: Sequence[Token]) -> bool:
    literal = _number(span)
    return literal is not None and 0 < literal[0] < 1


def _is_star(inside: Sequence[Token]) -> bool:
    return len(inside) == 1 and inside[0].token_type is TokenType.STAR


def _expression(sql: Sql, span: Sequence[Token], refs: Sequence[Ref]) -> Expression:
    start, end = span[0].start, span[-1].end + 1
    moved = tuple(
        Ref(ref.start - start, ref.end - start, ref.role, ref.name) for ref in refs if start <= ref.start < end
    )
    return Expression(sql[start:end], moved)


def _literal(span: Sequence[Token]) -> tuple[Any] | None:
    """The value of a literal, in a tuple because it may be False; None for anything else."""
    if len(span) == 1:
        match span[0].token_type:
            case TokenType.TRUE:
                return (True,)
            case TokenType.FALSE:
                return (False,)
            case TokenType.STRING:
                return (span[0].text,)
    return _number(span)


def _number(span: Sequence[Token]) -> tuple[int | float] | None:
    """The value of a number: `-1`, `.05`, `1e-2`, and `10L` and `0.5D`, which sqlglot reads as `10::bigint` etc."""
    kinds = [token.token_type for token in span]
    if TokenType.DCOLON in kinds:
        span = span[: kinds.index(TokenType.DCOLON)]
    if not {token.token_type for token in span} <= {TokenType.DASH, TokenType.DOT, TokenType.NUMBER}:
        return None
    text = "".join(token.text for token in span)
    for kind in (int, float):
        try:
            return (kind(text),)
        except ValueError:
            continue
    return None
