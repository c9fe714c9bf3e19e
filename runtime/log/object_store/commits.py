"""Commits in a bucket."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from struct import Struct
from zlib import crc32

import numpy as np

from ..errors import CommitExistsError, CommitGapError, CommitsMissingError
from ..log import KEPT_CHECKSUMS
from .objects import AT_ONCE, ObjectExistsError, Objects, threads

# The checksums of folded commits: 4 bytes a commit, in objects of up to 100,000.
#
# `<last>.checksums` has those of a block's commits up to `last`. Objects cannot be added to, so each fold makes a new
# one
# that has what the last one had, and then removes that. None is ever replaced. An entry is 0 where the checksum is not
# known: a process that was suspended while it folded may lack some, which are then in an object of another's.
#
# A log that was copied from an embedded one has files of that: `<first>.checksums`, of up to a million commits from
# `first` on, where `first` is a multiple of a million. They are read, and stay as they are. An object that is made here
# and has such a name reads the same: it has one entry, of the first commit of its block.

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


# Commits as objects: `commits/<application>/<number>.json`, with snapshots and checksums of folded ones beside them.
#
# An application that is dropped cannot be renamed away, as an object store has no rename. So each time it begins again
# it
# gets an *era*: a folder with the next number, `commits/<application>/<era>/`, which exists once it has the object
# `begun`. The highest era is the application's; era 0, the first, has no folder of its own.
#
# A process that was suspended, maybe for hours, still works in the era that it has known. Three rules keep that
# harmless:
#
# - Whoever makes a commit looks for the next era after the put, and takes the commit back if that has begun.
# - What is in ended eras is listed only after the next era has begun. So a commit is either in that list, or its writer
#   sees the new era. `begun` goes last, once a list has shown that no commit is left.
# - Only eras before one that has begun are removed, never "all but the present one": that may have ended meanwhile.

BEGUN = "begun"
"""The name of the object that begins an era."""


@dataclass(frozen=True)
class Era:
    """An application from one beginning to the next full refresh. `number`: counted from 0. `folder`: of its commits.

    `names`: what was in the folder when it was looked at.
    """

    application: str
    number: int
    names: frozenset[str]

    @property
    def folder(self) -> str:
        """Where its commits are, relative to the log."""
        return _folder(self.application, self.number)

    @property
    def next(self) -> str:
        """The object that begins the next era."""
        return f"{_folder(self.application, self.number + 1)}/{BEGUN}"

    @property
    def begun(self) -> str:
        """The object that has begun it; era 0 has none."""
        return f"{self.folder}/{BEGUN}"

    def numbers(self, suffix: str) -> list[int]:
        """The numbers of the objects with this suffix, ascending."""
        stems = [name.removesuffix(suffix) for name in self.names if name.endswith(suffix)]
        return sorted(int(stem) for stem in stems if re.fullmatch("[0-9]{12,}", stem))

    @classmethod
    def find(cls, objects: Objects, application: str) -> Era:
        """The present era: one request for the first, two for a later one."""
        folders, found = objects.folders(_folder(application, 0))
        number = max((int(name) for name in folders if name.isdecimal()), default=0)
        if number:
            _, found = objects.folders(_folder(application, number))
        return cls(application, number, frozenset(each.path.rpartition("/")[2] for each in found))


def _folder(application: str, era: int) -> str:
    return f"commits/{application}/{era:06d}" if era else f"commits/{application}"


def remove_ended(objects: Objects, application: str, present: int) -> None:
    """Remove what is in the eras before one that has begun: the number `present`."""
    for _ in range(2):
        ended = [
            each.path
            for each in objects.below(_folder(application, 0))
            if (era := _era_of(application, each.path)) is not None and era < present
        ]
        commits = [path for path in ended if not path.endswith(f"/{BEGUN}")]
        objects.remove(commits or ended)
        if not commits:
            return
    # A commit has come since the first list. It is gone, too, and so will `begun` be after the next list.


def _era_of(application: str, path: str) -> int | None:
    """The number of the era that an object below the application's folder belongs to; None for objects of others."""
    era, _, _ = path.removeprefix(f"{_folder(application, 0)}/").rpartition("/")
    return int(era or 0) if not era or era.isdecimal() else None


def entry(application: str) -> str:
    """The object that exists from the application's first commit on."""
    return f"applications/{application}"


