"""Spark's own analyzer as the compiler's judge of expressions: their types, or why they have none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Refused:
    """Why Spark refuses an expression. `offset`: the character it points at, None where it names none."""

    message: str
    offset: int | None = None


class SparkAnalyzer:
    """Judges expressions in one session, started at the first question and kept for the run that may follow.

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
        """For each (expression, columns as DDL) the type as DDL, or a refusal. An expression may hold aggregates."""
        if not requests:
            return []
        if self._session is None:
            self._session = start_session(self._settings)
        return [self._judge(self._session, expression, columns) for expression, columns in requests]

    def _judge(self, session: SparkSession, expression: str, columns: str) -> str | Refused:
        from pyspark.errors import PySparkException

        relation = session.createDataFrame([], columns or "`_` int")
        try:
            judged = relation.selectExpr(expression)
        except PySparkException as error:
            return Refused(_sentence(error.getMessage() or str(error)), _offset(error))
        schema: Any = judged._jdf.schema()
        type_: str = schema.apply(0).dataType().catalogString()
        return type_


def _sentence(message: str) -> str:
    """The first sentence of Spark's message, without its error class and SQL state."""
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
