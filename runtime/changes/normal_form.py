"""The normal form of a step's text: texts with equal normal forms compute the same, so they are no change.

It consists of the tokens of the text, not of a parsed tree: sqlglot's trees lose distinctions of Spark (a plus in front
of a string, `'it''s'`, `time'10:00'`), and texts that Spark computes differently must never share a form. Only
differences that are known to be redundant are removed:

- the case of SQL keywords and names of functions; `==` for `=`, `!=` for `<>`
- double quotes around a string, backticks around a name that needs none
- parentheses around an expression that binds closer than both neighbours: `(x > 1) and y`, `((x))`, `(a * b) + c`

    filter (X is NOT NULL) AND `s` == "a"    ->    filter X is not null and s = 'a'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..records.names import is_plain

_HARD_TO_READ = ("\\", "--", "/*")
"""Escapes and comments of SQL, with which the ends of tokens are unclear."""

_TOKEN = re.compile(
    r"""(?:'[^']*')+|(?:"[^"]*")+|(?:`[^`]*`)+|\ \#[0-9a-f]{8}\b|\w+|<=>|<>|<=|>=|!=|==|\|\||->|=>|::|<<|>>>?|[^\w\s]"""
)
_OTHER_SPELLING = {"==": "=", "!=": "<>"}

_OPERATIONS = "and or not in is like ilike rlike regexp between escape div"
_CHOICES = "case when then else end"
_LITERALS = "null true false unknown current_timestamp current_date current_user session_user current_path"
_TYPES = """
boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric string binary date
timestamp timestamp_ntz timestamp_ltz time array map struct variant interval
"""
_OTHERS = "as distinct from to for using over filter within group order by asc desc nulls first last collate at zone"
_UNITS = "year month week day hour minute second millisecond microsecond quarter"
_FOLDED = frozenset(
    (
        *f"{_OPERATIONS} {_CHOICES} {_LITERALS} {_TYPES} {_OTHERS} {_UNITS}".split(),
        *(f"{unit}s" for unit in _UNITS.split()),
    )
)
"""Keywords, whose case has no meaning. Others are names: topics and flows may differ in case only."""

_BEFORE_GROUPS = frozenset(f"{_CHOICES} and or not like ilike rlike regexp div distinct".split())
"""Keywords before parentheses around a value. After all other tokens they enclose arguments, a list or
parts of a type.
"""

_LEVELS = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("=", "<>", "<", ">", "<=", ">=", "<=>", "is", "in", "like", "ilike", "rlike", "regexp"), 4),
    **dict.fromkeys(("+", "-", "||"), 8),
    **dict.fromkeys(("*", "/", "%", "div"), 9),
}
"""The precedence of an operator in Spark's grammar. Parentheses next to other operators stay."""

_NOT, _ATOM = 3, 10
_BEFORE_NOT = frozenset({"and", "or", "not"})
_CHAINED = frozenset({1, 2, 8, 9})
"""Precedences with left associativity."""

_OPEN, _CLOSE = frozenset("(["), frozenset(")]")
_LEFT_ENDS = frozenset({"", "(", "[", ",", ":", *_CHOICES.split()})
_RIGHT_ENDS = frozenset({"", ")", "]", ",", *_CHOICES.split()})
_HEADS = ("filter ",)
"""Starts of steps with an expression without a name in front; elsewhere `filter` is a function."""


@lru_cache(maxsize=4096)
def normal_form(text: str) -> tuple[str, ...]:
    """The tokens of the text of a step or an aggregate in their normal form, without whitespace."""
    if any(sign in text for sign in _HARD_TO_READ):
        return (text,)
    head = next((start for start in _HEADS if text.startswith(start)), "")
    written = _TOKEN.findall(text[len(head) :])
    words = [_word(word, behind) for word, behind in zip(written, [*written[1:], ""], strict=True)]
    return (*head.split(), *_without_needless([word for word in words if word]))


def _word(word: str, behind: str) -> str:
    """A token in its normal form; empty for the mark of a column that differs from another one in case only."""
    first = word[0]
    if first == " ":
        return ""
    if first == '"':
        return "'" + word[1:-1].replace('""', '"').replace("'", "''") + "'"
    if first == "`":
        name = word[1:-1]
        return name if is_plain(name) and name.lower() not in _LITERALS.split() and behind != "(" else word
    if first.isdigit() or behind == "(" or word.lower() in _FOLDED:
        return word.lower()
    return _OTHER_SPELLING.get(word, word)


def _without_needless(words: list[str]) -> list[str]:
    """The tokens without redundant parentheses. Inner ones are removed first, as outer ones may be redundant then."""
    at = 0
    while at < len(words):
        if words[at] == "(":
            end = _end(words, at)
            if end is None:
                return words
            inner = _without_needless(words[at + 1 : end])
            words = [*words[: at + 1], *inner, *words[end:]]
            if _is_needless(words, at, at + 1 + len(inner)):
                words = [*words[:at], *inner, *words[at + 1 + len(inner) + 1 :]]
                at += len(inner) - 1
            else:
                at += len(inner) + 1
        at += 1
    return words


