"""The types of expressions: those that are proven to be Spark's, and of others what Spark's own analyzer says.

The compiler does not import Spark: its caller passes an `Analyzer`. Verdicts are cached in a file by a hash of the
expression and the columns it reads, so that Spark starts only for new expressions of which `proven` has no type.
Without an analyzer (`parse`) an expression that is not in the file either has no type, and nothing that needs its type
is checked but what `unjudged` finds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ...runtime.dataclass_json import parsed
from ...runtime.records.names import column_sql
from ..diagnostics import CODES, Diagnostics, Position
from ..types import canonical, ddl
from ..whole_files import write_whole
from .expressions import Expression, Ref, Scope, told_apart
from .proven import type_of
from .proven_types import UnprovenTypeError
from .unjudged import certain_mistakes

Request = tuple[str, str]
"""An expression in Spark SQL, and the columns that it reads as Spark SQL DDL."""


class Refused(Protocol):
    """Why an analyzer refuses an expression. `offset`, `end`: the characters concerned; None if unknown.

    `code`: of the diagnostic. `hint`: the way out, if one is known. `further`: the expression's other mistakes.
    """

    @property
    def message(self) -> str: ...  # noqa: D102
    @property
    def offset(self) -> int | None: ...  # noqa: D102
    @property
    def code(self) -> str: ...  # noqa: D102
    @property
    def hint(self) -> str | None: ...  # noqa: D102
    @property
    def end(self) -> int | None: ...  # noqa: D102
    @property
    def further(self) -> Sequence[Refused]: ...  # noqa: D102


@dataclass(frozen=True)
class Refusal:
    """A Refused as the cache keeps it."""

    message: str
    offset: int | None = None
    code: str = "HW411"
    hint: str | None = None
    end: int | None = None
    further: tuple[Refusal, ...] = ()


Verdict = str | Refused
"""The type of an expression as Spark SQL DDL, or why it has none."""


class Analyzer(Protocol):
    """Checks expressions: Spark's analyzer, or a stand-in with the same answers."""

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """A verdict for each request, in order. An expression may contain aggregates."""


@runtime_checkable
class StartingAnalyzer(Analyzer, Protocol):
    """An analyzer that takes long to start, and tells people why it does."""

    def because(self, reason: str) -> None:
        """Say what the next request needs it for."""


@dataclass(frozen=True)
class LeftToSpark:
    """An expression whose type only Spark knows. `reason`: what of it. `kept`: its verdict was there already."""

    position: Position
    sql: str
    reason: str
    kept: bool


@dataclass(frozen=True)
class _Question:
    """An expression in Spark SQL, and the canonical types of the columns that it reads."""

    sql: str
    columns: Mapping[str, str]

    @property
    def request(self) -> Request:
        return self.sql, ddl(self.columns)


