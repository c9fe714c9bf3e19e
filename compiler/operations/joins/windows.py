"""Which tables with windows can be joined: those of which two rows can have the same key and the same window."""

from __future__ import annotations

from ....runtime.durations import duration_text
from ....runtime.windows import SessionWindow, SlidingWindow
from ..base.shape import Shape, Windows

_PLAIN = (
    "Make a plain table of it first: `to_stream`, `key_by` with the key and `window_start` under another name, "
    "`to_table`."
)


_FORGETS = (
    "is joined by a foreign key in windows: when its expired rows leave it depends on when answers come, and so would "
    "what finds them."
)


def windows_apart(shape: Shape, side: Shape, table: str, by_foreign_key: bool) -> tuple[str, str] | None:
    """Why the tables cannot be joined, and the way out; None if they can be, or have no windows. `side`: the other one.

    In Kafka Streams any two windowed keys have the same type. But it finds a row in a time window by the start alone,
    and so would join windows of different length as if they were one.
    """
    if not shape.windowed and not side.windowed:
        return None
    for each, what in ((shape, "The flow"), (side, f"The table '{table}'")):
        if each.windowed and each.forgets:
            return f"{what} {_FORGETS}", f"Put this join before that one. Or: {_PLAIN[0].lower()}{_PLAIN[1:]}"
    if by_foreign_key:
        # Windows of the flow go with its keys; those of the table would have to be asked for.
        why = "whose rows are forgotten after a while: who refers to them would not be told."
        return (f"The table '{table}' has windows, {why}", _PLAIN) if side.windowed else None
    if shape.windowed != side.windowed:
        what = "The flow" if shape.windowed else f"The table '{table}'"
        return f"{what} has windows, which are part of its key; the other table's rows have a key alone.", _PLAIN
    mine, theirs = shape.windows, side.windows
    if _measure(mine) == _measure(theirs):
        return None
    message = f"The flow has {_text(mine)}, the table '{table}' {_text(theirs)}: their rows have no window in common."
    return message, "Give both tables windows of one kind and length; grace and advance may differ."


def forgotten_at_some_time(table: str) -> tuple[str, str]:
    """Why a stream does not look up rows of a table that `forgets` some, and the way out."""
    return f"The table '{table}' {_FORGETS}", _PLAIN


def joined_windows(shape: Shape, side: Shape) -> Windows | None:
    """The windows of the rows of a join: kept as long as the rows of the side that keeps them longer."""
    if shape.windows is None or side.windows is None:
        return None
    return max((shape.windows, side.windows), key=lambda windows: windows.kept_ms)


def joined_closing(shape: Shape, side: Shape) -> int | None:
    """How long after its end a window of the join is closed on both sides (ms), None where nobody says."""
    if shape.closes_ms is None or side.closes_ms is None:
        return None
    return max(shape.closes_ms, side.closes_ms)


def _measure(windows: Windows | None) -> tuple[type, int]:
    """What two tables must have in common. Sessions that are equal can be there whatever the gaps."""
    window = None if windows is None else windows.window
    if window is None or isinstance(window, SessionWindow):
        return type(window), 0
    return type(window), window.length_ms


def _text(windows: Windows | None) -> str:
    if windows is None:
        return "windows of which nobody says what they are"
    if isinstance(windows.window, SessionWindow):
        return "sessions"
    kind = "sliding windows" if isinstance(windows.window, SlidingWindow) else "windows"
    return f"{kind} of {duration_text(windows.window.length_ms)}"
