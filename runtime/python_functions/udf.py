"""Python functions that expressions call, as `functions:` of headwater.yml declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .code import PythonFunction


@dataclass(frozen=True)
class Udf:
    """A function by the name that expressions call. `arguments`, `returns`: types of Spark SQL, the former by name.

    `arrow`: it is given an array of Arrow for each argument, with the rows of many calls, and returns one.
    """

    name: str
    function: PythonFunction
    arguments: Mapping[str, str]
    returns: str
    arrow: bool = False

    @property
    def signature(self) -> str:
        """`slug(title string) string`, for people."""
        taken = ", ".join(f"{name} {type_}" for name, type_ in self.arguments.items())
        return f"{self.name}({taken}) {self.returns}"
