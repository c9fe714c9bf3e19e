"""Which way records are folded: by key and window, into sessions, or into sliding windows."""

from __future__ import annotations

from ...windows import SlidingWindow
from .. import declarations
from ..declarations import Side
from ..rows import Rows
from ..sessions.session_table import SessionTable
from ..sliding.sliding_table import SlidingTable
from ..task_epoch import TaskEpoch
from .calls import Fold
from .groups import Folding
from .sessions import FoldedSessions
from .sliding import FoldedSlides


def folded(
    fold: Fold,
    node: declarations.Reduce | declarations.AggregateWith,
    of: Side,
    step: str,
    rows: Rows,
    epoch: TaskEpoch,
) -> Rows:
    """The changes that records make of a node's rows. `step`: its name. Raises RowFailedError."""
    if node.store.type == "session":
        return SessionTable(node.store, FoldedSessions(fold), node.emit, node.old, step, node.headers).run(rows, epoch)
    if isinstance(node.store.window, SlidingWindow):
        return SlidingTable(node.store, FoldedSlides(fold), node.emit, node.old, step).run(rows, epoch)
    return Folding(fold, node.store, node.emit, node.old, of, step).run(rows, epoch)
