"""The types of expressions that call Python functions, and whether arguments fit those that are declared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...diagnostics import Diagnostics
from ..column_names import column_name
from ..expressions import Expression, FunctionCall, Ref, Scope
from ..judge import Judge
from ..proven.numbers import is_number, widest
from ..proven.terms import UnprovenTypeError
from ..sql import Sql


def judged(
    expressions: Sequence[Expression], scope: Scope, judge: Judge, diagnostics: Diagnostics
) -> list[Expression | None]:
    """The expressions with their types, and with arguments of the types that functions take.

    None for each one with an argument that does not fit, which is reported.
    """
    known = with_results(scope, (call for each in expressions for call in each.calls))
    types = iter(judge.types([(part, known) for each in expressions for part in _parts(each)]))
    return [_fitted(_typed(each, types), diagnostics) for each in expressions]


def judged_calls(
    calls: Sequence[FunctionCall], scope: Scope, judge: Judge, diagnostics: Diagnostics
) -> list[FunctionCall] | None:
    """The calls with arguments of the types that functions take; None if one does not fit, which is reported."""
    arguments = [argument for call in calls for argument in call.arguments]
    types = iter(judge.types([(part, with_results(scope, calls)) for each in arguments for part in _parts(each)]))
    found = [_fitted_call(_typed_call(call, types), diagnostics) for call in calls]
    fitting = [call for call in found if call is not None]
    return fitting if len(fitting) == len(found) else None


def with_results(scope: Scope, calls: Iterable[FunctionCall]) -> Scope:
    """The scope with the columns of the results of calls, and of those in their arguments."""
    results = {each.column: each.udf.returns for call in calls for each in call.every}
    return replace(scope, value={**scope.value, **results}) if results else scope


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression, and all arguments of its calls."""
    yield expression
    for call in expression.calls:
        for argument in call.arguments:
            yield from _parts(argument)


def _typed(expression: Expression, types: Iterator[str | None]) -> Expression:
    """The expression with its type and those of arguments, in the order of `_parts`."""
    typed = expression.typed(next(types))
    return replace(typed, calls=tuple(_typed_call(call, types) for call in typed.calls))


def _typed_call(call: FunctionCall, types: Iterator[str | None]) -> FunctionCall:
    return replace(call, arguments=tuple(_typed(each, types) for each in call.arguments))


def _fitted(expression: Expression, diagnostics: Diagnostics) -> Expression | None:
    calls = [_fitted_call(call, diagnostics) for call in expression.calls]
    found = tuple(call for call in calls if call is not None)
    return replace(expression, calls=found) if len(found) == len(calls) else None


def _fitted_call(call: FunctionCall, diagnostics: Diagnostics) -> FunctionCall | None:
    arguments = []
    for (name, declared), argument in zip(call.udf.arguments.items(), call.arguments, strict=True):
        fitted = _fitted(argument, diagnostics)
        if fitted is None:
            return None
        if argument.type is not None and not _widens(argument.type, declared):
            message = f"'{call.udf.name}' takes {name} of type {declared}; this is of type {argument.type}."
            hint = f"Cast it: `cast(... as {declared})`. It is {call.udf.signature}."
            diagnostics.add("HW423", argument.position, message, hint)
            return None
        given = fitted if argument.type in (None, declared) else _cast(fitted, declared)
        arguments.append(replace(given, named=column_name(given.sql.text)))
    return replace(call, arguments=tuple(arguments))


def _widens(given: str, declared: str) -> bool:
    """Whether Spark SQL makes a value one of the declared type by itself, beside one of that type: of numbers alone."""
    if given == declared:
        return True
    try:
        return is_number(given) and is_number(declared) and widest((given, declared)) == declared
    except UnprovenTypeError:
        return False


def _cast(expression: Expression, type_: str) -> Expression:
    """The expression as a wider type. What is put around it has the place of its ends."""
    sql = expression.sql
    before, behind = "cast(", f" as {type_})"
    offsets = (*sql.offsets[:1] * len(before), *sql.offsets, *sql.offsets[-1:] * len(behind))
    refs = tuple(Ref(ref.start + len(before), ref.end + len(before), ref.role, ref.name) for ref in expression.refs)
    whole = Sql(sql.scalar, f"{before}{sql.text}{behind}", offsets)
    return Expression(whole, refs, type_, expression.calls)
