"""Analyzes expressions with Spark: their types, or all of their mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...expressions.analyzer import Rejection
from ...records.cast_texts import WRITE_OUT, may_fail, silent_cast, takes_the_clock, uncast
from ...records.names import quote
from .engine import class_name, items
from .runner import without_advice
from .session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Expressions of Spark's plans, which are objects of the JVM.

Span = tuple[int, int] | None
"""Start and end of a node's SQL in the expression; None if unknown."""


def nodes(plan: Any) -> Iterator[Any]:
    """The expressions of a plan's root node, and all of their descendants."""
    left = items(plan.expressions())
    while left:
        node = left.pop()
        yield node
        left += items(node.children())


def type_of(node: Any) -> str:
    """The type of a resolved node."""
    return str(node.dataType().catalogString())


def span(node: Any) -> Span:
    """The span of a node's SQL in the expression."""
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    return (start.get(), stop.get() + 1) if start.isDefined() and stop.isDefined() else None


def replaced(session: SparkSession, plan: Any) -> Any:
    """The plan after the optimizer's first rule, which replaces functions by the functions that compute them."""
    return _catalyst(session, "optimizer", "ReplaceExpressions").apply(plan)


def unchecked(session: SparkSession, relation: DataFrame, expression: str) -> Any:
    """The partly analyzed plan of an expression with mistakes, of which Spark itself reports only the first.

    Raises PySparkException if the analyzer raises an error instead.
    """
    assert session._jvm is not None
    jvm: Any = session._jvm
    state: Any = session._jsparkSession.sessionState()
    catalyst = jvm.org.apache.spark.sql.catalyst
    parsed = state.sqlParser().parseExpression(expression)
    unnamed = catalyst.analysis.UnresolvedAlias(parsed, jvm.scala.Option.empty())
    columns = jvm.org.apache.spark.api.python.PythonUtils.toSeq([unnamed])
    below: Any = relation._jdf
    return state.analyzer().execute(catalyst.plans.logical.Project(columns, below.queryExecution().analyzed()))


def special_times_replaced(session: SparkSession, plan: Any) -> Any:
    """The plan with texts such as 'now' replaced by times of Spark's clock."""
    return _catalyst(session, "optimizer", "SpecialDatetimeValues").apply(plan)


def written_cast(session: SparkSession) -> Any:
    """The tag of casts that the user wrote with `cast` or `::`."""
    return _catalyst(session, "expressions", "Cast").USER_SPECIFIED_CAST()


def _catalyst(session: SparkSession, package: str, name: str) -> Any:
    """A Scala object in Spark's Catalyst."""
    assert session._jvm is not None
    scala_object: Any = getattr(getattr(session._jvm.org.apache.spark.sql.catalyst, package), f"{name}$")
    return scala_object.__getattr__("MODULE$")


def together(mistakes: Sequence[Rejection]) -> Rejection | None:
    """Several mistakes of one expression as one, without duplicates, in the order of the text; None without any."""
    if not mistakes:
        return None
    first, *others = sorted(dict.fromkeys(mistakes), key=lambda rejected: (rejected.offset or 0, rejected.message))
    return replace(first, further=tuple(others))


def of_error(error: Any) -> Rejection:
    """The mistake in Spark's exception."""
    for context in error.getQueryContext():
        try:
            start, end = int(context.startIndex()), int(context.stopIndex()) + 1
        except Exception:  # a context of the DataFrame API has no position in the text
            continue
        if start >= 0:
            return Rejection(first_sentence(error), start, end=end)
    return Rejection(first_sentence(error))


def first_sentence(error: Any) -> str:
    """The first sentence of Spark's exception."""
    return sentence(error.getMessage() or str(error))


