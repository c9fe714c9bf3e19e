"""Names of columns that are made of SQL. Spark SQL takes those for one that differ in upper and lower case alone."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32


def column_name(sql: str) -> str:
    """The name of a column for SQL, whatever other columns there are."""
    return sql if sql == sql.lower() else _marked(sql)


def told_apart(texts: Iterable[str]) -> dict[str, str]:
    """SQL -> the name of its column: the SQL itself, but for what differs from one before in case alone.

    So `sum(if(x = 'a', 1, 0))` beside `sum(if(x = 'A', 1, 0))` gets another name, and all else keeps the one that
    earlier versions have given it.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(texts):
        names[text] = _marked(text) if text.lower() in taken else text
        taken.add(text.lower())
    return names


def _marked(sql: str) -> str:
    return f"{sql} #{crc32(sql.encode()):08x}"
