"""Suggests similar names for an unknown one. All `did you mean` messages use this module."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_LONGEST_GUESSED = 100
_LIKENESS = 0.6


def closest(word: str, names: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> tuple[str, ...]:
    """The names spelt most like `word`, best first, at most `most`. Case is ignored.

    `likeness` is difflib's ratio, from 0 to 1 (equal). Of equally similar names, those with the first letter of `word`
    comes first, because few people mistype the first letter.
    """
    if len(word) > _LONGEST_GUESSED:  # difflib's time grows with the square of the length
        return ()
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    wanted = word.casefold()
    close = get_close_matches(wanted, folded, max(len(folded), 1), likeness)
    order = {name: (-SequenceMatcher(None, name, wanted).ratio(), name[:1] != wanted[:1]) for name in close}
    return tuple(folded[name] for name in sorted(close, key=order.__getitem__)[:most])


def did_you_mean(word: str, names: Iterable[str], likeness: float = _LIKENESS) -> str | None:
    """A whole sentence, `Did you mean 'flights'?`, or None if no name is similar."""
    close = closest(word, names, likeness=likeness)
    return f"Did you mean '{close[0]}'?" if close else None


def guess(word: str, names: Iterable[str], otherwise: str, likeness: float = _LIKENESS) -> str:
    """A part of a sentence, `did you mean 'flights'?`, or `otherwise` if no name is similar."""
    close = closest(word, names, likeness=likeness)
    return f"did you mean '{close[0]}'?" if close else otherwise
