"""Names of columns in Spark SQL, and placeholders for types that are not known yet."""

from __future__ import annotations

import re

# This module needs no Arrow, so that the compiler starts quickly.

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_WORDS = """
all alter and any as between case connect_by_root create cross current_date current_path current_timestamp
current_user describe distinct drop else except false fetch for from glob grant having if ilike inner insert
intersect interval into join lateral like minus not notnull null on or outer partitioned_by qualify regexp
returning revoke rlike rollback select serdeproperties session_user tablesample then true uncache union using
values when where with xor
"""
SQL_WORDS = frozenset(_WORDS.split())
"""Keywords that name no column without backticks, in the parser of Spark or of sqlglot (30.30)."""


def is_plain(name: str) -> bool:
    """Whether a name consists of letters, digits and underscores, and does not start with a digit."""
    return _PLAIN.fullmatch(name) is not None


def quote(name: str) -> str:
    """A name for SQL and DDL: in backticks, unless it is plain."""
    return name if is_plain(name) else backticked(name)


def column_sql(name: str) -> str:
    """A column for an expression: SQL keywords get backticks too."""
    return backticked(name) if name.lower() in SQL_WORDS else quote(name)


def backticked(name: str) -> str:
    """The name in backticks."""
    return "`" + name.replace("`", "``") + "`"


# Placeholders for the types of expressions that Spark has not checked yet. No column of a project has them.

UNKNOWN_NUMBER = "decimal(38,37)"
UNKNOWN = "struct<`not judged`:boolean>"
UNKNOWN_ARRAY = f"array<{UNKNOWN}>"

UNKNOWN_TYPES = (UNKNOWN_NUMBER, UNKNOWN, UNKNOWN_ARRAY)
