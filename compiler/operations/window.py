"""`window`: the windows of the following `aggregate` or `reduce`. It is not an operation by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ...runtime.ir.windows import AnyWindow, SessionWindow, SlidingWindow, Window
from ..entries import Reader, milliseconds, scalar
from ..reading.source import MappingNode, Node, ScalarNode
from .base.context import FlowContext, Step, StepAction
from .base.site import UNKNOWN, Shape

_MAX_WINDOWS = 100_000


@dataclass(frozen=True)
class WindowStep(StepAction):
    """`window:`, tumbling, hopping, sliding or session."""

    window: AnyWindow

    @classmethod
    def read(cls, node: Node, reader: Reader) -> Self | None:
        if not isinstance(node, MappingNode):
            return None
        grace = milliseconds(scalar(node, "grace")) or 0
        if "session" in node:
            gap = _gap(scalar(node, "session"), reader)
            return None if gap is None else cls(SessionWindow(gap, grace))
        if "sliding" in node:
            difference = milliseconds(scalar(node, "sliding"))
            return None if difference is None else cls(SlidingWindow(difference, grace))
        size_node = scalar(node, "tumbling") or scalar(node, "hopping")
        size = milliseconds(size_node)
        if size is None or size_node is None:
            return None
        advance_node = scalar(node, "advance")
        advance = milliseconds(advance_node) if advance_node is not None else size
        if advance is None:
            return None
        if size == 0:
            reader.diagnostics.add("HW515", size_node.position, "A window of size zero contains no records.")
            return None
        if advance_node is not None and not _advances(size, size_node, advance, advance_node, reader):
            return None
        return cls(Window(size, advance, grace))

    def check(self, context: FlowContext, step: Step, shape: Shape, following: Step | None) -> Shape:
        """Require an `aggregate` or a `reduce` as the next step, and no window yet."""
        if following is None or (following.action is not None and following.word.text not in ("aggregate", "reduce")):
            what = "nothing" if following is None else f"'{following.word.text}'"
            message = f"A 'window' must be followed by an 'aggregate' or a 'reduce', not by {what}."
            context.report("HW505", step.word.position, message, "Put steps on single records before the window.")
            return UNKNOWN
        if shape.windowed:
            message = "The key of this stream already has a window."
            hint = "Put `key_by` with the columns to group by before it."
            context.report("HW501", step.word.position, message, hint)
            return UNKNOWN
        return replace(shape, window=self.window)


def _gap(node: ScalarNode | None, reader: Reader) -> int | None:
    """The gap of sessions in ms; None if it is zero, which is reported, or not a duration."""
    gap = milliseconds(node)
    if gap == 0 and node is not None:
        reader.diagnostics.add("HW515", node.position, "A session window needs a gap above zero.")
    return gap or None


def _advances(size: int, size_node: ScalarNode, advance: int, advance_node: ScalarNode, reader: Reader) -> bool:
    """Whether windows of this size can advance by this interval (ms); otherwise reports it."""
    if not 0 < advance <= size:
        message = f"The advance ({advance_node.text}) must be above zero and at most the size ({size_node.text})."
    elif size > advance * _MAX_WINDOWS:
        message = f"Each record would be in {size // advance:,} windows; the maximum is {_MAX_WINDOWS:,}."
    else:
        return True
    reader.diagnostics.add("HW515", advance_node.position, message)
    return False
