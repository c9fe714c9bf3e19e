"""Hides the values of environment variables that a profile names: messages show `***` in their place.

Messages come from a hundred places, libraries too, and few of them know the profile. So the values are kept for the
process, as its environment is, and every message passes through `hide`, as a part of `readable_text.readable`: those of
diagnostics (`Diagnostics`), errors (`HeadwaterError`) and events, and the paths that commands print.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

HIDDEN = "***"

_LONG = 8
"""A value of this length is hidden everywhere. A shorter one may be part of any word: in diagnostics it is hidden at
its own line, and in other messages between quotes.
"""

_SHORTEST = 4
"""A shorter value is only hidden in diagnostics at its own line: it may be any number."""

_OWN_WORDS = frozenset({"headwater", "embedded", "object_store"})
"""Long words of Headwater's own messages, which are no secrets: names of built-in logs."""

_QUOTES = "'\"`"


class HiddenValues:
    """The values to hide. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._long: set[str] = set()
        self._short: set[str] = set()
        self._at: dict[str, set[str]] = {}
        self._shown: set[str] = set()
        self._anywhere: re.Pattern[str] | None = None
        self._quoted: re.Pattern[str] | None = None

    def add(self, value: str, at: str | None = None) -> None:
        """Hide a value. `at`: the `file:line` that reads the environment variable."""
        forms = {form for form in _forms(value) if form and form.lower() not in _OWN_WORDS}
        long = {form for form in forms if len(form) >= _LONG}
        with self._lock:
            if at is not None:
                self._at.setdefault(at, set()).update(forms - long)
            if long <= self._long and forms - long <= self._short:
                return
            self._long |= long
            self._short |= forms - long
            self._compile()

    def show(self, addresses: str) -> None:
        """Show these addresses, separated by commas, also where a hidden value is one of them or a part of one."""
        shown = {part.strip().casefold() for part in (addresses, *addresses.split(","))} - {""}
        with self._lock:
            if not shown <= self._shown:
                self._shown |= shown
                self._compile()

    def _compile(self) -> None:
        self._anywhere = _pattern(self._long | self._shown) if self._long else None
        short = {form for form in self._short if len(form) >= _SHORTEST}
        self._quoted = _pattern(short, rf"(?<=[{_QUOTES}])", rf"(?=[{_QUOTES}])")

    def forget(self) -> None:
        """Stop hiding all values, for a process that continues with other projects."""
        with self._lock:
            for values in (self._long, self._short, self._at, self._shown):
                values.clear()
            self._anywhere = self._quoted = None

    def hide(self, text: str, at: str | None = None) -> str:
        """The text without hidden values. `at`: the `file:line` of the diagnostic that the text belongs to."""
        short = self._quoted if at is None else _pattern(self._at.get(at, set()), r"(?<!\w)", r"(?!\w)")
        for pattern in (self._anywhere, short):
            text = text if pattern is None else pattern.sub(self._replacement, text)
        return text

    def _replacement(self, found: re.Match[str]) -> str:
        return found[0] if found[0].casefold() in self._shown else HIDDEN


def _forms(value: str) -> Iterator[str]:
    """The forms in which a message may contain a value, or a part of it."""
    yield value.strip()
    yield from (line.strip() for line in value.splitlines() if len(line.strip()) >= _LONG)
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield quote(value)
    yield quote(value, safe="")
    if "/" in value:
        yield re.sub("/+", "/", value).removesuffix("/")
    for digits in re.findall(r"\d+", value):
        if len(digits) >= _LONG:
            yield from (digits, f"{int(digits):,}", f"{int(digits):_}") if len(digits) < 100 else (digits,)
    if "://" in value:
        try:
            url = urlsplit(value)
            parts = (url.netloc, url.hostname, url.username, url.password)
        except ValueError:
            return
        yield from (part for part in parts if part and len(part) >= _LONG)


def _pattern(forms: set[str], before: str = "", after: str = "") -> re.Pattern[str] | None:
    """A pattern for these texts; of several with the same beginning it matches the longest."""
    if not forms:
        return None
    either = "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    return re.compile(f"{before}(?:{either}){after}", re.IGNORECASE)


_OF_THE_PROCESS = HiddenValues()

hidden_value = _OF_THE_PROCESS.add
shown_addresses = _OF_THE_PROCESS.show
forget_hidden_values = _OF_THE_PROCESS.forget
hide = _OF_THE_PROCESS.hide
