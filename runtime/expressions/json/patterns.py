"""Which texts are read alike by Arrow and by Spark: a regular expression that such a text matches.

What matches begins and ends with a brace, and has numbers, texts, words, braces, brackets, commas, colons in between,
each behind one that it may follow, all written as both read them. That braces and brackets fit each other is no matter
of a regular expression: Arrow's reader sees to it. An object that is not closed at the end of its text would have one
begin right behind a brace there, and one that is closed earlier has something behind it that nothing begins with: so
if Arrow takes all texts, each is one object.

A field that is read has to have a value of its type wherever its name is, as Arrow refuses all texts for one that has
another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import pyarrow as pa

_SPACE = r"[ \t\n\r]*"
_NO_QUOTE = r"[^\"\\\x00-\x1f]"
_HEX = "[0-9a-fA-F]"
_ESCAPE = (
    rf"\\(?:[\"\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F]{_HEX}{{3}}|[dD][0-7]{_HEX}{{2}}"
    rf"|[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}}))"
)
_TEXT = rf"\"(?:{_NO_QUOTE}|{_ESCAPE})*\""
_FRACTION = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17}(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})"
_WHOLE = "(?:0|-?[1-9][0-9]{0,17})"
_SCALAR = f"(?:{_TEXT}|{_FRACTION}|{_WHOLE}|true|false|null)"
_TENTHS = "(?:[0-9]{0,7}[1-9])"
_SHORT_FRACTION = rf"-?(?:[1-9][0-9]{{0,6}}\.(?:0|{_TENTHS})|0\.(?:0|0{{0,2}}[1-9]{_TENTHS}?))"
"""Fractions that Spark writes as they are written here."""

_WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = {pa.int8(): 2, pa.int16(): 4, pa.int32(): 9, pa.int64(): 18}


# Every task asks in every epoch, always for the same few types.
@lru_cache(maxsize=256)
def pattern_of(data_type: pa.StructType) -> str:
    """Matches texts that Arrow reads as Spark does, as structs of a type that `conversions.py` knows."""
    fields = list(_fields(data_type))
    other = rf"\"{_other(each.name for each in fields)}\"{_SPACE}:{_SPACE}"
    opened = [rf"(?:{other})?[\[{{]{_SPACE}"]
    values = [rf"(?:{other})?(?:{_SCALAR}|\[{_SPACE}\]|{{{_SPACE}}})"]
    for each in fields:
        name = rf"\"{re.escape(each.name)}\"{_SPACE}:{_SPACE}"
        if not pa.types.is_nested(each.type):
            values.append(f"{name}(?:{_scalar(each.type)}|null)")
        else:
            begin, end = ("{", "}") if pa.types.is_struct(each.type) else (r"\[", r"\]")
            opened.append(f"{name}{begin}{_SPACE}")
            values.append(f"{name}(?:{begin}{_SPACE}{end}|null)")
    entry = rf"(?:{'|'.join(opened)})*(?:{'|'.join(values)}){_SPACE}(?:[\]}}]{_SPACE})*"
    return rf"\A{_SPACE}{{{_SPACE}(?:{entry}(?:,{_SPACE}{entry})*)?}}{_SPACE}\z"


@lru_cache(maxsize=256)
def unquoted_of(data_type: pa.StructType) -> str | None:
    """Matches a number or a boolean that is the value of a text, where Spark takes it as it is written.

    Its second group is that value: in quotes it may be plain. Where `pattern_of` matches a text with such quotes, the
    name was a name before too: behind a text that ends there, no letter may follow. None: the type has no such texts.
    """
    texts = {each.name for each in _fields(data_type) if each.type == pa.string() and _WORD.fullmatch(each.name)}
    if not texts:
        return None
    names = "|".join(sorted(texts))
    return rf"(\"(?:{names})\"{_SPACE}:{_SPACE})({_WHOLE}|{_SHORT_FRACTION}|true|false)([,\]}} \t\n\r])"


def _fields(data_type: pa.DataType) -> Iterator[pa.Field]:
    """All fields, also those of structs in a type."""
    if pa.types.is_list(data_type):
        yield from _fields(data_type.value_type)
    elif pa.types.is_struct(data_type):
        for each in data_type:
            yield each
            yield from _fields(each.type)


def _scalar(data_type: pa.DataType) -> str:
    if data_type in _DIGITS:
        return f"0|-?[1-9][0-9]{{0,{_DIGITS[data_type] - 1}}}"
    if data_type == pa.float64():
        return f"{_FRACTION}|{_WHOLE}"
    if data_type == pa.bool_():
        return "true|false"
    if data_type == pa.string():
        return _TEXT
    before, behind = data_type.precision - data_type.scale, data_type.scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    return rf"-?{whole}(?:\.[0-9]{{1,{behind}}})?" if behind else f"-?{whole}"


def _other(names: Iterable[str]) -> str:
    """Matches what may be in quotes and is none of some names."""
    left = set(names)
    heads: dict[str, set[str]] = {}
    for each in left:
        if each:
            heads.setdefault(each[0], set()).add(each[1:])
    begins = "".join(map(re.escape, sorted(heads)))
    ways = [f"{re.escape(head)}{_other(tails)}" for head, tails in sorted(heads.items())]
    ways.append(rf"[^\"\\\x00-\x1f{begins}]{_NO_QUOTE}*")
    return f"(?:{'|'.join(ways)}){'' if '' in left else '?'}"
