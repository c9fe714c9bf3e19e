"""What a form of SQL is here: which parts of its tree it has, and what type they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ....runtime.expressions.misread import name_of
from .numbers import is_number, widest
from .terms import Term, unproven
from .times import TIMES, is_written_out

Terms = Sequence[Term]
Rule = Callable[[Any, Terms], str]
"""The type that a tree comes to, given its parts. Raises UnprovenTypeError."""


@dataclass(frozen=True)
class Form:
    """`parts`: the arguments of the tree that are expressions, in order. `settings`: those that change no type.

    `of_constants`: whether it cannot fail, so that it may be made of literals alone.
    """

    rule: Rule
    parts: tuple[str, ...]
    settings: frozenset[str] = frozenset()
    of_constants: bool = False


def refuse(tree: exp.Expr, terms: Terms) -> str:
    """Raise UnprovenTypeError for a form with parts of these types."""
    types = ", ".join("null" if each.type == "void" else each.type for each in terms)
    unproven(f"the type of `{name_of(tree)}`{' of ' if types else ''}{types} is only known to Spark")


def common(tree: exp.Expr, terms: Terms) -> str:
    """The type that Spark gives to parts beside one another: of numbers the widest, else the one that all have."""
    types = [each.type for each in terms if each.type != "void"]
    if types and all(map(is_number, types)):
        return widest(types)
    if len(set(types)) != 1:
        refuse(tree, terms)
    return types[0]


def compared(tree: exp.Expr, terms: Terms) -> str:
    """The same of values that are compared: a text that is a time is one beside times."""
    times = {each.type for each in terms} & TIMES
    if len(times) == 1:
        (time,) = times
        terms = [Term(time, True) if each.constant and is_written_out(each.text, time) else each for each in terms]
    found = common(tree, terms)
    if not (is_number(found) or found in TIMES or found in ("string", "boolean")):
        refuse(tree, terms)
    return found
