"""Characters as Java has them: units of UTF-16, which may be half of a character, and what it takes for a word."""

from __future__ import annotations

import re
import unicodedata
from array import array

_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_BEGINS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_HAS = _BEGINS | {"Nd", "Mn", "Mc", "Cf"}


def in_units(text: str) -> str:
    """A text with each half of a character of two units by itself."""
    if text.isascii() or max(text) < "\U00010000":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16"))[1:]))


def characters(units: str) -> str:
    """A text of units as Spark keeps it: a half of a character that is alone becomes a question mark."""
    if units.isascii() or not any("\ud800" <= each <= "\udfff" for each in units):
        return units
    return _LONE.sub("?", units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def begins_word(unit: str) -> bool:
    """Whether a word of Java may begin with it."""
    return unicodedata.category(unit) in _BEGINS


def is_in_word(unit: str) -> bool:
    """Whether a word of Java may have it behind its first one; some characters for control count too."""
    code = ord(unit)
    return code < 9 or 0x0E <= code < 0x1C or 0x7F <= code < 0xA0 or unicodedata.category(unit) in _HAS
