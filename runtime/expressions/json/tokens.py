"""A JSON tokenizer with the behaviour of Spark's JSON reader, also for malformed JSON."""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

# Java's characters are UTF-16 code units. A character above U+FFFF has two of them, a surrogate pair.
#
# Here a "unit" is a Python character for one code unit. The functions `begins_word` and `is_in_word` follow Java's
# rules for identifiers.

_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_BEGINS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_HAS = _BEGINS | {"Nd", "Mn", "Mc", "Cf"}


def in_units(text: str) -> str:
    """A string as UTF-16 code units, with two surrogates for a character above U+FFFF.

    "a😀" has two characters and the units U+0061, U+D83D, U+DE00.
    """
    if text.isascii() or max(text) < "\U00010000":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16"))[1:]))


def characters(units: str) -> str:
    """The inverse of `in_units`. A lone surrogate becomes "?", as in Spark: U+0061, U+D800 gives "a?"."""
    if units.isascii() or not any("\ud800" <= each <= "\udfff" for each in units):
        return units
    return _LONE.sub("?", units).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def begins_word(unit: str) -> bool:
    """Whether a Java identifier may begin with a unit."""
    return unicodedata.category(unit) in _BEGINS


def is_in_word(unit: str) -> bool:
    """Whether a Java identifier may contain a unit after the first one. Some control characters count too."""
    code = ord(unit)
    return code < 9 or 0x0E <= code < 0x1C or 0x7F <= code < 0xA0 or unicodedata.category(unit) in _HAS


# Errors of values, for the code that converts the object or array around them.


class LostError(Exception):
    """A value is malformed JSON, or does not fit its type."""


