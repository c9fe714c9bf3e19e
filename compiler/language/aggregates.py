"""Splits the values of an `aggregate` step into their aggregates.

`sum(a) / count(*)` has two aggregates. The argument of each is an expression over one record. The rest is an expression
over their results, in which each aggregate is one reference, named by its SQL. Some aggregates are first rewritten with
simpler ones: `count_if(p)` is `count(IF(p, 1, NULL))` (`functions.AggregateFunction.meaning`).
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
from .udfs import Calls

_FORMS = {
    "filter": "Write the condition inside: `sum(if(p, x, null))`, `count_if(p)`.",
    "ignore": "Write `first(x, true)`.",
    "respect": "Leave it out: that is the default.",
    "within": "",
}


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate; without `argument` it is `count(*)`.

    `whole`: the call as an expression over the input's columns, which gives its type and its name. `written`: the call
    as the file has it, before it was rewritten with simpler aggregates.
    """

    function: AggregateFunction
    argument: Expression | None
    options: tuple[Any, ...]
    whole: Expression
    written: WrittenCall

    @property
    def name(self) -> str:
        """Its SQL."""
        return self.whole.sql.text


@dataclass(frozen=True)
class WrittenCall:
    """An aggregate as the user wrote it: its name, the columns it takes, and the whole call.

    Messages show this form.
    """

    word: str
    columns: tuple[Expression, ...]
    whole: Expression

    @property
    def function(self) -> AggregateFunction:
        """The aggregate function."""
        return AGGREGATES[self.word]


