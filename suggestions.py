"""Suggests known words for an unknown one. All messages with `did you mean` get it here."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_LONGEST_GUESSED = 100
_LIKENESS = 0.6


def closest(word: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> tuple[str, ...]:
    """Known words that are spelt much like `word`, best first, at most so many. Upper and lower case are equal.

    `likeness` is difflib's ratio, from 0 to 1 (equal). Of equally close words, one with the first letter of `word`
    comes first, because few people mistype the first letter.
    """
    if len(word) > _LONGEST_GUESSED:  # difflib needs the square of the length
        return ()
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    wanted = word.casefold()
    close = get_close_matches(wanted, folded, max(len(folded), 1), likeness)
    order = {each: (-SequenceMatcher(None, each, wanted).ratio(), each[:1] != wanted[:1]) for each in close}
    return tuple(folded[each] for each in sorted(close, key=order.__getitem__)[:most])


def did_you_mean(word: str, known: Iterable[str], likeness: float = _LIKENESS) -> str | None:
    """A sentence of its own: `Did you mean 'flights'?`, or None when nothing known is close."""
    close = closest(word, known, likeness=likeness)
    return f"Did you mean '{close[0]}'?" if close else None


def guess(word: str, known: Iterable[str], otherwise: str, likeness: float = _LIKENESS) -> str:
    """The same for within a sentence: `did you mean 'flights'?`, or `otherwise`."""
    close = closest(word, known, likeness=likeness)
    return f"did you mean '{close[0]}'?" if close else otherwise