class VerdictCache:
    """Verdicts in a JSON file, by a hash of the request. A file that cannot be read counts as empty."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, str | list[dict[str, Any]]] = {}
        self._changed = False
        if path is not None and path.is_file():
            try:
                known = parsed(path.read_text("utf-8"))
            except (OSError, ValueError):
                known = None
            self._known = known if isinstance(known, dict) else {}

    def get(self, request: Request) -> Verdict | None:
        """The verdict, if it is known."""
        match self._known.get(_digest(request)):
            case str(type_):
                return type_
            case [dict() as first, *others]:
                with suppress(TypeError):  # a file that somebody has changed
                    every = [Refusal(**each) for each in (first, *others)]
                    if all(each.code in CODES for each in every):
                        return replace(every[0], further=tuple(every[1:]))
        return None

    def put(self, request: Request, verdict: Verdict) -> None:
        """Keep a verdict."""
        self._known[_digest(request)] = verdict if isinstance(verdict, str) else [*map(_kept, _each(verdict))]
        self._changed = True

    def save(self) -> None:
        """Write the file, if there is anything new. If writing fails, Spark is asked again next time."""
        if self._path is None or not self._changed:
            return
        with suppress(OSError):
            write_whole(self._path, json.dumps(self._known, indent=0, sort_keys=True).encode())
        self._changed = False


class Judge:
    """Gives expressions their types and reports those that have none."""

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
        """The expressions whose types only Spark knows, each once, in the order of the files."""
        return tuple(sorted(self._left.values(), key=lambda left: left.position))

    def types(self, expressions: Sequence[tuple[Expression, Scope]]) -> list[str | None]:
        """The canonical type of each expression; None if it is unknown or refused. A refusal is reported."""
        asked = [(*each, _question(*each)) for each in expressions]
        proven = {question.request: self._proven(question, expression) for expression, _, question in asked if question}
        verdicts = self._verdicts([request for request, type_ in proven.items() if type_ is None])
        found: list[str | None] = []
        for expression, scope, question in asked:
            if question is None:
                found.append(scope.type_of(expression.plain) if expression.plain else None)
            else:
                request = question.request
                found.append(proven[request] or self._settle(expression, scope, verdicts.get(request)))
        return found

    def _proven(self, question: _Question, expression: Expression) -> str | None:
        """The type, if it is known without Spark; otherwise why it is not is noted."""
        if self._only_spark:
            return None
        try:
            return type_of(question.sql, question.columns)
        except UnprovenTypeError as error:
            kept = self._cache.get(question.request) is not None
            left = LeftToSpark(expression.position, expression.sql.text, error.reason, kept)
            self._left.setdefault(question.request, left)
            return None

    def _verdicts(self, requests: Sequence[Request]) -> Mapping[Request, Verdict]:
        known = {request: verdict for request in requests if (verdict := self._cache.get(request)) is not None}
        missing = [request for request in dict.fromkeys(requests) if request not in known]
        if self._analyzer is not None and missing:
            if isinstance(self._analyzer, StartingAnalyzer):
                self._analyzer.because(self._reason(missing))
            for request, verdict in zip(missing, self._analyzer.analyze(missing), strict=True):
                self._cache.put(request, verdict)
                known[request] = verdict
        return known

    def _reason(self, requests: Sequence[Request]) -> str:
        """What types only Spark knows: of the first expression, and how many more there are."""
        left = sorted((self._left[each] for each in requests if each in self._left), key=lambda each: each.position)
        if not left:
            return f"the types of {len(requests)} expressions that it has not judged yet"
        first = left[0]
        at = f"{first.position.file}:{first.position.line}:{first.position.column}"
        return f"{at}: {first.sql}: {first.reason}{more(len(left) - 1)}"

    def _settle(self, expression: Expression, scope: Scope, verdict: Verdict | None) -> str | None:
        if verdict is not None and not isinstance(verdict, str):
            for refused in _each(verdict):
                place = _place(expression, scope, refused.offset, refused.end)
                self._diagnostics.add(refused.code, place, refused.message, refused.hint)
            return None
        if verdict is None:
            for mistake in certain_mistakes(expression, scope):
                self._diagnostics.add(mistake.code, mistake.position, mistake.message, mistake.hint)
            return None
        try:
            return canonical(verdict)
        except ValueError:
            position = expression.position
            message = f"The expression is of type {verdict}, which no column can hold."
            hint = "Cast it, to a string for example."
            if verdict.startswith("interval day"):
                hint = "For milliseconds write `unix_millis(a) - unix_millis(b)`; or cast it, to a string for example."
            self._diagnostics.add("HW411", position, message, hint)
            return None


def more(count: int) -> str:
    """How many there are beside the first one, as the end of a list."""
    return f", and {count} more" if count else ""


def _each(verdict: Refused) -> tuple[Refused, ...]:
    return (verdict, *verdict.further)


def _kept(refused: Refused) -> dict[str, Any]:
    return {
        "message": refused.message,
        "offset": refused.offset,
        "code": refused.code,
        "hint": refused.hint,
        "end": refused.end,
    }


def _place(expression: Expression, scope: Scope, offset: int | None, end: int | None) -> Position:
    """The place of characters of the expression as Spark was given it."""
    if offset is None:
        return expression.position
    _, origin = expression.render_with_offsets(lambda ref: _name(ref, scope))
    first = origin[min(offset, len(origin) - 1)]
    if end is None:
        return expression.sql.position(first)
    last = origin[min(end, len(origin)) - 1] + 1
    # A column may be longer in the file than in what Spark was given: `value.url`.
    return expression.sql.position(
        first, next((ref.end for ref in expression.refs if ref.start < last < ref.end), last)
    )


def _question(expression: Expression, scope: Scope) -> _Question | None:
    """What is asked of an expression; None if it is a plain column or the type of a column is unknown."""
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
    return _Question(expression.render(lambda ref: _name(ref, scope)), dict(sorted(columns.items())))


def _name(ref: Ref, scope: Scope) -> str:
    if ref.role == "meta":
        return meta_name(ref)
    return column_sql(_own_name(ref, scope))


def meta_name(ref: Ref) -> str:
    """The SQL of `_timestamp` and `current_timestamp()` in a job's rows."""
    return "timestamp_millis(_ts)" if ref.name == "_timestamp" else "_now"


def _own_name(ref: Ref, scope: Scope) -> str:
    if ref.role == "key" and ref.name in scope.value:
        return f"key.{ref.name}"
    if ref.role == "aggregate":
        return told_apart(scope.aggregates)[ref.name]
    return f"{scope.table}.{ref.name}" if ref.role == "table" else ref.name


SPARK = "4.3.0"
"""The version of Spark whose types these are. Another one is asked again, of every expression."""

_RULES = f"4, Spark {SPARK}"
"""Another one when verdicts change their meaning, so that cached ones are not used any more."""


def _digest(request: Request) -> str:
    return hashlib.sha256("\n".join((_RULES, *request)).encode()).hexdigest()[:32]