@dataclass(frozen=True)
class AggregateValue:
    """A value of the step. `result` refers to `calls` by name (role `aggregate`) and to key columns.

    `written`: the same as the user wrote it; it refers to the calls by the SQL of `AggregateCall.written`. `functions`:
    calls of Python functions in arguments of aggregates.
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
    fine = check(parsed, diagnostics, aggregates=True, udfs=scope.udfs.keys())
    found = _aggregates(parsed)
    if fine and not found:
        message = f"The value '{name.text}' holds no aggregate."
        hint = "Wrap it: `max(...)`, `first(...)`. Key columns are in the result anyway."
        diagnostics.add("HW410", parsed.sql.position(0, len(parsed.sql.text)), message, hint)
    fits = [_check_form(parsed, call, diagnostics) for call in found]
    refs, complete = resolve(parsed, scope, diagnostics)
    if not found or not all(fits):
        return None
    with_functions = _with_functions(parsed, found, refs, scope, diagnostics)
    if with_functions is None:
        return None
    refs = with_functions.refs
    written = [_written(parsed, call, refs) for call in found]
    in_words = _over(parsed, refs, [(call, each.whole.sql.text) for call, each in zip(found, written, strict=True)])
    outside = [ref for ref in in_words.refs if ref.role not in ("key", "aggregate")] if fine else []
    for ref in outside:
        message = f"'{parsed.sql.text[ref.start : ref.end]}' stands outside of an aggregate."
        hint = "Wrap it: `max(...)`, `first(...)`."
        diagnostics.add("HW410", parsed.sql.position(ref.start, ref.end), message, hint)
    simple = _simplified(parsed, scope, diagnostics) if fine and complete and not outside else None
    if simple is None:
        return None
    refs, _ = resolve(simple, scope, diagnostics)
    simpler = _aggregates(simple)
    again = _with_functions(simple, simpler, refs, scope, diagnostics)
    if again is None:
        return None
    refs = again.refs
    taken = tuple(_take(simple, call, refs, each) for call, each in zip(simpler, written, strict=True))
    result = _over(simple, refs, [(call, each.name) for call, each in zip(simpler, taken, strict=True)])
    return AggregateValue(name, taken, result, in_words, with_functions.calls)


def _with_functions(
    parsed: Parsed, aggregates: Sequence[Call], refs: tuple[Ref, ...], scope: Scope, diagnostics: Diagnostics
) -> Expression | None:
    """The whole with its columns and the results of Python functions; None if one is called wrongly, as reported."""
    functions = Calls.of(parsed, refs, scope.udfs, diagnostics)
    for call in functions.found:
        if any(call.start < each.start < _end(parsed, call) for each in aggregates):
            message = f"'{call.name}' is called with the result of an aggregate."
            hint = "Call it in a `with_columns` step behind the `aggregate`; a function makes values before it."
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
    given = arguments(inside)
    after = tokens[close + 1].text.lower() if close + 1 < len(tokens) else ""
    position, message, hint = parsed.sql.position(call.start, call.end), "", None
    further = next((span for span in given[function.columns :] if _literal(span) is None), None)
    if any(call.start < inner.start < tokens[close].start for inner in _aggregates(parsed)):
        message = "An aggregate cannot hold another."
    elif any(_is_star(span) for span in given) and len(given) > 1:
        message = f"'{call.name}(*)' takes nothing beside the star."
    elif inside and inside[0].token_type is TokenType.ALL:
        position = parsed.sql.position(inside[0].start, inside[0].end + 1)
        message, hint = "'ALL' in an aggregate is not supported.", "Leave it out: that is the default."
    elif inside and inside[0].token_type is TokenType.DISTINCT:
        message = "Aggregates of distinct values are not supported."
        hint = "Estimate with `approx_count_distinct(x)`, or make the column part of the key."
    elif after in _FORMS:
        position = parsed.sql.position(tokens[close + 1].start, tokens[close + 1].end + 1)
        message, hint = f"'{after.upper()}' behind an aggregate is not supported.", _FORMS[after] or None
    elif len(given) < function.columns:
        needs = "a column" if function.columns == 1 else f"{function.columns} columns"
        message = f"'{call.name}' needs {needs}."
    elif function.name != "count" and len(given) > function.columns + function.options:
        position = parsed.sql.position(given[-1][0].start, given[-1][-1].end + 1)
        message = f"This is one argument too many for '{call.name}'."
    elif further is not None and function.name != "count":
        position = parsed.sql.position(further[0].start, further[-1].end + 1)
        message = f"'{call.name}' takes no further column, only literals."
    elif function.name == "approx_count_distinct" and not all(map(_is_share, given[1:])):
        position = parsed.sql.position(given[1][0].start, given[1][-1].end + 1)
        message = f"The relative standard deviation of '{call.name}' is a number between 0 and 1."
    if message:
        diagnostics.add("HW409", position, message, hint)
    return not message


def _simplified(parsed: Parsed, scope: Scope, diagnostics: Diagnostics) -> Parsed | None:
    """The same, rewritten with simpler aggregates."""
    sql = parsed.sql
    # From the end, so that a replacement does not move the calls before it.
    for call in reversed(_aggregates(parsed)):
        close = closing(parsed.tokens, call.index + 1)
        inside = parsed.tokens[call.index + 2 : close]
        spans = [sql.text[span[0].start : span[-1].end + 1] for span in arguments(inside)]
        function = AGGREGATES[call.name]
        meaning = function.meaning
        if function.name == "count" and len(spans) > 1:
            known = " AND ".join(f"({span}) IS NOT NULL" for span in spans)
            meaning = f"count(IF({known}, 1, NULL))"
        elif meaning is not None:
            meaning = meaning.format(*spans)
        if meaning is not None:
            sql = sql.replaced(call.start, parsed.tokens[close].end + 1, meaning)
    return parsed if sql is parsed.sql else parse_sql(sql, diagnostics, scope.udfs.keys())


def _over(parsed: Parsed, refs: Sequence[Ref], named: Sequence[tuple[Call, str]]) -> Expression:
    """The expression over columns and over aggregates, which become references with the given names."""
    results = [Ref(call.start, _end(parsed, call), "aggregate", name) for call, name in named]
    outside = [ref for ref in refs if not any(result.start <= ref.start < result.end for result in results)]
    return Expression(parsed.sql, tuple(sorted([*results, *outside])))


def _end(parsed: Parsed, call: Call) -> int:
    """Where the text of a call ends."""
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


def _is_share(span: Sequence[Token]) -> bool:
    literal = _number(span)
    return literal is not None and 0 < literal[0] < 1


def _is_star(inside: Sequence[Token]) -> bool:
    return len(inside) == 1 and inside[0].token_type is TokenType.STAR


def _expression(sql: Sql, span: Sequence[Token], refs: Sequence[Ref]) -> Expression:
    start, end = span[0].start, span[-1].end + 1
    mine = tuple(
        Ref(ref.start - start, ref.end - start, ref.role, ref.name) for ref in refs if start <= ref.start < end
    )
    return Expression(sql[start:end], mine)


def _literal(span: Sequence[Token]) -> tuple[Any] | None:
    """The value of a literal in a tuple, as it may be null; None for anything else."""
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
    """A number in SQL: `-1`, `.05`, `1e-2`, and `10L` and `0.5D`, which sqlglot gives as `10::bigint` and so on."""
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
