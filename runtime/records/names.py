"""Names of columns in Spark SQL. This module needs no Arrow, so that the compiler can use it and start quickly."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(name: str) -> str:
    """A name as SQL and DDL write it: in backticks, unless it is plain."""
    return name if _PLAIN.fullmatch(name) else ticked(name)


def ticked(name: str) -> str:
    """The name in backticks."""
    return "`" + name.replace("`", "``") + "`"