class PartlyError(Exception):
    """A part of a struct or array is invalid. `value`: the struct or array, with null for that part."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


# The tokenizer. Like Spark's reader, it returns tokens of malformed JSON up to the error.
#
# It also accepts strings and names in single quotes, NaN, INF and Infinity. It parses a string in double quotes lazily:
# when the caller reads the text, or moves to the next token. The caller may continue after an error. Spark's result
# for the rest of the string then depends on the position of its reader, so this tokenizer stops at the same positions.

MOST_LEVELS = 1000
_MOST_DIGITS = 1000
_LONGEST_WORD = 256
"""The number of units that are skipped at most after an unknown word."""

_PLAIN = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
_SPACE = re.compile(r"[ \t\n\r]*")
_DIGITS = re.compile(r"[0-9]*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", **{each: each for each in "\"'/\\"}}


class Kind(Enum):
    """The kinds of tokens. TEXT is a string, WHOLE an integer, FRACTION any other number."""

    NAME = auto()
    TEXT = auto()
    WHOLE = auto()
    FRACTION = auto()
    TRUE = auto()
    FALSE = auto()
    NULL = auto()
    OBJECT = auto()
    OBJECT_END = auto()
    ARRAY = auto()
    ARRAY_END = auto()


_WORDS = {"t": ("true", Kind.TRUE), "f": ("false", Kind.FALSE), "n": ("null", Kind.NULL)}
_NUMBERS = {"N": "NaN", "I": "Infinity"}


@dataclass
class _Scope:
    """An open object or array, or the top level.

    `closing`: its closing bracket, empty for the top level. `name`: of the current field of an object. `entries`: the
    number of its entries so far.
    """

    closing: str
    name: str | None = None
    entries: int = 0


class Tokens:
    """The tokenizer of one string. `kind`: the kind of the current token; None before the first and after the last.

    All methods raise LostError for malformed JSON. The tokens of {"v":[1, 2.5], 's':null}, with `name` and `number`:

        OBJECT
        NAME       v
        ARRAY      v
        WHOLE            1
        FRACTION         2.5
        ARRAY_END  v
        NAME       s
        NULL       s
        OBJECT_END
    """

    def __init__(self, text: str) -> None:
        self.kind: Kind | None = None
        self._text = in_units(text)
        self._at = 0
        self._end = len(self._text)
        self._scopes = [_Scope("")]
        self._behind_name: Kind | None = None
        self._unread = False
        self._value = ""

    @property
    def name(self) -> str | None:
        """The field name of the current token. None for array elements and at the top level."""
        begins = self.kind is Kind.OBJECT or self.kind is Kind.ARRAY
        return self._scopes[-2 if begins else -1].name

    @property
    def number(self) -> str:
        """The source text of the current number (WHOLE or FRACTION)."""
        return self._value

    def text(self) -> str:
        """The current string, in UTF-16 units; `characters` converts it."""
        if self._unread:
            self._unread = False
            self._value = self._quoted('"')
        return self._value

    def next(self) -> Kind | None:
        """Move to the next token, and return its kind; None at the end."""
        if self.kind is Kind.NAME:
            kind, self._behind_name = self._behind_name, None
            return self._go_to(kind)
        if self._unread:
            self.text()
        char = self._behind_space()
        if char is None:
            if len(self._scopes) > 1:
                raise LostError
            self.kind = None
            return None
        scope = self._scopes[-1]
        if char in "]}":
            return self._close(char, scope)
        scope.entries += 1
        if scope.entries > 1 and scope.closing:
            if char != ",":
                raise LostError
            char = self._taken(self._behind_space())
        if scope.closing != "}":
            return self._go_to(self._begun(char))
        if char not in _PLAIN:
            raise LostError
        scope.name = self._quoted(char)
        self.kind = Kind.NAME
        if self._behind_space() != ":":
            raise LostError
        self._behind_name = self._begun(self._taken(self._behind_space()))
        return self.kind

    def leave(self) -> None:
        """Skip the current object or array: move to its end. Does nothing at any other token."""
        if self.kind is not Kind.OBJECT and self.kind is not Kind.ARRAY:
            return
        opened = 1
        while opened:
            kind = self.next()
            if kind is Kind.OBJECT or kind is Kind.ARRAY:
                opened += 1
            elif kind is Kind.OBJECT_END or kind is Kind.ARRAY_END:
                opened -= 1
            elif kind is None:
                raise LostError

    def _go_to(self, kind: Kind | None) -> Kind | None:
        if kind is Kind.OBJECT or kind is Kind.ARRAY:
            self._scopes.append(_Scope("}" if kind is Kind.OBJECT else "]"))
            if len(self._scopes) > MOST_LEVELS + 1:
                raise LostError
        self.kind = kind
        return kind

    def _close(self, char: str, scope: _Scope) -> Kind:
        if char != scope.closing:
            raise LostError
        self._scopes.pop()
        self.kind = Kind.OBJECT_END if char == "}" else Kind.ARRAY_END
        return self.kind

    def _behind_space(self) -> str | None:
        """Take the next character that is no whitespace; None at the end."""
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        if self._at == self._end:
            return None
        char = self._taken(self._text[self._at])
        self._at += 1
        if char < " " or char == "/":
            raise LostError
        return char

    def _take(self) -> str:
        if self._at == self._end:
            raise LostError
        self._at += 1
        return self._text[self._at - 1]

    @staticmethod
    def _taken(char: str | None) -> str:
        if char is None:
            raise LostError
        return char

    def _begun(self, char: str) -> Kind:
        """The kind of the value that begins with `char`. Reads scalars except strings in double quotes."""
        match char:
            case '"':
                self._unread = True
                return Kind.TEXT
            case "'":
                self._value = self._quoted("'")
                return Kind.TEXT
            case "{":
                return Kind.OBJECT
            case "[":
                return Kind.ARRAY
            case "t" | "f" | "n":
                word, kind = _WORDS[char]
                self._match(word, 1)
                return kind
            case "N" | "I":
                return self._not_finite(_NUMBERS[char], 1)
            case "-":
                return self._negative()
            case "+":
                return self._infinite("+", self._take())
        if "0" <= char <= "9":
            return self._number(self._at - 1)
        if begins_word(char):
            self._leave_word(1)
        raise LostError

    def _negative(self) -> Kind:
        char = self._take()
        if "0" <= char <= "9":
            return self._number(self._at - 1)
        return self._infinite("-", char)

    def _infinite(self, sign: str, char: str) -> Kind:
        """A signed infinity. `char`: the character after the sign, which is no digit."""
        if char == "I":
            match self._take():
                case "N":
                    return self._not_finite(f"{sign}INF", 3)
                case "n":
                    return self._not_finite(f"{sign}Infinity", 3)
        raise LostError

    def _not_finite(self, word: str, known: int) -> Kind:
        self._match(word, known)
        self._value = word
        return Kind.FRACTION

    def _match(self, word: str, known: int) -> None:
        """Take the rest of a word, of which `known` characters are already taken. The word must end there."""
        for number in range(known, len(word)):
            if self._at == self._end or self._text[self._at] != word[number]:
                self._leave_word(number)
                raise LostError
            self._at += 1
        behind = self._text[self._at : self._at + 1]
        if behind >= "0" and behind not in "]}" and is_in_word(behind):
            self._leave_word(len(word))
            raise LostError

    def _leave_word(self, known: int) -> None:
        for _ in range(max(_LONGEST_WORD - known, 1)):
            if self._at == self._end or not is_in_word(self._text[self._at]):
                return
            self._at += 1

    def _number(self, first: int) -> Kind:
        """A number with its first digit at position `first`. After an error the position depends on a leading 0."""
        text, end = self._text, self._end
        begin = first - 1 if text[first - 1 : first] == "-" else first
        zero = text[first] == "0"
        at = self._digits(first)
        if zero and at > first + 1:
            self._at = first + 1
            raise LostError
        if at == end or text[at] not in ".eE":
            return self._numbered(Kind.WHOLE, begin, at, at - first)
        behind = at + 1
        digits = at - first
        if text[at] == ".":
            at = self._digits(behind)
            digits += at - behind
            if at == behind:
                self._at = behind if not zero and at < end else min(at + 1, end)
                raise LostError
            if at == end or text[at] not in "eE":
                return self._numbered(Kind.FRACTION, begin, at, digits)
        at += 1
        if at < end and text[at] in "+-":
            at += 1
        exponent = self._digits(at)
        if exponent == at:
            self._at = end if at == end else at + 1 if zero else behind
            raise LostError
        return self._numbered(Kind.FRACTION, begin, exponent, digits + exponent - at)

    def _digits(self, at: int) -> int:
        found = _DIGITS.match(self._text, at)
        return found.end() if found else at

    def _numbered(self, kind: Kind, begin: int, end: int, digits: int) -> Kind:
        self._at = end
        if digits > _MOST_DIGITS:
            raise LostError
        self._value = self._text[begin:end]
        return kind

    def _quoted(self, quote: str) -> str:
        """The text up to the closing quote, which is taken too. Escapes are replaced."""
        parts = []
        while True:
            found = _PLAIN[quote].match(self._text, self._at)
            if found:
                parts.append(found.group())
                self._at = found.end()
            char = self._take()
            if char == quote:
                return "".join(parts)
            if char != "\\":
                raise LostError
            parts.append(self._escaped())

    def _escaped(self) -> str:
        char = self._take()
        if char != "u":
            found = _ESCAPES.get(char)
            if found is None:
                raise LostError
            return found
        number = 0
        for _ in range(4):
            # Spark's reader looks at the lower 8 bits of a character only.
            digit = _HEXADECIMAL.get(ord(self._take()) & 0xFF)
            if digit is None:
                raise LostError
            number = number * 16 + digit
        return chr(number)


_HEXADECIMAL = {ord(digit): int(digit, 16) for digit in "0123456789abcdefABCDEF"}


# A value that is no string, in a string field: Spark writes the value as JSON again.

_ESCAPED = re.compile('["\\\\\x00-\x1f\ud800-\udfff]')
_WRITTEN_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_WRITTEN_WORDS = {Kind.TRUE: "true", Kind.FALSE: "false", Kind.NULL: "null"}
_OPENING = {Kind.OBJECT: "{", Kind.ARRAY: "["}
_ENDS = {Kind.OBJECT_END: "}", Kind.ARRAY_END: "]"}
_NOT_FINITE: Mapping[str, float] = {
    "NaN": math.nan,
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), math.inf),
    **dict.fromkeys(("-Infinity", "-INF"), -math.inf),
}


def written(tokens: Tokens) -> str:
    """The JSON text of the current value, which is no string, as Spark writes it. Moves to its end. Raises LostError.

    {"a":[1, 2.50,{"b":1e9}]} gives {"a":[1,2.5,{"b":1.0E9}]}.
    """
    parts: list[str] = []
    opened: list[int] = []
    named = False
    while True:
        kind = tokens.kind
        if kind in _ENDS:
            if not opened:
                raise LostError
            opened.pop()
            parts.append(_ENDS[kind])
        else:
            if opened and not named:
                parts.append("," if opened[-1] else "")
                opened[-1] += 1
            named = kind is Kind.NAME
            parts.append(_OPENING.get(kind) or _scalar(tokens))  # type: ignore[arg-type]
            if kind in _OPENING:
                opened.append(0)
        if not opened:
            return "".join(parts)
        tokens.next()


def double(number: str) -> float:
    """The double of a number in source text, including NaN and infinities."""
    found = _NOT_FINITE.get(number)
    return float(number) if found is None else found


def _scalar(tokens: Tokens) -> str:
    match tokens.kind:
        case Kind.NAME:
            return f"{_quoted(tokens.name or '')}:"
        case Kind.TEXT:
            return _quoted(tokens.text())
        case Kind.WHOLE:
            return str(int(tokens.number))
        case Kind.FRACTION:
            return of_double(double(tokens.number))
        case Kind.TRUE | Kind.FALSE | Kind.NULL as kind:
            return _WRITTEN_WORDS[kind]
    raise LostError


def of_double(number: float) -> str:
    """The shortest text of a double that is unique to it, in Java's format. NaN and infinities have quotes.

    0.001 gives 0.001, 1e7 gives 1.0E7, -12345678.5 gives -1.23456785E7, 1e-4 gives 1.0E-4.
    """
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, place = _digits(abs(number))
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{place}"


def _digits(number: float) -> tuple[str, int]:
    """The digits of a positive double, and the exponent of the first: ("123456785", 7) for 12345678.5."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = f"{whole}{fraction}"
    begin = len(digits) - len(digits.lstrip("0"))
    return digits[begin:].rstrip("0") or "0", len(whole) - 1 - begin + int(exponent or 0)


def _quoted(units: str) -> str:
    return f'"{_ESCAPED.sub(_escaped, units)}"'


def _escaped(found: re.Match[str]) -> str:
    char = found.group()
    return _WRITTEN_ESCAPES.get(char) or f"\\u{ord(char):04X}"
