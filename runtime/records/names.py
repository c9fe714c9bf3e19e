"""Names of columns as Spark SQL reads them. Without Arrow, so that the compiler can use it and start at once."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(name: str) -> str:
    """A name as SQL and DDL write it: in backticks unless it is plain."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