def sentence(message: str) -> str:
    """The first sentence of Spark's message, without error class and SQL state."""
    first = re.split(r"\s*(?:SQLSTATE:|;\n|\n)", message.strip(), maxsplit=1)[0]
    return without_advice(re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", first))


_TIME = re.compile(r"""['"]\s*(?:epoch|now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_PLAIN = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})


def changing(session: SparkSession, plain: Any, expression: str) -> Rejection | None:
    """The mistake of a resolved expression whose result could differ from run to run; None if it cannot.

    Two of Spark's optimizer rules replace times by those of its clock. Applying them shows whether they change
    anything. `plain`: the plan after the first of them, see `replaced`.
    """
    if not special_times_replaced(session, plain).fastEquals(plain):
        match = _TIME.search(expression)
        message = "Spark takes a text here from its own clock, once, when it makes the plan."
        return Rejection(message, match.start() if match else None, "HW417", WRITE_OUT)
    for node in nodes(plain):
        name = class_name(node)
        if (name.startswith("Current") and name != "CurrentTimeZone") or name in ("Now", "LocalTimestamp"):
            return Rejection(f"'{node.toString()}' is not deterministic.", None, "HW406", WRITE_OUT)
        if name == "Cast" and type_of(node) == "timestamp" and _is_time_of_day(node.child()):
            start, end = span(node.child()) or (None, None)
            message = "Spark makes a timestamp of a time of day with the date of its own clock."
            return Rejection(message, start, "HW417", WRITE_OUT, end)
        if name == "FormatString":
            types = [type_of(child) for child in items(node.children())]
            odd = next((type_ for type_ in types if type_ not in _PLAIN and not type_.startswith("decimal")), None)
            if odd is not None:
                message = f"'format_string' writes a value of type {odd} by its address in memory, or as Java does."
                return Rejection(message, None, "HW406", "Cast it to a string: `hex(x)` of a binary, `to_json(x)`.")
    if not plain.deterministic():
        return Rejection("The expression is not deterministic.", None, "HW406")
    return None


def _is_time_of_day(node: Any) -> bool:
    """Whether a node is a constant string such as '12:30'."""
    from pyspark.errors import PySparkException

    if not node.foldable() or not type_of(node).startswith("string"):
        return False
    with suppress(PySparkException):
        text = node.eval(None)
        return text is not None and takes_the_clock(str(text.toString()))
    return False


# Parts of an expression that Spark accepts and that fail later: constant parts that always fail, and implicit casts of
# strings, which fail at the first bad record.

_CONVERSION = re.compile(
    r"(bigint|boolean|date|decimal|double|float|int|smallint|time|timestamp|tinyint)\s*\(", re.IGNORECASE
)
"""A function that is a cast: `int(x)`."""

_INSTEAD = re.compile(r"Use `try_\w+`[^.]*\.")


def always_failing(plain: Any, expression: str) -> Iterator[Rejection]:
    """The smallest constant parts that fail, such as `cast('abc' as int)`. `plain`: see `replaced`."""
    left = items(plain.expressions())
    while left:
        node = left.pop()
        if not node.resolved():
            # Casts that Spark has added for a part whose types do not fit are no mistakes of their own.
            added = [
                child for child in items(node.children()) if class_name(child) == "Cast" and span(child) == span(node)
            ]
            left += [child for child in items(node.children()) if child not in added]
        elif node.foldable():
            yield from _failures(node, expression)
        else:
            left += _reachable(node)


def _reachable(node: Any) -> list[Any]:
    """The children, without branches that constant conditions exclude."""
    children = items(node.children())
    if class_name(node) not in ("If", "CaseWhen"):
        return children
    taken = []
    while len(children) > 1:
        condition, value, *children = children
        taken.append(condition)
        holds = _value(condition) if condition.foldable() else None
        if holds is not False:
            taken.append(value)
        if holds is True:
            return taken
    return taken + children


def _value(constant: Any) -> Any:
    from pyspark.errors import PySparkException

    try:
        return constant.eval(None)
    except PySparkException:
        return None


def _failures(constant: Any, expression: str) -> Iterator[Rejection]:
    from pyspark.errors import PySparkException

    try:
        constant.eval(None)
    except PySparkException as error:
        inner = [rejected for child in items(constant.children()) for rejected in _failures(child, expression)]
        if inner:
            yield from inner
        else:
            yield _failure(constant, expression, error)


def _failure(constant: Any, expression: str, error: Any) -> Rejection:
    place = span(constant)
    if error.getCondition() == "CAST_INVALID_INPUT" and class_name(constant) == "Cast":
        place = span(constant.child()) or place
        text = expression[slice(*place)] if place else constant.child().toString()
        message, hint = uncast(text, type_of(constant))
        return _rejected(message, place, "HW415", hint)
    said = first_sentence(error)
    instead = _INSTEAD.search(said)
    first = re.split(r"(?<=[^.\d])\.\s", said)[0].rstrip(".")
    return _rejected(f"This always fails: {first[:1].lower()}{first[1:]}.", place, "HW415", instead and instead[0])


def silent_casts(session: SparkSession, plan: Any, expression: str) -> Iterator[Rejection]:
    """The implicit casts of strings that are no constants."""
    written = written_cast(session)
    shared = {node.id().toString(): node.child() for node in nodes(plan) if class_name(node) == "CommonExpressionDef"}
    for node in nodes(plan):
        if not node.resolved() and node.childrenResolved():
            continue  # its types do not fit, which has been reported
        for cast in items(node.children()):
            if class_name(cast) != "Cast" or not cast.resolved() or cast.getTagValue(written).isDefined():
                continue
            text = cast.child()
            if class_name(text) == "CommonExpressionRef":
                text = shared[text.id().toString()]
            if text.foldable() or not may_fail(type_of(text), type_of(cast)):
                continue
            around = span(cast)
            # A cast that Spark adds has the span of its node, and `int(x)` has one of its own.
            if around is not None and around != span(node) and _CONVERSION.match(expression, around[0]):
                continue
            place = _place(text, around, expression)
            sql = expression[slice(*place)] if place else text.sql()
            message, hint = silent_cast(sql, type_of(text), type_of(cast), added=class_name(node) == "Add")
            yield _rejected(message, place, "HW414", hint)


def _place(text: Any, around: Span, expression: str) -> Span:
    """The span of a node. A column has none: it is searched in the span of the cast."""
    if class_name(text) not in ("AttributeReference", "NamedLambdaVariable"):
        return span(text) or around
    name = re.compile(rf"(?<![\w`.]){re.escape(quote(text.name()))}(?![\w`(])")
    match = (around and name.search(expression, *around)) or name.search(expression)
    return match.span() if match else around


def _rejected(message: str, place: Span, code: str, hint: str | None) -> Rejection:
    start, end = place or (None, None)
    return Rejection(message, start, code, hint, end)


def all_mistakes(session: SparkSession, relation: DataFrame, expression: str, first: Rejection) -> list[Rejection]:
    """All mistakes of an expression whose types do not fit. `first`: the one that Spark reports."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        plan = unchecked(session, relation, expression)
        mistakes = [first, *_mismatches(relation, plan, expression, first), *silent_casts(session, plan, expression)]
    except (PySparkException, Py4JError):  # a mistake that ends the analysis, such as a number of arguments
        return [first]
    with suppress(PySparkException, Py4JError):  # functions are replaced where their arguments fit
        mistakes += always_failing(replaced(session, plan), expression)
    return mistakes


def _mismatches(relation: DataFrame, plan: Any, expression: str, first: Rejection) -> Iterator[Rejection]:
    from pyspark.errors import PySparkException

    for node in nodes(plan):
        place = span(node)
        if place is None or node.resolved() or not node.childrenResolved():
            continue
        start, end = place
        if (start, end) == (first.offset, first.end):
            continue
        try:
            relation.selectExpr(expression[start:end])
        except PySparkException as error:
            rejected = of_error(error)
            if (rejected.offset, rejected.end) == (0, end - start):  # else the part is no expression by itself
                yield replace(rejected, offset=start, end=end)


_TOO_COMPLEX = "FAILED_TO_PARSE_TOO_COMPLEX"
_MISMATCH = "DATATYPE_MISMATCH"


class SparkAnalyzer:
    """Analyzes expressions in one session, which starts at the first request and stays for a run that may follow.

    Expressions are resolved against an empty relation. Only their constant parts are executed.
    """

    def __init__(self, spark: Mapping[str, Any]) -> None:
        self._settings = spark
        self._session: SparkSession | None = None

    def analyze(self, requests: Sequence[tuple[str, str]]) -> list[str | Rejection]:
        """The types of (expression, columns as DDL) as DDL, or their mistakes. Expressions may contain aggregates."""
        if not requests:
            return []
        if self._session is None:
            self._session = start_session(self._settings)
        return [_analyze(self._session, expression, columns) for expression, columns in requests]


def _analyze(session: SparkSession, expression: str, columns: str) -> str | Rejection:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    relation = session.createDataFrame([], columns or "`_` int")
    try:
        resolved: Any = relation.selectExpr(expression)._jdf
        analyzed = resolved.queryExecution().analyzed()
        plain = replaced(session, analyzed)
        rejected = changing(session, plain, expression) or together(
            [*always_failing(plain, expression), *silent_casts(session, analyzed, expression)]
        )
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition == _TOO_COMPLEX:
            return _too_large()
        first = of_error(error)
        mistakes = all_mistakes(session, relation, expression, first) if condition.startswith(_MISMATCH) else [first]
        return together(mistakes) or first
    except Py4JJavaError as error:  # an error for which Spark has no message
        thrown: Any = error.java_exception
        if thrown.getClass().getSimpleName() == "StackOverflowError":
            return _too_large()
        return Rejection(f"Spark cannot take it: {sentence(str(thrown.getMessage())).rstrip('.')}.")
    if rejected is not None:
        return rejected
    type_: str = resolved.schema().apply(0).dataType().catalogString()
    return type_


def _too_large() -> Rejection:
    message = "The expression is too large, or nested too deeply, for Spark's parser."
    return Rejection(message, None, "HW420", "Compute parts of it in steps before.")
