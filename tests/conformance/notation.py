"""The notation of the conformance cases: records as tokens, `topic.key:value@timestamp`.

Input goes to topic `A`, output to `O`, where a token names none. `~` is a null key or value, `k[0,10):v` has the window
[0, 10) in its key, `k[0,10]:v` the session from 0 to 10. `[ ... ]` holds records that are all there before a task runs,
`d=` counts dropped records. Several value columns are written one after the other: `-` for a null one, an array's
elements without separator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NULL = "~"

_TOKEN = re.compile(
    r"""(?:(?P<topic>[A-Z])\.)?
        (?P<key>[^:\[]+) (?P<window>\[(?P<start>\d+),(?P<end>\d+)[)\]])?
        :(?P<value>[^@]*) @(?P<timestamp>-?\d+)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """One record. `key` and `value` are text or None; `window`: start and end in ms, of an output's key."""

    topic: str
    key: str | None
    value: str | None
    timestamp: int
    window: tuple[int, int] | None = None


def parse_token(text: str, topic: str) -> Token:
    """One token; `topic` is the one meant where it names none. Raises ValueError for anything else."""
    found = _TOKEN.fullmatch(text)
    if found is None:
        raise ValueError(f"not a record: {text!r}")
    return Token(
        topic=found["topic"] or topic,
        key=None if found["key"] == NULL else found["key"],
        value=None if found["value"] == NULL else found["value"],
        timestamp=int(found["timestamp"]),
        window=(int(found["start"]), int(found["end"])) if found["window"] else None,
    )


def parse_input(text: str) -> list[list[Token]]:
    """Batches of records, each processed before the next one is there.

    Records of one topic that follow one another share a batch: a task takes them in this order either way.
    """
    batches: list[list[Token]] = []
    last_topic = None
    for part in re.findall(r"\[ .*? \]|\S+", text):
        if part.startswith("[ "):
            batches.append([parse_token(token, "A") for token in part[2:-2].split()])
            last_topic = None
            continue
        token = parse_token(part, "A")
        if token.topic == last_topic:
            batches[-1].append(token)
        else:
            batches.append([token])
        last_topic = token.topic
    return batches


def parse_output(text: str) -> tuple[dict[str, list[Token]], int]:
    """The records of each output topic, in order, and the number of dropped records."""
    *records, dropped = text.split()
    if not dropped.startswith("d="):
        raise ValueError(f"no drop count at the end of {text!r}")
    return by_topic(parse_token(token, "O") for token in records), int(dropped[2:])


def by_topic(tokens: Iterable[Token]) -> dict[str, list[Token]]:
    """Tokens of each topic, in order."""
    topics: dict[str, list[Token]] = {}
    for token in tokens:
        topics.setdefault(token.topic, []).append(token)
    return topics


def token_of(topic: str, key: Mapping[str, Any] | None, value: Mapping[str, Any] | None, timestamp: int) -> Token:
    """A committed record as a token; a windowed key has `window_start` and `window_end` in ms."""
    window = None
    if key is not None and "window_start" in key:
        window = (key["window_start"], key["window_end"])
        key = {name: part for name, part in key.items() if not name.startswith("window_")}
    return Token(
        topic=topic,
        key=None if key is None else "".join(_texts(key.values())),
        value=None if value is None else "".join(_texts(value.values())),
        timestamp=timestamp,
        window=window,
    )


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _texts(value)
        else:
            yield "-" if value is None else str(value)
