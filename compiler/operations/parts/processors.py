"""Checks of the class and the stores of a `process` step."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from ....runtime.ir.topology import Store
from ...diagnostics import did_you_mean
from ...entries import declared_store
from ...reading.source import MappingNode, ScalarNode
from ..base.context import FlowContext, Step

_METHODS = {"init": ("context",), "process": ("record",), "process_batch": ("batch",), "close": ()}
"""The methods of a processor with their arguments."""


def check_processor(context: FlowContext, name: ScalarNode, kind: Any, options: MappingNode | None) -> bool:
    """Whether a class can be a processor; otherwise reports it. `kind`: the class; None if modules are not imported."""
    if kind is None:
        return True
    if not isinstance(kind, type):
        message = f"`process` needs a class; '{name.text}' is of type {type(kind).__name__}."
        context.report("HW540", name.position, message, "Write a class with a method `process(self, record)`.")
        return False
    processes = [method for method in ("process", "process_batch") if callable(getattr(kind, method, None))]
    if len(processes) != 1:
        has = "both methods `process` and `process_batch`" if processes else "no method `process`"
        message = f"The class '{name.text}' has {has}."
        hint = (
            "Define one of them: `process(self, record)` for single records, or `process_batch(self, batch)` for many."
        )
        context.report("HW540", name.position, message, hint)
        return False
    fits = all(
        _method_fits(context, name, kind, method, arguments)
        for method, arguments in _METHODS.items()
        if hasattr(kind, method)
    )
    return _options_fit(context, name, kind, options) and fits


def _method_fits(context: FlowContext, name: ScalarNode, kind: type, method: str, arguments: tuple[str, ...]) -> bool:
    called = inspect.getattr_static(kind, method)
    plain = called.__func__ if isinstance(called, staticmethod | classmethod) else called
    if inspect.iscoroutinefunction(plain) or inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        message = f"`{method}` of '{name.text}' returns a generator or a coroutine, which is never run."
        context.report("HW540", name.position, message, "Write a plain method, and `forward` its results.")
        return False
    itself = () if isinstance(called, staticmethod | classmethod) else ("self",)
    bound = getattr(kind, method)
    return context.functions.fits(name, bound, (*itself, *arguments), f"`{method}` is called")


def _options_fit(context: FlowContext, name: ScalarNode, kind: type, options: MappingNode | None) -> bool:
    """Whether the class can be created with the options; otherwise reports it."""
    try:
        signature = inspect.signature(kind)
    except ValueError:  # of a built-in
        return True
    given = options.to_python() if options is not None else {}
    parameters = signature.parameters.values()
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        unknown = next((option for option in given if option not in signature.parameters), None)
        if unknown is not None and options is not None:
            message = f"'{name.text}' has no parameter '{unknown}'."
            hint = did_you_mean(unknown, signature.parameters) or f"Its parameters are {signature}."
            context.report("HW540", options.key_position(unknown), message, hint)
            return False
    try:
        signature.bind(**given)
    except TypeError as error:
        position = options.position if options is not None else name.position
        message = f"'{name.text}' cannot be created with these options: {error}."
        context.report("HW540", position, message, f"Its parameters are {signature}.")
        return False
    return True


def processor_name(context: FlowContext, step: Step) -> str:
    """The name under which the punctuations of a processor are stored: the flow's.

    Further processors of the flow add the step's name, or their number: `flow.step`, `flow.2`.
    """
    earlier = sum(hasattr(placed.operation, "stores") for placed in context.operations)
    if not earlier:
        return context.name.text
    return f"{context.name.text}.{step.name.text if step.name else earlier + 1}"


def processor_store(context: FlowContext, name: ScalarNode, partitions: int) -> Store | None:
    """A store with its declared columns; None if an error was reported."""
    model = context.topology.stores.get(name.text)
    if model is None:  # which has been reported
        return None
    if model.type is None or not model.key or not model.value:
        missing = [key for key in ("type", "key", "value") if not getattr(model, key)]
        message = f"A processor uses the store '{name.text}', which does not declare its {' and its '.join(missing)}."
        hint = f"For example `{name.text}: {{type: key_value, key: {{id: string}}, value: {{n: bigint}}}}`."
        context.report("HW541", name.position, message, hint)
        return None
    if model.type != "key_value" and not model.retention_ms:
        what = "has no `retention`" if model.retention is None else "has a `retention` of 0"
        message = f"The {model.type} store '{name.text}' {what}, so its rows would never expire."
        counts = "start of the window" if model.type == "window" else "end of the session"
        hint = f"With `retention: 1d`, a row expires when a row is put that is a day later, by the {counts}."
        context.report("HW541", name.position, message, hint)
        return None
    for column in model.key.values():
        if context.rejects_map(column.type, column.name.position, f"'{column.name.text}'"):
            return None
    key = {column_name: declared.type for column_name, declared in model.key.items()}
    value = {column_name: declared.type for column_name, declared in model.value.items()}
    store = declared_store(name.text, model, model.type, key, value, partitions)
    return replace(store, retention_ms=model.retention_ms)
