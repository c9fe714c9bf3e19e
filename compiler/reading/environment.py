"""Values of a profile that come from environment variables, and that remember this.

They behave like ordinary texts and numbers. But generated code contains the lookup in place of the value, so that it
reads the environment when it runs.
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
    """A text made of literal texts and lookups. `at`: the `file:line` where it is written."""

    parts: tuple[str | Lookup, ...]
    at: str

    def __new__(cls, value: str, parts: Sequence[str | Lookup], at: str) -> Self:
        """Make the text with its parts."""
        made = super().__new__(cls, value)
        made.parts, made.at = tuple(parts), at
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles: to everyone else, settings are plain data."""
        return type(self), (str(self), self.parts, self.at)


class NumberFromEnvironment(int):
    """A whole number that comes from one lookup: `env_var('CLIENTS') | int`."""

    lookup: Lookup
    at: str

    def __new__(cls, value: int, lookup: Lookup, at: str) -> Self:
        """Make the number with its lookup."""
        made = super().__new__(cls, value)
        made.lookup, made.at = lookup, at
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles, like FromEnvironment."""
        return type(self), (int(self), self.lookup, self.at)


class DurationFromEnvironment(int):
    """The milliseconds of a duration whose text has lookups."""

    text: FromEnvironment

    def __new__(cls, value: int, text: FromEnvironment) -> Self:
        """Make the number of milliseconds with its text."""
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies and pickles, like FromEnvironment."""
        return type(self), (int(self), self.text)


def comes_from_environment(value: Any) -> bool:
    """Whether a value comes from the environment, or any value in its lists and mappings."""
    if isinstance(value, FromEnvironment | NumberFromEnvironment | DurationFromEnvironment):
        return True
    if isinstance(value, dict):
        return any(map(comes_from_environment, value.values()))
    return isinstance(value, list | tuple) and any(map(comes_from_environment, value))


def reads_environment(tree: nodes.Node) -> bool:
    """Whether an expression calls `env_var`."""
    return any(isinstance(each, nodes.Name) and each.name == FUNCTION for each in _all(tree))


def lookup(tree: nodes.Node) -> Lookup | None:
    """The lookup, if an expression is exactly one call of `env_var`; otherwise None."""
    if not isinstance(tree, nodes.Call) or not isinstance(tree.node, nodes.Name) or tree.node.name != FUNCTION:
        return None
    given = [*tree.args, *(keyword.value for keyword in tree.kwargs)]
    texts = [each.value for each in given if isinstance(each, nodes.Const) and isinstance(each.value, str)]
    return Lookup(*texts) if len(texts) == len(given) <= 2 else None


def number(tree: nodes.Node) -> Lookup | None:
    """The lookup, if an expression is `env_var(...) | int`; otherwise None."""
    if isinstance(tree, nodes.Filter) and tree.name == "int" and not tree.args and tree.node is not None:
        return lookup(tree.node)
    return None


def _all(tree: nodes.Node) -> Iterator[nodes.Node]:
    yield tree
    yield from tree.find_all(nodes.Name)
