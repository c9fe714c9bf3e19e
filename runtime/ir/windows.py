"""Windows as generated code declares them: which records they take, how long they stay open and are kept.

All times are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..environment import parse_duration


@dataclass(frozen=True)
class Window:
    """Time windows `[start, start + size)` at multiples of `advance`, in milliseconds (tumbling: size = advance).

    A window is closed for a record once stream time >= end + grace.
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def tumbling(cls, size: str, *, grace: str) -> Window:
        """Windows that follow one another; durations as in the YAML (`1h`)."""
        return cls.hopping(size, advance=size, grace=grace)

    @classmethod
    def hopping(cls, size: str, *, advance: str, grace: str) -> Window:
        """Windows that overlap; durations as in the YAML (`1h`)."""
        return cls(parse_duration(size), parse_duration(advance), parse_duration(grace))

    @property
    def length_ms(self) -> int:
        """From start to end."""
        return self.size_ms

    @property
    def kept_ms(self) -> int:
        """How long a row can still change after the start of its window."""
        return self.size_ms + self.grace_ms

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is behind the end of a window when it closes."""
        return self.grace_ms

    @property
    def suppressed_ms(self) -> int:
        """How far stream time is behind the end of a window when `suppress` takes it for closed."""
        return self.grace_ms

    @property
    def unseen_ms(self) -> int:
        """For how long a row stays in its store although no step finds it any more."""
        return 0


@dataclass(frozen=True)
class SessionWindow:
    """Windows of a key's records that are at most `gap` apart, both bounds included, in milliseconds.

    They start and end with their first and last record. A session is closed once stream time > end + gap + grace.
    """

    gap_ms: int
    grace_ms: int

    @classmethod
    def of(cls, gap: str, *, grace: str) -> SessionWindow:
        """Durations as in the YAML (`30m`)."""
        return cls(parse_duration(gap), parse_duration(grace))

    @property
    def kept_ms(self) -> int:
        """How long a row can still change after the end of its window."""
        return self.gap_ms + self.grace_ms

    @property
    def suppressed_ms(self) -> int:
        """How far stream time is behind the end of a session when `suppress` takes it for closed: 1 ms earlier."""
        return self.gap_ms + self.grace_ms

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is behind the end of a session when it closes."""
        return self.gap_ms + self.grace_ms + 1

    @property
    def unseen_ms(self) -> int:
        """For how long a row stays in its store although no step finds it any more: it is gone before it is closed."""
        return 1


@dataclass(frozen=True)
class JoinWindow:
    """Which records of two streams join: this one's time - `before` <= the other's <= this one's + `after`, in ms.

    A record that finds no other is given up once stream time is more than `grace` behind the last time that fits.
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
        """How long a record can still be found after its time."""
        return self.before_ms + self.after_ms + self.grace_ms

    @property
    def unseen_ms(self) -> int:
        """For how long a record stays in its store although none finds it any more."""
        return 0


@dataclass(frozen=True)
class SlidingWindow:
    """Windows `[start, start + difference]`, both bounds included, in milliseconds: wherever a record of the key is at
    their end or right before their start.

    A window is closed once stream time > end + grace.
    """

    difference_ms: int
    grace_ms: int

    @classmethod
    def of(cls, difference: str, *, grace: str) -> SlidingWindow:
        """Durations as in the YAML (`10s`)."""
        return cls(parse_duration(difference), parse_duration(grace))

    @property
    def length_ms(self) -> int:
        """From start to end."""
        return self.difference_ms

    @property
    def kept_ms(self) -> int:
        """How long a row is found after the start of its window, as a later record may make windows out of it.

        Where the difference is 0, the window of one moment is found for a record of that moment as long as it is open.
        """
        return max(2 * self.difference_ms, 1) + self.grace_ms

    @property
    def suppressed_ms(self) -> int:
        """How long `suppress` waits for a window after its end."""
        return self.grace_ms

    @property
    def closed_after_ms(self) -> int:
        """How far stream time is behind the end of a window when it closes."""
        return self.grace_ms + 1

    @property
    def unseen_ms(self) -> int:
        """For how long a row stays in its store although no step finds it any more."""
        return 0


AnyWindow = Window | SessionWindow | SlidingWindow
