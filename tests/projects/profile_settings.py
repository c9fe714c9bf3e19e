"""Every setting of `profiles.yml`, as its schema says: where it stands, and profiles in which it has a given value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "profiles.json").read_text("utf-8"))

Place = tuple[str | int, ...]

_FREE = "free"
"""A key where any may stand."""


def settings() -> Iterator[tuple[Place, dict[str, Any]]]:
    """The place of each setting in a target, and its schema."""
    yield from _below((), SCHEMA["definitions"]["target"])


def _below(place: Place, schema: dict[str, Any]) -> Iterator[tuple[Place, dict[str, Any]]]:
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rpartition("/")[2]]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if "enum" in schema or set(types) - {"object", "array"}:
        yield place, schema
    if "array" in types:
        yield (*place, 0), schema["items"]
    for name, below in schema.get("properties", {}).items():
        yield from _below((*place, name), below)
    for branch in ("then", "else"):
        if branch in schema:
            yield from _below(place, schema[branch])
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        yield from _below((*place, _FREE), more)
    elif place and place[-1] in ("meta", "options"):
        yield (*place, _FREE), {"type": "string"}


def with_value(place: Place, value: Any) -> Any:
    """A mapping that has this value at this place."""
    for key in reversed(place):
        value = [value] if isinstance(key, int) else {key: value}
    return value
