"""Values of a profile that come from the environment. They remember where they come from.

They are texts and numbers like others. But whoever writes one down writes its lookup instead, so that generated code
reads the environment itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jinja2 import nodes

from ...runtime.environment import LookedUp

FUNCTION = "env_var"


@dataclass(frozen=True)
class Lookup:
    """`env_var(name)`, or `env_var(name, default)`."""

    name: str
    default: str | None = None


class FromEnvironment(LookedUp):
    """A text that was put together of literal texts and lookups, `at` a `file:line`."""

    parts: tuple[str | Lookup, ...]
    at: str

    def __new__(cls, value: str, parts: Sequence[str | Lookup], at: str) -> Self:
        """The text with its parts."""
        made = super().__new__(cls, value)
        made.parts, made.at = tuple(parts), at
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and pickles: settings are plain data to whoever has them."""
        return type(self), (str(self), self.parts, self.at)


class NumberFromEnvironment(int):
    """A whole number that is one lookup: `env_var('CLIENTS') | int`."""

    lookup: Lookup
    at: str

    def __new__(cls, value: int, lookup: Lookup, at: str) -> Self:
        """The number with its lookup."""
        made = super().__new__(cls, value)
        made.lookup, made.at = lookup, at
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """As of FromEnvironment."""
        return type(self), (int(self), self.lookup, self.at)


class DurationFromEnvironment(int):
    """The milliseconds of a duration that was put together with lookups."""

    text: FromEnvironment

    def __new__(cls, value: int, text: FromEnvironment) -> Self:
        """The milliseconds with the text."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """As of FromEnvironment."""
        return type(self), (int(self), self.text)


def comes_from_environment(value: Any) -> bool:
    """Whether anything in a value, or in the lists and mappings in it, was looked up."""
    if isinstance(value, FromEnvironment | NumberFromEnvironment | DurationFromEnvironment):
        return True
    if isinstance(value, dict):
        return any(map(comes_from_environment, value.values()))
    return isinstance(value, list | tuple) and any(map(comes_from_environment, value))


def reads_environment(tree: nodes.Node) -> bool:
    """Whether an expression calls `env_var`."""
    return any(isinstance(each, nodes.Name) and each.name == FUNCTION for each in _all(tree))


def lookup(tree: nodes.Node) -> Lookup | None:
    """The lookup that an expression is, and nothing else; None for any other."""
    if not isinstance(tree, nodes.Call) or not isinstance(tree.node, nodes.Name) or tree.node.name != FUNCTION:
        return None
    given = [*tree.args, *(keyword.value for keyword in tree.kwargs)]
    texts = [each.value for each in given if isinstance(each, nodes.Const) and isinstance(each.value, str)]
    return Lookup(*texts) if len(texts) == len(given) <= 2 else None


def number(tree: nodes.Node) -> Lookup | None:
    """The lookup in `env_var(...) | int`; None for any other expression."""
    if isinstance(tree, nodes.Filter) and tree.name == "int" and not tree.args and tree.node is not None:
        return lookup(tree.node)
    return None


def _all(tree: nodes.Node) -> Iterator[nodes.Node]:
    yield tree
    yield from tree.find_all(nodes.Name)
