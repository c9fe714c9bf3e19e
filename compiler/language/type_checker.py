"""The type checker: finds the types of expressions by its own rules (`typed`), else by Spark's analyzer.

The compiler does not import Spark: its caller passes an `Analyzer`. Verdicts are cached in a file by a hash of the
expression and the columns it reads, so Spark starts only for new expressions without a rule. `parse` passes no
analyzer: an expression without a rule or a cached verdict stays untyped, and only `certain` looks for its mistakes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from ...private_files import write_whole
from ...runtime.dataclass_json import parsed
from ...runtime.expressions.analyzer import Analyzer, Rejection, Request, StartingAnalyzer, Verdict
from ...runtime.expressions.terms import OPAQUE, UntypedError
from ...runtime.expressions.typed import read, type_of
from ...runtime.expressions.types import canonical, ddl
from ...runtime.records.names import UNKNOWN, UNKNOWN_ARRAY, UNKNOWN_NUMBER, column_sql
from ..diagnostics import CODES, Diagnostics, Position
from .certain import certain_mistakes
from .expressions import Expression, Ref, Scope, distinct_names


class UntypedAnalyzer:
    """A stand-in for Spark's analyzer, for plans, which must not start Spark.

    It gives the types that do not depend on what only Spark knows. All other expressions get one of UNKNOWN_TYPES.
    """

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """See `Analyzer`."""
        return [_without_spark(*request) for request in requests]


def _without_spark(text: str, columns: str) -> str:
    from ...runtime.records.types import split_columns  # imports Arrow

    term = read(text, dict(split_columns(columns)))
    if term.type not in (OPAQUE, "void"):
        return term.type
    if isinstance(term.tree, exp.Array):
        return UNKNOWN_ARRAY
    return UNKNOWN_NUMBER if isinstance(term.tree, _NUMBERS) else UNKNOWN


_NUMBERS = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Sum, exp.Avg, exp.Round)


@dataclass(frozen=True)
class LeftToSpark:
    """An expression whose type only Spark knows. `reason`, `instead`: see `UntypedError`. `kept`: its verdict was
    cached already.
    """

    position: Position
    sql: str
    reason: str
    instead: str
    kept: bool


@dataclass(frozen=True)
class _SqlExpression:
    """An expression in Spark SQL, and the canonical types of the columns it reads."""

    text: str
    columns: Mapping[str, str]

    @property
    def request(self) -> Request:
        return self.text, ddl(self.columns)


class VerdictCache:
    """Verdicts in a JSON file, by a hash of the request. An unreadable file counts as empty."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, str | list[dict[str, Any]]] = {}
        self._changed = False
        if path is not None and path.is_file():
            try:
                content = parsed(path.read_text("utf-8"))
            except (OSError, ValueError):
                content = None
            self._known = content if isinstance(content, dict) else {}

    def get(self, request: Request) -> Verdict | None:
        """The cached verdict, or None."""
        match self._known.get(_digest(request)):
            case str(type_):
                return type_
            case [dict() as first, *others]:
                with suppress(TypeError):  # the file was edited by hand
                    rejections = [Rejection(**fields) for fields in (first, *others)]
                    if all(rejection.code in CODES for rejection in rejections):
                        return replace(rejections[0], further=tuple(rejections[1:]))
        return None

    def put(self, request: Request, verdict: Verdict) -> None:
        """Add a verdict."""
        self._known[_digest(request)] = verdict if isinstance(verdict, str) else [*map(_to_json, _rejections(verdict))]
        self._changed = True

    def save(self) -> None:
        """Write the file, if anything is new. If writing fails, the next check analyzes these expressions again."""
        if self._path is None or not self._changed:
            return
        with suppress(OSError):
            write_whole(self._path, json.dumps(self._known, indent=0, sort_keys=True).encode())
        self._changed = False


