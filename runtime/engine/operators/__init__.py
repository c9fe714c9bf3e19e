"""The operators of Python stages, one module for each family: their fields, properties and entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from .operator import Operator


@cache
def operators() -> Mapping[str, type[Operator]]:
    """All operators by name: the dataclasses in the modules of this package."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    classes = (value for module in modules for value in vars(module).values() if isinstance(value, type))
    return {each.__name__: each for each in classes if issubclass(each, Operator) and is_dataclass(each)}
