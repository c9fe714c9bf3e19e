"""A record as a processor sees it, and as it makes one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Record(NamedTuple):
    """A record. `key`, `value`: objects with an attribute for each column, or None.

    `timestamp`: ms since 1970. `headers`: texts by name. To forward one, mappings by column will do for key and value.
    As of every named tuple, `record._replace(value=...)` is a copy with another value.
    """

    key: Any
    value: Any
    timestamp: int
    headers: Mapping[str, str] | None = None


def header_text(headers: Any) -> str:
    """Headers as topics have them. Raises ValueError unless they are texts by name, which UTF-8 can write."""
    if not isinstance(headers, Mapping) or not all(
        isinstance(name, str) and isinstance(text, str) for name, text in headers.items()
    ):
        raise ValueError(f"headers are texts by name, not {headers!r:.100}")
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"headers are texts that UTF-8 can write, not {headers!r:.100}") from None
    return text
