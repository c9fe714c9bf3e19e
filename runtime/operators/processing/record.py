"""A record as a processor sees it, and as it makes one."""

from __future__ import annotations

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
