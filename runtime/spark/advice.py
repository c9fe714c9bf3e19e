"""Spark's advice to change its settings, which its messages end with. Headwater fixes these settings."""

from __future__ import annotations

import re

_ADVICE = re.compile(r'\s*If (?:necessary|you want)\b[^\n]*?\bset "?spark\.[\w.]+"? to [^\n]*?\.(?=\s|$)')


def without_advice(message: str) -> str:
    """The message without such sentences: `If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.`
    Other advice (`Use try_divide ...`) can be followed, and stays.
    """
    return _ADVICE.sub("", message)
