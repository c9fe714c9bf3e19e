"""Spark's own analyzer, which gives the compiler the types of expressions, or the reason why one has none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .session.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOO_COMPLEX = "FAILED_TO_PARSE_TOO_COMPLEX"
_TIME = re.compile(r"""['"]\s*(?:epoch|now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_WRITE_OUT = "Write it with digits, or use `current_timestamp()`, the planned time of the epoch."
_PLAIN = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double"})


@dataclass(frozen=True)
class Refused:
    """Why an expression is refused. `offset`: the character concerned, None if unknown.

    `code`: the compiler's diagnostic. The default is that of types that do not fit.
    """

    message: str
    offset: int | None = None
    code: str = "HW411"
    hint: str | None = None


class SparkAnalyzer:
    """Analyzes expressions in one session. It starts at the first question and stays for a run that may follow.

    Nothing is executed: an expression is resolved against an empty relation.
    """

    def __init__(self, spark: Mapping[str, Any]) -> None:
        self._settings = spark
        self._session: SparkSession | None = None

    @property
    def session(self) -> SparkSession | None:
        """The session, if one was needed."""
        return self._session

    def analyze(self, requests: Sequence[tuple[str, str]]) -> list[str | Refused]:
        """The type of each (expression, columns as DDL) as DDL, or a refusal. An expression may contain aggregates."""
        if not requests:
            return []
        if self._session is None:
            self._session = start_session(self._settings)
        return [self._judge(self._session, expression, columns) for expression, columns in requests]

    def _judge(self, session: SparkSession, expression: str, columns: str) -> str | Refused:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        relation = session.createDataFrame([], columns or "`_` int")
        try:
            judged: Any = relation.selectExpr(expression)._jdf
            refused = _changing(session, judged.queryExecution().analyzed(), expression)
        except PySparkException as error:
            if error.getCondition() == _TOO_COMPLEX:
                return _too_large()
            return Refused(_sentence(error.getMessage() or str(error)), _offset(error))
        except Py4JJavaError as error:  # an error for which Spark has no message
            thrown: Any = error.java_exception
            name = thrown.getClass().getSimpleName()
            if name == "StackOverflowError":
                return _too_large()
            return Refused(f"Spark cannot take it: {_sentence(str(thrown.getMessage())).rstrip('.')}.")
        if refused is not None:
            return refused
        type_: str = judged.schema().apply(0).dataType().catalogString()
        return type_


def _changing(session: SparkSession, plan: Any, expression: str) -> Refused | None:
    """Why a resolved expression could give different results for the same record, even if its text hides that.

    Two of Spark's optimizer rules replace times by those of its clock. Applying them shows whether they change
    anything.
    """
    assert session._jvm is not None
    optimizer: Any = session._jvm.org.apache.spark.sql.catalyst.optimizer
    plain = getattr(optimizer, "ReplaceExpressions$").__getattr__("MODULE$").apply(plan)
    if not getattr(optimizer, "SpecialDatetimeValues$").__getattr__("MODULE$").apply(plain).fastEquals(plain):
        found = _TIME.search(expression)
        message = "Spark takes a text here from its own clock, once, when it makes the plan."
        return Refused(message, found.start() if found else None, "HW417", _WRITE_OUT)
    for node in _nodes(plain):
        name = node.getClass().getSimpleName()
        if (name.startswith("Current") and name != "CurrentTimeZone") or name in ("Now", "LocalTimestamp"):
            return Refused(f"'{node.toString()}' is not deterministic.", None, "HW406", _WRITE_OUT)
        if name == "FormatString":
            types = [child.dataType().catalogString() for child in _items(node.children())]
            odd = next((each for each in types if each not in _PLAIN and not each.startswith("decimal")), None)
            if odd is not None:
                message = f"'format_string' writes a value of type {odd} by its address in memory, or as Java does."
                return Refused(message, None, "HW406", "Cast it to a string: `hex(x)` of a binary, `to_json(x)`.")
    if not plain.deterministic():
        return Refused("The expression is not deterministic.", None, "HW406")
    return None


def _nodes(plan: Any) -> Iterator[Any]:
    """The expressions of a plan's root node, with all their children."""
    left = _items(plan.expressions())
    while left:
        node = left.pop()
        yield node
        left += _items(node.children())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]


def _too_large() -> Refused:
    message = "The expression is too large, or nested too deeply, for Spark's parser."
    return Refused(message, None, "HW420", "Compute parts of it in steps before.")


def _sentence(message: str) -> str:
    """The first sentence of Spark's message, without error class and SQL state."""
    first = re.split(r"\s*(?:SQLSTATE:|;\n|\n)", message.strip(), maxsplit=1)[0]
    return re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", first)


def _offset(error: Any) -> int | None:
    for context in error.getQueryContext():
        try:
            start = int(context.startIndex())
        except Exception:  # a context of the DataFrame API has no place in the text
            continue
        if start >= 0:
            return start
    return None
