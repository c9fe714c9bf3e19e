"""What steps that make one row of each group have in common: the store, and the table behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....runtime.durations import duration_text
from ....runtime.operators.declarations import Emit
from ....runtime.topology import Store, StoreType
from ....runtime.windows import AnyWindow, SessionWindow, SlidingWindow
from ...reading.nodes import Scalar
from ..base.context import FlowContext
from ..base.shape import WINDOW_COLUMNS, Shape


def behind_group(shape: Shape, value: Mapping[str, str | None], emit: Emit) -> Shape:
    """The table of the groups of a stream or table of this shape. `value`: its columns."""
    return replace(
        shape,
        kind="table",
        key={**shape.plain_key, **WINDOW_COLUMNS} if shape.window else dict(shape.key),
        value=value,
        windowed=shape.windowed or shape.window is not None,
        closes_ms=shape.window.suppressed_ms if shape.window else shape.closes_ms,
        rekey=None,
        window=None,
        emit=emit,
    )


def group_store(context: FlowContext, named: Scalar | None, shape: Shape, value: Mapping[str, str | None]) -> Store:
    """The store of the rows of groups: the one of this name, or one named after the flow."""
    type_ = _store_type(shape.window)
    key = shape.plain_key if shape.window else shape.key
    store, model = context.store(named, type_, key, value, shape)
    if shape.window is None:
        return store
    window = shape.window
    needed = window.kept_ms
    retention = model.retention_ms if model else None
    if model is not None and model.retention is not None and retention is not None and retention < needed:
        what = {SessionWindow: "gap", SlidingWindow: "twice the difference"}.get(type(window), "window")
        message = f"The retention of '{model.name.text}' ({model.retention.text}) is shorter than {what} and grace."
        hint = f"Set it to {duration_text(needed)} at least, or leave it out."
        context.report("HW507", model.retention.position, message, hint)
    return replace(store, window=window, retention_ms=retention)


def _store_type(window: AnyWindow | None) -> StoreType:
    if window is None:
        return "key_value"
    return "session" if isinstance(window, SessionWindow) else "window"