def _end(words: Sequence[str], opening: int) -> int | None:
    """The index of the closing bracket of an opening one; None if there is none."""
    depth = 0
    for index in range(opening, len(words)):
        depth += (words[index] in _OPEN) - (words[index] in _CLOSE)
        if depth == 0:
            return index
    return None


def _is_needless(words: Sequence[str], opening: int, closing: int) -> bool:
    """Whether the parentheses at these indexes are redundant."""
    before, behind = _at(words, opening - 1), _at(words, closing + 1)
    inner = words[opening + 1 : closing]
    if not inner or (_ends_operand(before) and before not in _BEFORE_GROUPS) or "," in _outermost(inner):
        return False
    if before in _LEFT_ENDS and behind in _RIGHT_ENDS:
        return "->" not in inner
    level = _level(inner)
    left, right = _left_level(words, opening), _right_level(words, closing)
    if level is None or left is None or right is None or level <= left:
        return False
    return level > right or (level == right and level in _CHAINED)


def _at(words: Sequence[str], index: int) -> str:
    return words[index] if 0 <= index < len(words) else ""


def _ends_operand(word: str) -> bool:
    return word[:1] in ("'", "`", ")", "]") or word[:1].isalnum() or word[:1] == "_"


def _is_operand(word: str) -> bool:
    return word[:1] not in (")", "]") and _ends_operand(word) and word not in _LEVELS and word not in _NOT_OPERANDS


_NOT_OPERANDS = frozenset(f"{_CHOICES} not between escape as distinct from interval".split())


def _outermost(words: Sequence[str]) -> list[str]:
    """The tokens outside of brackets, with the opening ones."""
    outermost, depth = [], 0
    for word in words:
        depth -= word in _CLOSE
        if depth == 0:
            outermost.append(word)
        depth += word in _OPEN
    return outermost


def _left_level(words: Sequence[str], opening: int) -> int | None:
    """The precedence of the operator before parentheses; None if unknown."""
    before = _at(words, opening - 1)
    if before in _LEFT_ENDS:
        return 0
    depth = 0
    for index in range(opening - 1, -1, -1):  # the `and` of a `between` is not the operator
        depth += (words[index] in _CLOSE) - (words[index] in _OPEN)
        if depth < 0:
            break
        if depth == 0 and words[index] in ("between", "case"):
            return None
    if before == "not":
        return (
            _NOT - 1 if not _ends_operand(_at(words, opening - 2)) or _at(words, opening - 2) in _BEFORE_NOT else None
        )
    if before in ("+", "-") and not _is_closed(_at(words, opening - 2)):
        return None
    return _LEVELS.get(before) if before not in ("is", "in") else None


def _is_closed(word: str) -> bool:
    """Whether a token ends an operand."""
    return word[:1] in (")", "]") or _is_operand(word)


def _right_level(words: Sequence[str], closing: int) -> int | None:
    """The precedence of the operator after parentheses; None if unknown."""
    behind = _at(words, closing + 1)
    if behind in _RIGHT_ENDS:
        return 0
    if behind == "not":
        behind = _at(words, closing + 2)
    return 4 if behind == "between" else _LEVELS.get(behind)


def _level(words: Sequence[str]) -> int | None:
    """The lowest precedence in an expression; None for unknown expressions."""
    level, at = _ATOM, 0
    while True:
        while _at(words, at) == "not":
            level, at = min(level, _NOT), at + 1
        behind = _operand(words, at)
        if behind is None:
            return None
        at = behind
        while _at(words, at) == "is":
            level, at = min(level, 4), at + 1 + (_at(words, at + 1) == "not")
            if _at(words, at) not in ("null", "true", "false", "unknown"):
                return None
            at += 1
        if at == len(words):
            return level
        negated = _at(words, at) == "not"
        operator = _at(words, at + negated)
        if operator not in _LEVELS or (negated and operator not in ("in", "like", "ilike", "rlike", "regexp")):
            return None
        level, at = min(level, _LEVELS[operator]), at + negated + 1


def _operand(words: Sequence[str], at: int) -> int | None:
    """The index after a name, a literal, a call or a group that starts at `at`; None if there is none."""
    if _at(words, at) == "(":
        end = _end(words, at)
        return None if end is None else end + 1
    if not _is_operand(_at(words, at)):
        return None
    at += 1
    while _at(words, at) in (".", "(", "["):
        if words[at] == ".":
            at += 2
            continue
        end = _end(words, at)
        if end is None:
            return None
        at = end + 1
    return None if _is_operand(_at(words, at)) else at
