"""The names of topics, stores, global tables, functions of expressions and subtopologies in generated code."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable

from ...runtime.python_functions.udf import Udf
from ...runtime.topology import GlobalTable, Store, Topic
from ..topology.graph import TopologyGraph

Declared = Topic | Store | GlobalTable | Udf

_SUFFIXES: dict[type, str] = {Topic: "_TOPIC", Store: "_STORE", GlobalTable: "_TABLE", Udf: "_FUNCTION"}

_AMBIGUOUS = frozenset({"l", "I", "O"})
"""Names that look like digits. Linters refuse them (E741)."""

FUNCTIONS = "FUNCTIONS"
"""The constant of the Python code of a topology's functions."""

_TAKEN = frozenset({"FILE", FUNCTIONS, "TOPOLOGY"}) | _AMBIGUOUS


class Constants:
    """The constant of each topic, store, global table and function of expressions: its name in capitals, made unique.

    Topics are named first, then stores, global tables and functions, each in order of declaration, so that a name
    depends on nothing else. The application's name is left out of the names of repartition topics.
    """

    def __init__(self, graph: TopologyGraph) -> None:
        self._names: dict[tuple[type, str], str] = {}
        taken = set(_TAKEN)
        prefix = f"{graph.application}-"
        everything: tuple[Declared, ...] = (*graph.topics, *graph.stores, *graph.global_tables, *graph.udfs)
        for declared in everything:
            kind = type(declared)
            if (kind, declared.name) in self._names:
                continue
            base = _identifier(declared.name.removeprefix(prefix) if kind is Topic else declared.name).upper()
            name = _free([base, f"{base}{_SUFFIXES[kind]}"], taken)
            taken.add(name)
            self._names[kind, declared.name] = name

    def __getitem__(self, declared: Declared) -> str:
        return self._names[type(declared), declared.name]


def function_names(wanted: Iterable[str], imported: Iterable[str]) -> list[str]:
    """Names of functions, with a `_` added to a name that would hide a keyword, a built-in or an import."""
    taken = {*keyword.kwlist, *dir(builtins), *imported, *_AMBIGUOUS, "rows"}
    names = []
    for name in wanted:
        base = _identifier(name).lower()
        chosen = _free([base, f"{base}_"], taken)
        taken.add(chosen)
        names.append(chosen)
    return names


def _identifier(name: str) -> str:
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return f"_{plain}" if plain[:1].isdigit() or not plain else plain


def _free(candidates: list[str], taken: set[str]) -> str:
    for candidate in candidates:
        if candidate not in taken:
            return candidate
    number = 2
    while f"{candidates[-1]}{number}" in taken:
        number += 1
    return f"{candidates[-1]}{number}"
