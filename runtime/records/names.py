"""Names of columns, and of types that nobody knows."""

from __future__ import annotations

import re

# Names of columns in Spark SQL. This module needs no Arrow, so that the compiler can use it and start quickly.

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_WORDS = """
all alter and any as between case connect_by_root create cross current_date current_path current_timestamp
current_user describe distinct drop else except false fetch for from glob grant having if ilike inner insert
intersect interval into join lateral like minus not notnull null on or outer partitioned_by qualify regexp
returning revoke rlike rollback select serdeproperties session_user tablesample then true uncache union using
values when where with xor
"""
SQL_WORDS = frozenset(_WORDS.split())
"""Words that are no column where they stand without backticks, in Spark's parser or in sqlglot's (30.30)."""


def is_plain(name: str) -> bool:
    """Whether a name is one word of letters, digits and underscores, and begins with no digit."""
    return _PLAIN.fullmatch(name) is not None


def quote(name: str) -> str:
    """A name as SQL and DDL write it: in backticks, unless it is plain."""
    return name if is_plain(name) else ticked(name)


def column_sql(name: str) -> str:
    """A column as an expression reads it: a name that is a word of SQL has backticks too."""
    return ticked(name) if name.lower() in SQL_WORDS else quote(name)


def ticked(name: str) -> str:
    """The name in backticks."""
    return "`" + name.replace("`", "``") + "`"


# Types that stand for those of expressions which Spark has not judged yet. No column of a project has them.

UNKNOWN_NUMBER = "decimal(38,37)"
UNKNOWN = "struct<`not judged`:boolean>"
UNKNOWN_ARRAY = f"array<{UNKNOWN}>"

UNKNOWN_TYPES = (UNKNOWN_NUMBER, UNKNOWN, UNKNOWN_ARRAY)
