"""Tokens of JSON on arrays."""

from __future__ import annotations

import math
import re
import unicodedata
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

# Characters as Java has them: units of UTF-16, which may be half of a character, and what it takes for a word.

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


# How a value that cannot be read is told to what reads the values around it.


class LostError(Exception):
    """A value that cannot be read: its text is no JSON, or no value of the type."""


class PartlyError(Exception):
    """A value of which a part could not be read. `value`: what is there, null in place of that part."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


# The tokens of a JSON text, as the reader in Spark finds them: also of a text that is no JSON, up to where it is none.
#
# Beside JSON it takes texts and names in single quotes, and NaN, INF and Infinity. It looks at what is in double quotes
# only when that is asked for or left behind. It goes on behind an error if it is asked to: what Spark makes of such a
# text depends on where its reader stands then, so this one stands there too.

MOST_LEVELS = 1000
_MOST_DIGITS = 1000
_LONGEST_WORD = 256
"""How much of a word that is no JSON is left behind."""

_PLAIN = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
_SPACE = re.compile(r"[ \t\n\r]*")
_DIGITS = re.compile(r"[0-9]*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", **{each: each for each in "\"'/\\"}}


class Kind(Enum):
    """What a token is."""

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
    """An object or an array that is not closed, or what is around all. `entries`: how many were begun in it."""

    closing: str
    name: str | None = None
    entries: int = 0


class Tokens:
    """A reader of one text. `kind`: of the token that it is at; None: it is at none.

    All its functions raise LostError where there is no JSON.
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
        """The name of what it is at; None in an array, and around all."""
        begins = self.kind is Kind.OBJECT or self.kind is Kind.ARRAY
        return self._scopes[-2 if begins else -1].name

    @property
    def number(self) -> str:
        """The number that it is at, as it is written: WHOLE or FRACTION."""
        return self._value

    def text(self) -> str:
        """The text that it is at, in units of UTF-16: see `units.characters`."""
        if self._unread:
            self._unread = False
            self._value = self._quoted('"')
        return self._value

    def next(self) -> Kind | None:
        """Go to the next token. None: there is none."""
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
        """Go to the end of the object or array that it is at, if it is at one."""
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
        """The next character that is no space; None: there is none."""
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
        """The value that begins with a character."""
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
        """What begins with a sign and a character that is no digit."""
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
        """Take the rest of a word, and see that nothing else is behind it."""
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
        """A number whose first digit is at a place. Where an error leaves the reader differs behind a 0."""
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
        """What is up to a quote."""
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
            # The reader in Spark looks at the lower half of a character only.
            digit = _HEXADECIMAL.get(ord(self._take()) & 0xFF)
            if digit is None:
                raise LostError
            number = number * 16 + digit
        return chr(number)


_HEXADECIMAL = {ord(digit): int(digit, 16) for digit in "0123456789abcdefABCDEF"}


# What is no text as a text: JSON of a value, written as Spark writes it.

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
    """The value that the tokens are at, which is no text. Leaves them at its end. Raises LostError."""
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
    """A number as it is written, as a double."""
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
    """A double with as few digits as tell it from all others, as Java writes it; one that is not finite in quotes."""
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, place = _digits(abs(number))
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{place}"


def _digits(number: float) -> tuple[str, int]:
    """The digits of a double, and the power of ten of the first one."""
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