class TypeChecker:
    """Types expressions, and reports those without a type. `only_spark`: the compiler's own rules are not used."""

    def __init__(
        self, analyzer: Analyzer | None, cache: VerdictCache, diagnostics: Diagnostics, *, only_spark: bool = False
    ) -> None:
        self._analyzer = analyzer
        self._cache = cache
        self._diagnostics = diagnostics
        self._only_spark = only_spark
        self._left: dict[Request, LeftToSpark] = {}

    @property
    def left_to_spark(self) -> tuple[LeftToSpark, ...]:
        """Expressions whose types only Spark knows, without duplicates, in the order of the files."""
        return tuple(sorted(self._left.values(), key=lambda left: left.position))

    def types(self, expressions: Sequence[tuple[Expression, Scope]]) -> list[str | None]:
        """The canonical type of each expression; None if it is unknown or rejected. A rejection is reported."""
        columns = [(expression, scope, _sql_expression(expression, scope)) for expression, scope in expressions]
        types = {sql.request: self._type_by_rule(sql, expression) for expression, _, sql in columns if sql}
        verdicts = self._verdicts([request for request, type_ in types.items() if type_ is None])
        result: list[str | None] = []
        for expression, scope, sql in columns:
            if sql is None:
                result.append(scope.type_of(expression.plain) if expression.plain else None)
            else:
                result.append(types[sql.request] or self._settle(expression, scope, verdicts.get(sql.request)))
        return result

    def _type_by_rule(self, sql: _SqlExpression, expression: Expression) -> str | None:
        """The type, if a rule gives it; otherwise the expression becomes one of `left_to_spark`."""
        if self._only_spark:
            return None
        try:
            return type_of(sql.text, sql.columns)
        except UntypedError as error:
            kept = self._cache.get(sql.request) is not None
            left = LeftToSpark(expression.position, expression.sql.text, error.reason, error.instead, kept)
            self._left.setdefault(sql.request, left)
            return None

    def _verdicts(self, requests: Sequence[Request]) -> Mapping[Request, Verdict]:
        verdicts = {request: verdict for request in requests if (verdict := self._cache.get(request)) is not None}
        missing = [request for request in dict.fromkeys(requests) if request not in verdicts]
        if self._analyzer is not None and missing:
            if isinstance(self._analyzer, StartingAnalyzer):
                self._analyzer.because(self._reason(missing))
            for request, verdict in zip(missing, self._analyzer.analyze(missing), strict=True):
                self._cache.put(request, verdict)
                verdicts[request] = verdict
        return verdicts

    def _reason(self, requests: Sequence[Request]) -> str:
        """Why Spark is needed: the first untyped expression, and the number of further ones."""
        left = sorted(
            (self._left[request] for request in requests if request in self._left),
            key=lambda expression: expression.position,
        )
        if not left:
            return f"the types of {len(requests)} expressions that Spark has not typed yet"
        first = left[0]
        at = f"{first.position.file}:{first.position.line}:{first.position.column}"
        return f"{at}: {first.sql}: {first.reason} (to do without: {first.instead}){more(len(left) - 1)}"

    def _settle(self, expression: Expression, scope: Scope, verdict: Verdict | None) -> str | None:
        """The canonical type of a verdict. A rejection is reported, and so are mistakes seen without a verdict."""
        if verdict is not None and not isinstance(verdict, str):
            for rejection in _rejections(verdict):
                position = _position(expression, scope, rejection.offset, rejection.end)
                self._diagnostics.add(rejection.code, position, rejection.message, rejection.hint)
            return None
        if verdict is None:
            for mistake in certain_mistakes(expression, scope):
                self._diagnostics.add(mistake.code, mistake.position, mistake.message, mistake.hint)
            return None
        try:
            return canonical(verdict)
        except ValueError:
            position = expression.position
            message = f"The expression is of type {verdict}, which no column can have."
            hint = "Cast it, to a string for example."
            if verdict.startswith("interval day"):
                hint = "For milliseconds write `unix_millis(a) - unix_millis(b)`; or cast it, to a string for example."
            self._diagnostics.add("HW411", position, message, hint)
            return None


def more(count: int) -> str:
    """The end of a list of which only the first item is shown: `, and 2 more`."""
    return f", and {count} more" if count else ""


def _rejections(verdict: Rejection) -> tuple[Rejection, ...]:
    return (verdict, *verdict.further)


def _to_json(rejection: Rejection) -> dict[str, Any]:
    return {
        "message": rejection.message,
        "offset": rejection.offset,
        "code": rejection.code,
        "hint": rejection.hint,
        "end": rejection.end,
    }


def _position(expression: Expression, scope: Scope, offset: int | None, end: int | None) -> Position:
    """The position in the file of characters `[offset, end)` of the SQL that Spark analyzed."""
    if offset is None:
        return expression.position
    _, origin = expression.render_with_offsets(lambda ref: _name(ref, scope))
    first = origin[min(offset, len(origin) - 1)]
    if end is None:
        return expression.sql.position(first)
    last = origin[min(end, len(origin)) - 1] + 1
    # A column may be longer in the file than in the analyzed SQL: `value.url`.
    return expression.sql.position(
        first, next((ref.end for ref in expression.refs if ref.start < last < ref.end), last)
    )


def _sql_expression(expression: Expression, scope: Scope) -> _SqlExpression | None:
    """The SQL to be typed; None if the expression is a plain column or the type of a column is unknown."""
    if expression.plain is not None:
        return None
    columns: dict[str, str] = {}
    for ref in expression.refs:
        if ref.role == "meta":
            columns["_ts" if ref.name == "_timestamp" else "_now"] = (
                "bigint" if ref.name == "_timestamp" else "timestamp"
            )
            continue
        type_ = scope.type_of(ref)
        if type_ is None:
            return None
        columns[_own_name(ref, scope)] = type_
    return _SqlExpression(expression.render(lambda ref: _name(ref, scope)), dict(sorted(columns.items())))


def _name(ref: Ref, scope: Scope) -> str:
    if ref.role == "meta":
        return meta_sql(ref)
    return column_sql(_own_name(ref, scope))


def meta_sql(ref: Ref) -> str:
    """The SQL of `_timestamp` and `current_timestamp()` in a job's rows."""
    return "timestamp_millis(_ts)" if ref.name == "_timestamp" else "_now"


def _own_name(ref: Ref, scope: Scope) -> str:
    if ref.role == "key" and ref.name in scope.value:
        return f"key.{ref.name}"
    if ref.role == "aggregate":
        return distinct_names(scope.aggregates)[ref.name]
    return f"{scope.table}.{ref.name}" if ref.role == "table" else ref.name


SPARK = "4.3.0"
"""The version of Spark with these types. Verdicts of another version are not reused."""

_RULES = f"4, Spark {SPARK}"
"""Changes when verdicts change their meaning, which makes cached ones obsolete."""


def _digest(request: Request) -> str:
    return hashlib.sha256("\n".join((_RULES, *request)).encode()).hexdigest()[:32]
