"""All mistakes of an expression whose types do not fit. Spark's own analyzer reports the first one only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .doomed import always_failing, silent_casts
from .plans import nodes, replaced, span, unchecked
from .verdicts import Refused, of_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def all_mistakes(session: SparkSession, relation: DataFrame, expression: str, first: Refused) -> list[Refused]:
    """Every part of an expression that is refused although all within it is fine. `first`: what Spark reported."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        plan = unchecked(session, relation, expression)
        found = [first, *_mismatches(relation, plan, expression, first), *silent_casts(session, plan, expression)]
    except (PySparkException, Py4JError):  # a mistake that ends the analysis, such as a number of arguments
        return [first]
    with suppress(PySparkException, Py4JError):  # functions are replaced where their arguments fit
        found += always_failing(replaced(session, plan), expression)
    return found


def _mismatches(relation: DataFrame, plan: Any, expression: str, first: Refused) -> Iterator[Refused]:
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
            refused = of_error(error)
            if (refused.offset, refused.end) == (0, end - start):  # otherwise it is no expression by itself
                yield replace(refused, offset=start, end=end)
