"""`aggregate` with a class of the project: its check, and the operation that it becomes."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....runtime.operators.declarations import AggregateWith, Side
from ....runtime.python_functions.code import PythonFunction
from ....runtime.topology import Store
from ....runtime.windows import SessionWindow
from ...reading.nodes import Scalar
from ..base.context import FlowContext
from ..base.operation import EVERY_CHANGE, Description, Processor, PythonOperation, TableUse
from ..base.shape import Shape
from ..base.site import PythonLayout, Site


def aggregator(context: FlowContext, name: Scalar, shape: Shape) -> PythonFunction | None:
    """The class of this name, if it has the methods for an input of this shape; otherwise reports what is missing."""
    found = context.functions.find(name)
    if found is None:
        return None
    made = found.loaded
    if made is None:  # nothing is imported
        return found.function
    if not inspect.isclass(made):
        message = f"`aggregate` makes an object of a class; '{name.text}' is of type {type(made).__name__}."
        hint = "Write a class with `initial(self)` and `add(self, state, key, value)`."
        context.report("HW530", name.position, message, hint)
        return None
    wanted: dict[str, tuple[str, ...]] = {"initial": (), "add": ("state", "key", "value")}
    if shape.is_table:
        wanted["subtract"] = ("state", "key", "value")
    if isinstance(shape.window, SessionWindow):
        wanted["merge"] = ("first", "second")
    fits = context.functions.fits(name, made, (), "`aggregate` makes an object of its class")
    for method, arguments in wanted.items():
        fits = _has(context, name, made, method, arguments) and fits
    return found.function if fits else None


def _has(context: FlowContext, name: Scalar, made: type, method: str, arguments: Sequence[str]) -> bool:
    """Whether a class has a method that can be called with these arguments; otherwise reports it."""
    found: Any = getattr(made, method, None)
    if found is None:
        why = {"subtract": " for the old rows of a table", "merge": " for sessions that become one"}.get(method, "")
        message = f"The class '{name.text}' has no method '{method}', which `aggregate` calls{why}."
        context.report("HW530", name.position, message, f"Add `{method}({', '.join(('self', *arguments))})`.")
        return False
    bound = inspect.ismethod(found) or isinstance(inspect.getattr_static(made, method), staticmethod)
    given = arguments if bound else ("self", *arguments)
    return context.functions.fits(name, found, given, f"`aggregate` calls '{method}'")


@dataclass(frozen=True)
class AggregatingWith(PythonOperation):
    """Aggregates the values of each group by a class. `final`: whether only final rows go on."""

    store: Store
    function: PythonFunction
    of: Side
    final: bool

    has_effect = True
    null_keys = "dropped"

    def needs(self, output: frozenset[str], offered: frozenset[str]) -> frozenset[str]:
        """A class gets all columns."""
        return offered

    def table_use(self, shape: Shape, positive: frozenset[str]) -> TableUse:
        """A table's changes arrive here through a repartition topic."""
        return EVERY_CHANGE

    def describe(self, of_table: bool, lookups: Sequence[Shape]) -> Description:
        role = "KTABLE-AGGREGATE" if of_table else "KSTREAM-AGGREGATE"
        text = f"aggregate by {self.function.name}"
        return Description(text, (Processor(role, stores=(self.store.name,)),))

    def in_python(self, site: Site) -> PythonLayout:
        edge, shape = site.input, site.output.shape
        site.declared.stores[self.store.name] = self.store
        emit, old = site.changes(frozenset(), True)
        headers = self.final and self.store.type == "session"
        node = AggregateWith(edge.name, self.store, self.function, emit, old, self.of, headers, site.at)
        return PythonLayout((node,), (replace(edge, shape=shape, value=tuple(shape.value)),))
