"""What a processor is told that asks its context or a store for a word that there is none of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ....suggestions import closest, guess

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class Words:
    """What something understands. `of`: it, for people. `kafka`: words of Kafka -> how the same is said here."""

    of: str
    here: tuple[str, ...]
    kafka: Mapping[str, str] = field(default_factory=dict)

    def unknown(self, word: str) -> AttributeError:
        """The error for a word that is none of these."""
        close = closest(_CAPITAL.sub("_", word), self.here)
        said = self.kafka.get(word) or next((f"`{each}`" for each in close), None)
        guess = f"did you mean {said}? " if said else ""
        return AttributeError(f"{self.of} has no `{word}`: {guess}It has {', '.join(self.here)}")


def not_named(name: object, word: str, known: Iterable[str]) -> str:
    """What is wrong with the name of a store or flow that the step does not name. `word`: under which it would."""
    names = list(known)
    return f"{name!r} is none of the step's `{word}`: {guess(str(name), names, ', '.join(names) or 'none')}"


_TIMED_KAFKA = {
    "backwardFetch": "`fetch` with `reverse=True`",
    "fetchAll": "`fetch_all`",
    "backwardAll": "`all` with `reverse=True`",
}
KEY_VALUE = Words(
    "a key-value store",
    (
        *("get", "put", "put_all", "put_if_absent", "delete", "range", "prefix", "all", "count"),
        *("get_many", "put_many", "delete_many"),
    ),
    {
        "reverseRange": "`range` with `reverse=True`",
        "reverseAll": "`all` with `reverse=True`",
        "prefixScan": "`prefix`",
        "approximateNumEntries": "`count`",
        "fetch": "`get`, or a store of `type: window`",
    },
)
WINDOW = Words(
    "a window store",
    ("put", "fetch", "fetch_all", "all", "get_many", "put_many", "delete_many"),
    {
        **_TIMED_KAFKA,
        "backwardFetchAll": "`fetch_all` with `reverse=True`",
        "get": "`fetch(key, start)`",
        "delete": "`put(key, None, start)`",
        "remove": "`put(key, None, start)`",
    },
)
SESSION = Words(
    "a session store",
    (
        *("put", "remove", "fetch_session", "find_sessions", "find_all_sessions", "fetch", "fetch_all", "all"),
        *("get_many", "put_many", "delete_many"),
    ),
    {
        **_TIMED_KAFKA,
        "backwardFindSessions": "`find_sessions` with `reverse=True`",
        "get": "`fetch_session(key, start, end)`",
        "delete": "`remove`",
    },
)
CONTEXT = Words(
    "the context",
    ("store", "forward", "schedule", "schedules", "stream_time", "topic", "offset", "partition", "task_id"),
    {
        "getStateStore": "`store`",
        "get_state_store": "`store`",
        "currentStreamTimeMs": "`stream_time`",
        "current_stream_time_ms": "`stream_time`",
        "timestamp": "`record.timestamp`",
        "headers": "`record.headers`",
        "recordMetadata": "`topic`, `partition` and `offset`",
        "state": "`store`",
    },
)
