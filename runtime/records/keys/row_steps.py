"""How far apart the times lie with which the keys of rows begin, in stores of any layout that goes by time."""

from __future__ import annotations

from ...topology import Store
from ...windows import JoinWindow, SessionWindow, SlidingWindow
from . import joins, session_segments, timed
from .windows import first_window_key


def row_step(store: Store) -> int:
    """What the times are multiples of that the keys of a windowed store begin with, in ms."""
    if isinstance(store.window, JoinWindow):
        return joins.segment_length(store.window)
    if store.keeps_given_windows and store.retention_ms is not None:
        return timed.segment_length(store.retention_ms)
    if isinstance(store.window, SessionWindow | SlidingWindow):
        return session_segments.segment_length(store.window)
    return 1


def first_row_key(store: Store, *bounds: int | None) -> bytes | None:
    """The first key of the rows that may have something from the latest of these times (ms) on; None if all may."""
    times = [bound for bound in bounds if bound is not None]
    # No time before this can be that of their segment, nor of a shorter one of an earlier version.
    return first_window_key(max(times) - row_step(store) + 1) if times else None
