"""Parts of an expression that Spark takes and that fail later, at the first record or at the first odd one.

Two kinds: what is made of constants and fails always, and texts that Spark casts without being told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...records.names import quote
from ...records.texts.casts import may_fail, silent_cast, uncast
from .plans import Span, items, kind, nodes, span, type_of, written_cast
from .verdicts import Refused, first_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONVERSION = re.compile(
    r"(bigint|boolean|date|decimal|double|float|int|smallint|time|timestamp|tinyint)\s*\(", re.IGNORECASE
)
"""A function that is a cast by another name: `int(x)`."""

_INSTEAD = re.compile(r"Use `try_\w+`[^.]*\.")


def always_failing(plain: Any, expression: str) -> Iterator[Refused]:
    """The smallest parts made of constants that fail, `cast('abc' as int)` for one. `plain`: see `plans.replaced`."""
    left = items(plain.expressions())
    while left:
        node = left.pop()
        if not node.resolved():
            # What Spark has cast for a part whose types do not fit is no mistake of its own.
            added = [child for child in items(node.children()) if kind(child) == "Cast" and span(child) == span(node)]
            left += [child for child in items(node.children()) if child not in added]
        elif node.foldable():
            yield from _failures(node, expression)
        else:
            left += _reachable(node)


def _reachable(node: Any) -> list[Any]:
    """The children, without branches that constants in front of them rule out."""
    children = items(node.children())
    if kind(node) not in ("If", "CaseWhen"):
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


def _failures(constant: Any, expression: str) -> Iterator[Refused]:
    from pyspark.errors import PySparkException

    try:
        constant.eval(None)
    except PySparkException as error:
        inner = [refused for child in items(constant.children()) for refused in _failures(child, expression)]
        if inner:
            yield from inner
        else:
            yield _failure(constant, expression, error)


def _failure(constant: Any, expression: str, error: Any) -> Refused:
    place = span(constant)
    if error.getCondition() == "CAST_INVALID_INPUT" and kind(constant) == "Cast":
        place = span(constant.child()) or place
        text = expression[slice(*place)] if place else constant.child().toString()
        message, hint = uncast(text, type_of(constant))
        return _refused(message, place, "HW415", hint)
    said = first_sentence(error)
    instead = _INSTEAD.search(said)
    first = re.split(r"(?<=[^.\d])\.\s", said)[0].rstrip(".")
    return _refused(f"This always fails: {first[:1].lower()}{first[1:]}.", place, "HW415", instead and instead[0])


def silent_casts(session: SparkSession, plan: Any, expression: str) -> Iterator[Refused]:
    """Texts that are no constants and that Spark casts to another type without being told."""
    written = written_cast(session)
    shared = {node.id().toString(): node.child() for node in nodes(plan) if kind(node) == "CommonExpressionDef"}
    for node in nodes(plan):
        if not node.resolved() and node.childrenResolved():
            continue  # its types do not fit, which has been reported
        for cast in items(node.children()):
            if kind(cast) != "Cast" or not cast.resolved() or cast.getTagValue(written).isDefined():
                continue
            text = cast.child()
            if kind(text) == "CommonExpressionRef":
                text = shared[text.id().toString()]
            if text.foldable() or not may_fail(type_of(text), type_of(cast)):
                continue
            around = span(cast)
            # A cast that Spark adds has the place of what it is added to, and `int(x)` has one of its own.
            if around is not None and around != span(node) and _CONVERSION.match(expression, around[0]):
                continue
            place = _place(text, around, expression)
            sql = expression[slice(*place)] if place else text.sql()
            message, hint = silent_cast(sql, type_of(text), type_of(cast), added=kind(node) == "Add")
            yield _refused(message, place, "HW414", hint)


def _place(text: Any, around: Span, expression: str) -> Span:
    """Where the SQL of a node is. A column has no place of its own: it is looked for where it is used."""
    if kind(text) not in ("AttributeReference", "NamedLambdaVariable"):
        return span(text) or around
    name = re.compile(rf"(?<![\w`.]){re.escape(quote(text.name()))}(?![\w`(])")
    found = (around and name.search(expression, *around)) or name.search(expression)
    return found.span() if found else around


def _refused(message: str, place: Span, code: str, hint: str | None) -> Refused:
    start, end = place or (None, None)
    return Refused(message, start, code, hint, end)
