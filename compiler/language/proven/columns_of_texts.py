"""The types of what is read of texts, whose columns are written down: `from_json(s, 'a int, b string')`."""

from __future__ import annotations

import re

from ...types import canonical, fields
from .terms import unproven

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_COLUMNS = re.compile(rf"\s*(?:struct\s*<.*>\s*|{_WORD}\s+{_WORD}\b.*)", re.IGNORECASE | re.DOTALL)
_PARTS = re.compile(rf"(?:{_WORD}|[0-9]+|[\s,:<>()])*")
_OTHER_WORDS = re.compile(r"\b(?:not|null|comment|collate|default|generated|char|varchar|map)\b", re.IGNORECASE)
_WHOLE_TEXT = "_corrupt_record"


def columns_type(text: str) -> str:
    """The type of structs of columns, which are a list or a struct. Raises UnprovenTypeError."""
    if not _COLUMNS.fullmatch(text) or not _PARTS.fullmatch(text) or _OTHER_WORDS.search(text):
        unproven(f"the type '{text}' is only known to Spark")
    whole = re.match(r"\s*struct\s*<", text, re.IGNORECASE)
    try:
        found = canonical(text if whole else f"struct<{text}>")
    except ValueError:
        unproven(f"the type '{text}' is only known to Spark")
    _refuse_alike(found)
    if _WHOLE_TEXT in found.lower() or (not whole and _has_colon(text)):
        unproven(f"the type '{text}' is only known to Spark")
    return found


def field_type(type_: str, name: str) -> str:
    """The type of a field of a struct. Raises UnprovenTypeError."""
    found = fields(type_).get(name) if type_.startswith("struct<") else None
    if found is None:
        unproven(f"the field `{name}` of {type_} is only known to Spark")
    _refuse_alike(type_)
    return found


def _refuse_alike(type_: str) -> None:
    """Refuse a struct of two fields of a name: upper and lower case do not differ."""
    inner = fields(type_)
    if len({name.casefold() for name in inner}) < len(inner):
        unproven(f"which of two fields of {type_} is meant is only known to Spark")
    for each in inner.values():
        while each.startswith("array<"):
            each = each[len("array<") : -1]
        _refuse_alike(each)


def _has_colon(text: str) -> bool:
    """Whether there is a colon outside of all structs."""
    depth = 0
    for char in text:
        depth += (char == "<") - (char == ">")
        if char == ":" and not depth:
            return True
    return False
