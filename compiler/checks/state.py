"""Checks of the steps between streams and tables, and of `repartition`."""

from __future__ import annotations

from dataclasses import replace

from ..language.model import RepartitionStep, Step, ToTableStep
from ..operations.base.shape import Rekey, Shape
from ..operations.to_stream import Streaming
from ..operations.to_table import Tabling
from .context import FlowContext


def check_repartition(context: FlowContext, step: Step, action: RepartitionStep, shape: Shape) -> Shape:
    """`repartition`: at once, whether the key has changed or not."""
    if shape.open or not context.has_key(step, shape):
        return replace(shape, rekey=None)
    own = step.name.text if step.name else None
    cause = shape.rekey if shape.rekey and shape.rekey.flow == context.flow.name.text and own is None else None
    rekey = cause or Rekey(context.flow.name.text, own, step.word.position)
    return context.repartition(shape, step, rekey, action.partitions or shape.partitions)


def check_to_table(context: FlowContext, step: Step, action: ToTableStep, shape: Shape) -> Shape:
    """`to_table`: the last row of each key."""
    if shape.open or not context.has_key(step, shape):
        return replace(shape, kind="table", rekey=None)
    shape = context.rekeyed(shape, step)
    store, _ = context.store(action.store, "key_value", shape.key, shape.value, shape)
    after = replace(shape, kind="table", emit=action.emit, store=store)
    return context.add(Tabling(store), shape, after, step)


def check_to_stream(context: FlowContext, step: Step, shape: Shape) -> Shape:
    """`to_stream`: each update a record."""
    return context.add(Streaming(), shape, replace(shape, kind="stream", store=None), step)
