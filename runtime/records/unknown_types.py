"""Types that stand for those of expressions which Spark has not judged yet. No column of a project has them."""

from __future__ import annotations

UNKNOWN_NUMBER = "decimal(38,37)"
UNKNOWN = "struct<`not judged`:boolean>"
UNKNOWN_ARRAY = f"array<{UNKNOWN}>"

UNKNOWN_TYPES = (UNKNOWN_NUMBER, UNKNOWN, UNKNOWN_ARRAY)
