"""Spark's own analyzer, which gives the compiler the types of expressions, or all reasons why one has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..session.session import start_session
from .changing import changing
from .doomed import always_failing, silent_casts
from .mismatches import all_mistakes
from .plans import replaced
from .verdicts import Refused, of_error, sentence, together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Refused", "SparkAnalyzer"]

_TOO_COMPLEX = "FAILED_TO_PARSE_TOO_COMPLEX"
_MISMATCH = "DATATYPE_MISMATCH"


class SparkAnalyzer:
    """Analyzes expressions in one session. It starts at the first question and stays for a run that may follow.

    Nothing is executed but what is made of constants: an expression is resolved against an empty relation.
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
        return [_judge(self._session, expression, columns) for expression, columns in requests]


def _judge(session: SparkSession, expression: str, columns: str) -> str | Refused:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    relation = session.createDataFrame([], columns or "`_` int")
    try:
        judged: Any = relation.selectExpr(expression)._jdf
        analyzed = judged.queryExecution().analyzed()
        plain = replaced(session, analyzed)
        refused = changing(session, plain, expression) or together(
            [*always_failing(plain, expression), *silent_casts(session, analyzed, expression)]
        )
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition == _TOO_COMPLEX:
            return _too_large()
        first = of_error(error)
        found = all_mistakes(session, relation, expression, first) if condition.startswith(_MISMATCH) else [first]
        return together(found) or first
    except Py4JJavaError as error:  # an error for which Spark has no message
        thrown: Any = error.java_exception
        if thrown.getClass().getSimpleName() == "StackOverflowError":
            return _too_large()
        return Refused(f"Spark cannot take it: {sentence(str(thrown.getMessage())).rstrip('.')}.")
    if refused is not None:
        return refused
    type_: str = judged.schema().apply(0).dataType().catalogString()
    return type_


def _too_large() -> Refused:
    message = "The expression is too large, or nested too deeply, for Spark's parser."
    return Refused(message, None, "HW420", "Compute parts of it in steps before.")