class ObjectCommitStore:
    """The commits of one application in an object store.

    A commit is one conditional put (`Objects.create`). Its identity is the ETag. The era is looked up by the first
    request, and again where a state is loaded: by `latest`, `snapshots` and `first`. What is found is remembered, so
    one thread at a time may use an instance; `save_snapshot` and `fold` any.
    """

    def __init__(self, application: str, objects: Objects) -> None:
        self.application = application
        self._objects = objects
        self._known: Era | None = None
        self._there = 0
        """A commit that was seen in the present era. Most commits follow it, so it need not be asked for again."""
        self._ahead: dict[int, tuple[str, bytes]] = {}
        """Identities and data of commits behind `_there` that were read with another."""

    def path(self, number: int, *, snapshot: bool = False) -> str:
        """See `CommitStore.path`."""
        return self._objects.uri((_snapshot if snapshot else _commit)(self._era(), number))

    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`.

        Two things are looked for after the put, at the same time. The next era: if it is there, this one has ended. And
        the commit before: commits are folded from the lowest on, so while it is there, this one was not folded before
        it was made.
        """
        era = self._era()
        if number > 1 and number - 1 != self._there and not self._has(era, number - 1):
            raise self._refusal(era, number)
        path = _commit(era, number)
        try:
            identity = self._objects.create(path, data)
        except ObjectExistsError:
            raise CommitExistsError(self.application, number) from None
        has_ended, follows = self._looked_around(era, number)
        if has_ended:
            raise self._taken_back(path, number)
        if not follows:
            self._refuse_folded(era, number, data)
        self._there = number
        if number == 1:
            self.enter()
        return identity

    def read(self, number: int) -> bytes | None:
        """See `CommitStore.read`."""
        if number in self._ahead:
            return self._ahead.pop(number)[1]
        data = self._objects.get(_commit(self._era(), number))
        return None if data is None or self._was_folded(self._era(), number, data) else data

    def identity(self, number: int) -> str | None:
        """See `CommitStore.identity`.

        A state that is loaded asks for one commit after the other that was listed before. These are read ahead.
        """
        if number == self._there + 1:
            if number not in self._ahead:
                self._read_ahead(self._era(), number)
            if number in self._ahead:
                self._there = number
                return self._ahead[number][0]
        found = self._objects.find(_commit(self._era(), number))
        if found is None:
            if number == self._there:  # an answer to `find` does not say whether it is the bucket that is gone
                self._look()
            return None
        self._there = number
        return found.tag

    def checksum(self, number: int) -> int | None:
        """See `CommitStore.checksum`."""
        data = self.read(number)
        return crc32(data) if data is not None else FoldedChecksums(self._objects, self._look()).of(number)

    def first(self) -> int:
        """See `CommitStore.first`."""
        era = self._look()
        folded = FoldedChecksums(self._objects, era).last  # what stands there of these is superfluous, or came too late
        return min((number for number in era.numbers(".json") if number > folded), default=0)

    def latest(self) -> int:
        """See `CommitStore.latest`. Raises CommitsMissingError."""
        for _ in range(2):  # the first commit may come between the two requests
            era = self._look()
            latest = max(era.numbers(".json"), default=0)
            if latest or not (era.numbers(".snapshot") or self._objects.find(entry(self.application))):
                return latest
        raise CommitsMissingError(
            self.application, self._objects.uri(era.folder), self._objects.uri(entry(self.application))
        )

    def enter(self) -> None:
        """Make the entry, if there are commits. One that another process makes at the same time is as good."""
        if self._objects.find(entry(self.application)) is None and self.first():
            with suppress(ObjectExistsError):
                self._objects.create(entry(self.application), b"")
            if not self.first():  # the application was dropped meanwhile
                self._objects.remove([entry(self.application)])

    def snapshots(self) -> list[int]:
        """See `CommitStore.snapshots`."""
        return self._look().numbers(".snapshot")[::-1]

    def read_snapshot(self, number: int) -> bytes | None:
        """See `CommitStore.read_snapshot`."""
        return self._objects.get(_snapshot(self._era(), number))

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """See `CommitStore.save_snapshot`. What is written into an era that has ended meanwhile, nobody reads.

        This and `fold` run beside the thread that commits. So they find the era by themselves, and change nothing of
        what this instance remembers.
        """
        era = Era.find(self._objects, self.application)
        if not self._is(era, number, identity):
            return False
        self._objects.put(_snapshot(era, number), data)
        return True

    def fold(self, before: int, identity: str) -> None:
        """See `CommitStore.fold`. Commits are removed one by one, as only so they go in their order."""
        era = Era.find(self._objects, self.application)
        if not self._is(era, before, identity):
            return
        commits = [number for number in era.numbers(".json") if number < before]
        FoldedChecksums(self._objects, era).keep(self._summed(era, commits))
        there = set(era.numbers(".json"))
        self._objects.remove(
            _snapshot(era, number) for number in era.numbers(".snapshot") if number < before or number not in there
        )
        for number in commits:
            self._objects.remove([_commit(era, number)])

    def _summed(self, era: Era, commits: Iterable[int]) -> list[tuple[int, int]]:
        found = ((number, self._objects.get(_commit(era, number))) for number in commits)
        return [(number, crc32(data)) for number, data in found if data is not None]

    def _names(self, era: Era) -> frozenset[str]:
        _, found = self._objects.folders(era.folder)
        return frozenset(each.path.rpartition("/")[2] for each in found)

    def _is(self, era: Era, number: int, identity: str) -> bool:
        found = self._objects.find(_commit(era, number))
        return found is not None and found.tag == identity

    def _read_ahead(self, era: Era, number: int) -> None:
        """Read the commits from one on that were listed with the era, all at the same time."""
        numbers = [each for each in range(number, number + AT_ONCE) if _name(each) in era.names]
        found = list(self._objects.get_all(_commit(era, each) for each in numbers))
        self._ahead = {each: (got[0].tag, got[1]) for each, got in zip(numbers, found, strict=True) if got is not None}
        if number in self._ahead and self._was_folded(era, number, self._ahead[number][1]):
            self._ahead = {}

    def _has(self, era: Era, number: int) -> bool:
        return self._objects.find(_commit(era, number)) is not None

    def _was_folded(self, era: Era, number: int, data: bytes) -> bool:
        """Whether a commit that was just read is another than the one of this number, which was folded.

        Then its writer came late, and ended before it could take the commit back. It counts for nothing. While the
        commit before is there, neither this one was folded nor those after it, see `create`.
        """
        if number > 1 and self._has(era, number - 1):
            return False
        return FoldedChecksums(self._objects, replace(era, names=self._names(era))).differ(number, crc32(data))

    def _looked_around(self, era: Era, number: int) -> tuple[bool, bool]:
        """Whether the era has ended, and whether the commit before one is there.

        The first commit has none before it, which would be gone with its era. So it may be of any era before the
        present one.
        """
        if number == 1:
            return Era.find(self._objects, self.application).number != era.number, False
        ended, before = threads().map(self._objects.find, (era.next, _commit(era, number - 1)))
        return ended is not None, before is not None

    def _taken_back(self, path: str, number: int) -> CommitExistsError | CommitGapError:
        """Take back a commit that was made in an era that had ended. Returns why it cannot be made."""
        self._objects.remove([path])
        self._look()
        return CommitGapError(self.application, number) if number > 1 else CommitExistsError(self.application, 1)

    def _refusal(self, era: Era, number: int) -> CommitExistsError | CommitGapError:
        """Why a commit cannot be made, whose predecessor is not there."""
        if min(replace(era, names=self._names(era)).numbers(".json"), default=0) > number:
            return CommitExistsError(self.application, number)
        return CommitGapError(self.application, number)

    def _refuse_folded(self, era: Era, number: int, data: bytes) -> None:
        """Take back a commit whose number was folded while this process was suspended, before its put arrived.

        The process may also have been suspended after it. Then the commit stands, or was folded as it was made.
        """
        folded = FoldedChecksums(self._objects, replace(era, names=self._names(era)))
        if (number == 1 and not folded.last) or 1 < number == folded.last + 1:
            return
        checksum = folded.of(number)
        self._objects.remove([_commit(era, number)])
        if not folded.last:
            raise CommitGapError(self.application, number)
        if checksum != crc32(data):
            raise CommitExistsError(self.application, number)

    def _look(self) -> Era:
        """The present era as it is now."""
        self._known, self._there, self._ahead = Era.find(self._objects, self.application), 0, {}
        return self._known

    def _era(self) -> Era:
        return self._known or self._look()


def _commit(era: Era, number: int) -> str:
    return f"{era.folder}/{_name(number)}"


def _name(number: int) -> str:
    return f"{number:012d}.json"


def _snapshot(era: Era, number: int) -> str:
    return f"{era.folder}/{number:012d}.snapshot"
