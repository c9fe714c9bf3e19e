"""What somebody may have meant by a word that is not known. Guessed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

_LONGEST_GUESSED = 100
_LIKENESS = 0.6


def closest(word: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> tuple[str, ...]:
    """Known words that are spelt much like `word`, best first, whatever their case; at most so many.

    `likeness` is difflib's ratio, from 0 to 1 (equal). Of words that are equally close, one that begins as `word` does
    comes first, as few people miss the first letter.
    """
    if len(word) > _LONGEST_GUESSED:  # nobody types that, and comparing takes the square of it
        return ()
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    wanted = word.casefold()
    close = get_close_matches(wanted, folded, max(len(folded), 1), likeness)
    order = {each: (-SequenceMatcher(None, each, wanted).ratio(), each[:1] != wanted[:1]) for each in close}
    return tuple(folded[each] for each in sorted(close, key=order.__getitem__)[:most])


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A sentence of its own: `Did you mean 'flights'?`, or None when nothing known is close."""
    close = closest(word, known)
    return f"Did you mean '{close[0]}'?" if close else None


def guess(word: str, known: Iterable[str], otherwise: str, likeness: float = _LIKENESS) -> str:
    """The same for within a sentence: `did you mean 'flights'?`, or `otherwise`."""
    close = closest(word, known, likeness=likeness)
    return f"did you mean '{close[0]}'?" if close else otherwise
