"""What somebody may have meant by a word that is not known. Guessed here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST_GUESSED = 100
_LIKENESS = 0.6


def closest(word: str, known: Iterable[str], most: int = 1, likeness: float = _LIKENESS) -> tuple[str, ...]:
    """Known words that are spelt much like `word`, best first, whatever their case; at most so many.

    `likeness` is difflib's ratio, from 0 to 1 (equal).
    """
    if len(word) > _LONGEST_GUESSED:  # nobody types that, and comparing takes the square of it
        return ()
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    return tuple(folded[close] for close in get_close_matches(word.casefold(), folded, most, likeness))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A sentence of its own: `Did you mean 'flights'?`, or None when nothing known is close."""
    close = closest(word, known)
    return f"Did you mean '{close[0]}'?" if close else None


def guess(word: str, known: Iterable[str], otherwise: str, likeness: float = _LIKENESS) -> str:
    """The same for within a sentence: `did you mean 'flights'?`, or `otherwise`."""
    close = closest(word, known, likeness=likeness)
    return f"did you mean '{close[0]}'?" if close else otherwise
