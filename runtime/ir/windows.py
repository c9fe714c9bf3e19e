"""Windows as generated code declares them: their records, how long they stay open, and how long rows are kept.

All times are in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..environment import parse_duration


class _Kept:
    """What is the same for most windows."""

    grace_ms: int

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is past the end of a window when it closes."""
        return self.grace_ms

    @property
    def suppressed_ms(self) -> int:
        """How far stream time is past the end of a window when `suppress` treats it as closed."""
        return self.grace_ms

    @property
    def unseen_ms(self) -> int:
        """How long a row stays in its store after steps stop finding it."""
        return 0


@dataclass(frozen=True)
class Window(_Kept):
    """Time windows `[start, start + size)`. They start at multiples of `advance`. Tumbling windows: size = advance.

    A window is closed once stream time >= end + grace.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def tumbling(cls, size: str, *, grace: str) -> Window:
        """Consecutive windows without overlap. Durations as in the YAML (`1h`)."""
        return cls.hopping(size, advance=size, grace=grace)

    @classmethod
    def hopping(cls, size: str, *, advance: str, grace: str) -> Window:
        """Overlapping windows. Durations as in the YAML (`1h`)."""
        return cls(parse_duration(size), parse_duration(advance), parse_duration(grace))

    @property
    def length_ms(self) -> int:
        """The length of a window from start to end."""
        return self.size_ms

    @property
    def kept_ms(self) -> int:
        """How long after the start of its window a row can change."""
        return self.size_ms + self.grace_ms


@dataclass(frozen=True)
class SessionWindow(_Kept):
    """Sessions: windows of a key's records with gaps of at most `gap`.

    A session starts at its first record and ends at its last one, both included. It is closed once stream time > end +
    gap + grace.
    """

    gap_ms: int
    grace_ms: int

    @classmethod
    def of(cls, gap: str, *, grace: str) -> SessionWindow:
        """Durations as in the YAML (`30m`)."""
        return cls(parse_duration(gap), parse_duration(grace))

    @property
    def kept_ms(self) -> int:
        """How long after the end of its session a row can change."""
        return self.gap_ms + self.grace_ms

    @property
    def suppressed_ms(self) -> int:
        """How far stream time is past the end of a session when `suppress` treats it as closed: 1 ms earlier."""
        return self.gap_ms + self.grace_ms

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is past the end of a session when it closes."""
        return self.gap_ms + self.grace_ms + 1

    @property
    def unseen_ms(self) -> int:
        """How long a row stays in its store after steps stop finding it. It can no longer be found before it closes."""
        return 1


@dataclass(frozen=True)
class JoinWindow(_Kept):
    """The condition for two records to join: this time - `before` <= other time <= this time + `after`.

    A record without a match stops waiting once stream time is more than `grace` past the last matching time.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    @classmethod
    def of(cls, before: str, after: str, *, grace: str) -> JoinWindow:
        """Durations as in the YAML (`10s`)."""
        return cls(parse_duration(before), parse_duration(after), parse_duration(grace))

    @property
    def kept_ms(self) -> int:
        """How long after its time a record can be found."""
        return self.before_ms + self.after_ms + self.grace_ms


@dataclass(frozen=True)
class SlidingWindow(_Kept):
    """Sliding windows `[start, start + difference]`, both bounds included.

    A key has a window wherever one of its records is at the end, or 1 ms before the start. A window is closed once
    stream time > end + grace.
    """

    difference_ms: int
    grace_ms: int

    @classmethod
    def of(cls, difference: str, *, grace: str) -> SlidingWindow:
        """Durations as in the YAML (`10s`)."""
        return cls(parse_duration(difference), parse_duration(grace))

    @property
    def length_ms(self) -> int:
        """The length of a window from start to end."""
        return self.difference_ms

    @property
    def kept_ms(self) -> int:
        """How long after the start of its window a row can be found: a later record may copy it for a new window.

        With a difference of 0, a window of one moment can be found by a record of that moment while it is open.
        """
        return max(2 * self.difference_ms, 1) + self.grace_ms

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is past the end of a window when it closes."""
        return self.grace_ms + 1


AnyWindow = Window | SessionWindow | SlidingWindow
