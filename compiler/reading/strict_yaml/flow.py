"""Finds expressions that YAML splits at their commas: `{a: coalesce(x, 0)}` has the two keys `a` and `0)`.

Their parentheses show where they belong together. The parts are joined again, so that one mistake gives one diagnostic.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..nodes import FixedOrigin, Node, Scalar
from ..source import SourceFile


@dataclass(slots=True)
class Built:
    """A node with the numbers of its nodes and levels, aliases expanded.

    `implied`: nothing is written for it (`a:`).
    """

    node: Node
    size: int = 1
    height: int = 0
    start: int = 0
    end: int = 0
    implied: bool = False
    plain: bool = False


def rejoin_split(children: list[Built], is_mapping: bool, source: SourceFile) -> tuple[list[Built], list[Scalar]]:
    """The children of a flow collection, with one broken scalar for each split expression; and these scalars.

    The children of a mapping are keys and values in turn.
    """
    joined: list[Built] = []
    splits: list[Scalar] = []
    step = 2 if is_mapping else 1
    at = 0
    while at < len(children):
        group = children[at : at + step]
        at += step
        value = last = group[-1]
        depth = max(_open_parentheses(value), 0) if value.plain else 0
        while depth > 0 and at < len(children) and _is_rest(children[at : at + step]):
            last = children[at]
            depth += _open_parentheses(last)
            at += step
        if last is not value:
            text = source.text[value.start : last.end]
            place = source.position(value.start, last.end)
            split = Scalar(None, text, place, FixedOrigin(place), broken=True)
            splits.append(split)
            group[-1] = Built(split, start=value.start, end=last.end)
        joined.extend(group)
    return joined, splits


def _is_rest(group: list[Built]) -> bool:
    """Whether an item, or a key with its value, can be the part of an expression after a comma."""
    return group[0].plain and (len(group) == 1 or group[1].implied)


def _open_parentheses(built: Built) -> int:
    return built.node.text.count("(") - built.node.text.count(")") if isinstance(built.node, Scalar) else 0
