"""The checksums of folded commits: 4 bytes a commit, in objects of up to 100,000.

`<last>.checksums` has those of a block's commits up to `last`. Objects cannot be added to, so each fold makes a new one
that has what the last one had, and then removes that. None is ever replaced. An entry is 0 where the checksum is not
known: a process that was suspended while it folded may lack some, which are then in an object of another's.

A log that was copied from an embedded one has files of that: `<first>.checksums`, of up to a million commits from
`first` on, where `first` is a multiple of a million. They are read, and stay as they are. An object that is made here
and has such a name reads the same: it has one entry, of the first commit of its block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from ..commits import KEPT_CHECKSUMS
from .objects import ObjectExistsError, Objects

if TYPE_CHECKING:
    from .commits import Era

BLOCK = 100_000
"""Commits: their checksums are 400 kB, which is half of what a fold sends at most on average."""

EMBEDDED = 1_000_000
"""Commits of a file of an embedded log."""

_ENTRY = Struct("<I")
_SUFFIX = ".checksums"


class FoldedChecksums:
    """Those of one era, as they were when the era was looked at."""

    def __init__(self, objects: Objects, era: Era) -> None:
        self._objects = objects
        self._era = era
        numbers = era.numbers(_SUFFIX)
        self._lasts = [number for number in numbers if number % EMBEDDED]
        self._copied = [number for number in numbers if not number % EMBEDDED]

    @cached_property
    def last(self) -> int:
        """The last commit that was folded; 0 if none was."""
        last = max(self._lasts, default=0)
        first = max(self._copied, default=-1)
        if first < last:  # what was folded since a log was copied is behind all that was before
            return last
        found = self._objects.find(self._path(first))
        return last if found is None else max(last, first + found.size // _ENTRY.size - 1)

    def of(self, number: int) -> int | None:
        """The checksum of a folded commit. None if it was not folded, or too long ago."""
        first = _first(number)
        places = [(last, first) for last in reversed(self._of_block(first)) if last >= number]
        copied = number - number % EMBEDDED
        places += [(copied, copied)] if copied in self._copied else []
        return next((found for name, begin in places if (found := self._entry(name, number - begin))), None)

    def differ(self, number: int, checksum: int) -> bool:
        """Whether a commit was folded with another checksum, or so long ago that its checksum is not known."""
        return number <= self.last and self.of(number) != checksum

    def keep(self, checksums: Sequence[tuple[int, int]]) -> None:
        """Keep checksums durably, by number, in ascending order. Those that are kept already stay as they are."""
        for first, some in groupby(checksums, lambda each: _first(each[0])):
            self._keep(first, dict(some))
        if checksums:
            oldest = checksums[-1][0] - KEPT_CHECKSUMS
            ended = [last for last in self._lasts if last < oldest]
            ended += [first for first in self._copied if first + EMBEDDED <= oldest]
            self._objects.remove(self._path(each) for each in ended)

    def _keep(self, first: int, checksums: Mapping[int, int]) -> None:
        """Make a block's object that has these and all that are kept, then remove those that had fewer."""
        entries = np.zeros(max(checksums) - first + 1, "<u4")
        for number, checksum in checksums.items():
            entries[number - first] = checksum
        there = self._of_block(first)
        # Usually one. There are more if two processes folded at the same time, and each may lack what the other has.
        for last in there:
            known = np.frombuffer(self._objects.get(self._path(last)) or b"", "<u4")
            entries = np.pad(entries, (0, max(0, len(known) - len(entries))))
            entries[: len(known)] = np.where(known, known, entries[: len(known)])
        last = first + len(entries) - 1
        if last in there:
            return
        with suppress(ObjectExistsError):
            self._objects.create(self._path(last), entries.tobytes())
        self._objects.remove(self._path(each) for each in there)

    def _entry(self, name: int, at: int) -> int | None:
        """The entry of an object; None if it has none there."""
        if name in self._copied:  # only then does the name not say how long it is
            found = self._objects.find(self._path(name))
            if found is None or found.size < (at + 1) * _ENTRY.size:
                return None
        entries = self._objects.get_ranges(self._path(name), [(at * _ENTRY.size, _ENTRY.size)], 0)
        return int(_ENTRY.unpack(entries[0])[0]) or None if entries else None

    def _of_block(self, first: int) -> list[int]:
        return [last for last in self._lasts if _first(last) == first]

    def _path(self, last: int) -> str:
        return f"{self._era.folder}/{last:012d}{_SUFFIX}"


def _first(number: int) -> int:
    return number - number % BLOCK
