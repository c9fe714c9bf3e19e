"""Parses the events of a simulation: `kill c2; add 3; restart c1 2m; roll`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import HeadwaterError
from ...suggestions import guess
from .quantities import duration_ms

RESTART_MS = 30_000
"""How long a restarting client is away, unless the event says otherwise."""

LONGEST_AWAY_MS = 365 * 86_400_000

MOST_ADDED = 1_000

FORMS = {
    "kill": "kill NAME..., or kill rack RACK",
    "add": "add NUMBER [RACK]",
    "restart": "restart NAME... [DURATION]",
    "roll": "roll [DURATION]",
}
"""The events, and how each is written."""

_DURATION = re.compile(r"[0-9]+(\.[0-9]+)?(ms|s|m|h|d)")


class EventError(HeadwaterError):
    """An event that cannot be read or cannot happen. `event`: as it was written."""

    exit_code = 2

    def __init__(self, event: str, problem: str, hint: str | None = None) -> None:
        super().__init__(f"event {event!r}: {problem}", hint)
        self.event = event


@dataclass(frozen=True)
class Event:
    """One event. `kind`: a key of FORMS, which decides the fields that are used. `text`: as written."""

    kind: str
    text: str
    names: tuple[str, ...] = ()
    rack: str | None = None
    count: int = 0
    away_ms: int = RESTART_MS


def parse_events(text: str) -> tuple[Event, ...]:
    """The events of a text, separated by `;` or line ends. Raises EventError."""
    written = (" ".join(each.split()) for each in re.split(r"[;\n]", text))
    return tuple(_event(each) for each in written if each)


def _event(text: str) -> Event:
    kind, *words = text.split(" ")
    match kind, words:
        case "kill", ["rack", rack]:
            return Event(kind, text, rack=rack)
        case "kill", [first, *_] if first != "rack":
            return Event(kind, text, names=tuple(words))
        case "add", [number] | [number, _] if re.fullmatch("[0-9]{1,9}", number):
            if not 1 <= int(number) <= MOST_ADDED:
                raise EventError(text, f"add from 1 to {MOST_ADDED:,} clients")
            return Event(kind, text, count=int(number), rack=words[1] if len(words) > 1 else None)
        case "restart", [_, *_] if not _DURATION.fullmatch(words[0]):
            names, away_ms = _away(text, words)
            return Event(kind, text, names=names, away_ms=away_ms)
        case "roll", [] | [_]:
            names, away_ms = _away(text, words)
            if not names:
                return Event(kind, text, away_ms=away_ms)
    if kind in FORMS:
        raise EventError(text, f"it is written {FORMS[kind]}")
    raise EventError(text, f"there is no event {kind!r}", guess(kind, FORMS, _known()))


def _away(text: str, words: list[str]) -> tuple[tuple[str, ...], int]:
    """The names, and the duration after them."""
    if not words or not _DURATION.fullmatch(words[-1]):
        return tuple(words), RESTART_MS
    try:
        away_ms = duration_ms(words[-1])
    except ValueError as error:  # too many digits
        raise EventError(text, str(error)) from None
    if away_ms > LONGEST_AWAY_MS:
        raise EventError(text, "a client that is away for more than a year does not come back")
    return tuple(words[:-1]), away_ms


def _known() -> str:
    return f"events: {'; '.join(FORMS.values())}"
