"""`upper` and `lower` as Spark SQL has them: by Unicode 17, whatever version Python knows.

Python and Spark follow the same rules, also for letters that become two, and for a sigma at the end of a word. Their
versions of Unicode differ by the characters below, for which neither depends on what Python knows of them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .texts import by_text


def upper(data: pa.Array | pa.Scalar) -> Any:
    """Texts in capital letters."""
    if _all_ascii(data):
        return pc.ascii_upper(data)
    return by_text(data, lambda text: text.translate(_CAPITAL).upper(), pa.string())


def lower(data: pa.Array | pa.Scalar) -> Any:
    """Texts in small letters."""
    if _all_ascii(data):
        return pc.ascii_lower(data)
    return by_text(data, _small, pa.string())


def _all_ascii(data: pa.Array | pa.Scalar) -> bool:
    found = pc.string_is_ascii(data)
    return bool((found if isinstance(data, pa.Scalar) else pc.all(found)).as_py())


def _small(text: str) -> str:
    if "Σ" in text:  # its form is decided by the characters around it: these are replaced one by one
        around = text.translate(_ROLES).lower()
        text = "".join(there if here == "Σ" else here for here, there in zip(text, around, strict=True))
    return text.translate(_SMALL).lower()


def _codes(ranges: str) -> list[int]:
    ends = [each.split("-") for each in ranges.split()]
    return [code for each in ends for code in range(int(each[0], 16), int(each[-1], 16) + 1)]


_PAIRS = [
    (0xA7CB, 0x264),
    (0xA7DC, 0x19B),
    *((code, code + 1) for code in _codes("1C89 A7CC A7CE A7D2 A7D4 A7DA")),
    *((code, code + 0x20) for code in _codes("10D50-10D65")),
    *((code, code + 0x1B) for code in _codes("16EA0-16EB8")),
]
"""Capital and small letters that are pairs since a version of Unicode behind 14, that of Python 3.11."""

_SMALL = dict(_PAIRS)
_CAPITAL = {small: capital for capital, small in _PAIRS}

_LETTERS = "1C89-1C8A A7CB-A7CF A7D2 A7D4 A7DA-A7DC 10D50-10D65 10D70-10D85 16EA0-16EB8 16EBB-16ED3 1DF25-1DF2A"
_MARKS = (
    "897 ECE 1ACF-1ADD 1AE0-1AEB A7F1 10D4E 10D69-10D6D 10D6F 10EC5 10EFA-10EFF 11241 113BB-113C0 113CE 113D0 113D2 "
    "113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 13447-13455 "
    "1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16FF2-16FF3 1E030-1E06D 1E08F 1E4EB-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 "
    "1E6EE-1E6EF 1E6F5 1E6FF"
)
_ROLES = {
    ord("İ"): "I",  # which becomes two characters in small letters
    **dict.fromkeys(_codes(_LETTERS), "a"),
    **dict.fromkeys(_codes(_MARKS), "\u0301"),
    **dict.fromkeys(_codes("295 1171E"), " "),
}
"""Characters whose part in a word is another one since: one with the same part that each version knows."""
