"""Reads `functions:` of headwater.yml: Python functions that expressions may call by a name of their own."""

from __future__ import annotations

from collections.abc import Mapping

from ....runtime.python_functions.udf import Udf
from ...diagnostics import Diagnostics
from ...entries.node_values import flag, named, pairs, scalar
from ...reading.nodes import Mapping as MappingNode
from ...reading.nodes import Scalar
from ...types import canonical
from ..functions import (
    AGGREGATES,
    FORBIDDEN,
    GENERATORS,
    NOT_OFFERED,
    OPERATORS,
    SCALAR_FUNCTIONS,
    SPARK_AGGREGATES,
    UNSAFE,
    WINDOW_FUNCTIONS,
    WORDS_WITHOUT_PARENTHESES,
)
from ..python_functions import ProjectFunctions
from ..sql import may_be_called

Udfs = Mapping[str, Udf | None]
"""Declared functions by their names in lower case; None where a declaration has an error, which has been reported."""

_OF_SPARK: frozenset[str] = frozenset().union(
    SCALAR_FUNCTIONS,
    OPERATORS,
    GENERATORS,
    WINDOW_FUNCTIONS,
    AGGREGATES,
    SPARK_AGGREGATES,
    FORBIDDEN,
    UNSAFE,
    NOT_OFFERED,
    WORDS_WITHOUT_PARENTHESES,
)


def declared_udfs(project: MappingNode, functions: ProjectFunctions, diagnostics: Diagnostics) -> Udfs:
    """The functions that headwater.yml declares. Mistakes that a schema cannot find are reported."""
    found: dict[str, Udf | None] = {}
    names: dict[str, str] = {}
    for name, body in named(project, "functions"):
        if isinstance(name.value, str) and _is_free(name, names, diagnostics):
            found[name.text.lower()] = _udf(name, body, functions)
    return found


def _is_free(name: Scalar, names: dict[str, str], diagnostics: Diagnostics) -> bool:
    """Whether expressions can call a function of this name; otherwise reports it."""
    word = name.text.lower()
    twin = names.setdefault(word, name.text)
    if twin != name.text:
        message = f"'{name.text}' and '{twin}' are the same function to Spark SQL."
    elif word in _OF_SPARK:
        message = f"'{name.text}' is a function of Spark SQL already."
    elif not may_be_called(word):
        message = f"'{name.text}' is a word of SQL, which cannot be called."
    else:
        return True
    diagnostics.add("HW421", name.position, message, "Give it another name.")
    return False


def _udf(name: Scalar, body: MappingNode, functions: ProjectFunctions) -> Udf | None:
    named_by, returns = scalar(body, "udf"), _type(scalar(body, "returns"))
    arguments = {key.text: _type(type_) for key, type_ in pairs(body, "arguments")}
    function = functions.find(named_by) if named_by is not None else None
    if named_by is None or function is None:
        return None
    what = f"Expressions call '{name.text}'"
    fits = functions.fits(named_by, function.loaded, tuple(arguments), what)
    types = {key: type_ for key, type_ in arguments.items() if type_ is not None}
    if not fits or returns is None or not types or len(types) < len(arguments):
        return None
    return Udf(name.text, function.function, types, returns, flag(body, "arrow", False))


def _type(type_: Scalar | None) -> str | None:
    """The canonical type; None if it is none, which has been reported."""
    try:
        return canonical(type_.text) if type_ is not None else None
    except ValueError:
        return None
