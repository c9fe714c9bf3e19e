"""Commits in an object store."""

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
from .objects import AT_ONCE, ObjectExistsError, ObjectInfo, Objects, threads

# The checksums of folded commits: 4 bytes for each commit, in objects of up to 100,000.
#
# `<last>.checksums` has those of a block's commits up to `last`. Objects cannot be appended to, so each fold creates a
# new one with the content of the last one, and removes that. None is ever replaced. An entry is 0 if the checksum is
# unknown: a process that was suspended during a fold may lack some, which are in an object of another process then.
#
# A log that was copied from an embedded one has files `<first>.checksums`, of up to a million commits from `first` on,
# a multiple of a million. They are read, and not changed. An object of this class with such a name reads the same: it
# has one entry, of the first commit of its block.

BLOCK = 100_000
"""The number of commits of a block. A fold writes 400 kB of checksums at most, and half of that on average."""

EMBEDDED = 1_000_000
"""The number of commits of a file of an embedded log."""

_ENTRY = Struct("<I")
_SUFFIX = ".checksums"


class FoldedChecksums:
    """The checksums of an era's folded commits, as of the last list of the era."""

    def __init__(self, objects: Objects, era: Era) -> None:
        self._objects = objects
        self._era = era
        numbers = era.numbers(_SUFFIX)
        self._lasts = [number for number in numbers if number % EMBEDDED]
        self._copied = [number for number in numbers if not number % EMBEDDED]

    @cached_property
    def last(self) -> int:
        """The last folded commit; 0 without any."""
        last = max(self._lasts, default=0)
        first = max(self._copied, default=-1)
        if first < last:  # commits folded since a log was copied are later than all others
            return last
        found = self._objects.find(self._path(first))
        return last if found is None else max(last, first + found.size // _ENTRY.size - 1)

    def checksum(self, number: int) -> int | None:
        """The checksum of a folded commit; None if it was not folded, or too long ago."""
        first = _first(number)
        objects = [(last, first) for last in reversed(self._of_block(first)) if last >= number]
        copied = number - number % EMBEDDED
        objects += [(copied, copied)] if copied in self._copied else []
        return next((entry for name, start in objects if (entry := self._entry(name, number - start))), None)

    def differ(self, number: int, checksum: int) -> bool:
        """Whether a commit was folded with another checksum, or so long ago that its checksum is unknown."""
        return number <= self.last and self.checksum(number) != checksum

    def keep(self, checksums: Sequence[tuple[int, int]]) -> None:
        """Write checksums durably. `checksums`: ascending by number. Existing ones do not change."""
        for first, some in groupby(checksums, lambda entry: _first(entry[0])):
            self._keep(first, dict(some))
        if checksums:
            oldest = checksums[-1][0] - KEPT_CHECKSUMS
            ended = [last for last in self._lasts if last < oldest]
            ended += [first for first in self._copied if first + EMBEDDED <= oldest]
            self._objects.remove(self._path(number) for number in ended)

    def _keep(self, first: int, checksums: Mapping[int, int]) -> None:
        """Create a block's object with these and all existing checksums, then remove smaller objects.

        first, checksums     100_000, {100_002: 7, 100_003: 8}
        entries              [0, 0, 7, 8]
        existing object      [5, 6, 9]
        padded, merged       [5, 6, 9, 8]: existing entries win
        last                 100_003, the name of the new object
        """
        entries = np.zeros(max(checksums) - first + 1, "<u4")
        for number, checksum in checksums.items():
            entries[number - first] = checksum
        existing = self._of_block(first)
        # Usually one. Two processes that fold concurrently create two, and each may lack entries of the other.
        for last in existing:
            known = np.frombuffer(self._objects.get(self._path(last)) or b"", "<u4")
            entries = np.pad(entries, (0, max(0, len(known) - len(entries))))
            entries[: len(known)] = np.where(known, known, entries[: len(known)])
        last = first + len(entries) - 1
        if last in existing:
            return
        with suppress(ObjectExistsError):
            self._objects.create(self._path(last), entries.tobytes())
        self._objects.remove(self._path(number) for number in existing)

    def _entry(self, name: int, index: int) -> int | None:
        """The entry of an object; None if it has none at this index."""
        if name in self._copied:  # only here the name does not give the length
            found = self._objects.find(self._path(name))
            if found is None or found.size < (index + 1) * _ENTRY.size:
                return None
        entries = self._objects.get_ranges(self._path(name), [(index * _ENTRY.size, _ENTRY.size)], 0)
        return int(_ENTRY.unpack(entries[0])[0]) or None if entries else None

    def _of_block(self, first: int) -> list[int]:
        return [last for last in self._lasts if _first(last) == first]

    def _path(self, last: int) -> str:
        return f"{self._era.folder}/{last:012d}{_SUFFIX}"


def _first(number: int) -> int:
    return number - number % BLOCK


# Commits as objects: `commits/<application>/<number>.json`, with snapshots and checksums of folded commits.
#
# An object store has no rename, so a dropped application cannot be renamed. So each restart gets an *era*: a folder
# with the next number, `commits/<application>/<era>/`, which exists once it has the object `begun`. The highest era is
# the present one; era 0, the first, has no folder of its own.
#
# A process that was suspended, maybe for hours, continues in its era. Three rules make that harmless:
#
# - After the put of a commit, its writer looks for the next era, and removes the commit if that has started. - Ended
# eras are listed only after the next era has started. So a commit is either in that list, or its writer sees the   new
# era. `begun` is removed last, after a list without commits. - Only eras before a started one are removed, never "all
# but the present one", which may have ended meanwhile.

BEGUN = "begun"
"""The name of the object that starts an era."""


@dataclass(frozen=True)
class Era:
    """An application from its start to the next full refresh. `number`: from 0.

    `names`: of the objects in the era's folder, as of the last list.
    """

    application: str
    number: int
    names: frozenset[str]

    @property
    def folder(self) -> str:
        """The path of its commits, relative to the log."""
        return _folder(self.application, self.number)

    @property
    def next(self) -> str:
        """The object that starts the next era."""
        return f"{_folder(self.application, self.number + 1)}/{BEGUN}"

    @property
    def begun(self) -> str:
        """The object that has started it; era 0 has none."""
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
        era = cls(application, number, _names(found))
        return era.listed(objects) if number else era

    def listed(self, objects: Objects) -> Era:
        """The same era with a new list of its objects."""
        return replace(self, names=_names(objects.folders(self.folder)[1]))


def _names(found: Iterable[ObjectInfo]) -> frozenset[str]:
    return frozenset(info.path.rpartition("/")[2] for info in found)


def _folder(application: str, era: int) -> str:
    return f"commits/{application}/{era:06d}" if era else f"commits/{application}"


def remove_ended(objects: Objects, application: str, present: int) -> None:
    """Remove the objects of all eras before a started one. `present`: its number."""
    for _ in range(2):
        ended = [
            info.path
            for info in objects.below(_folder(application, 0))
            if (era := _era_of(application, info.path)) is not None and era < present
        ]
        commits = [path for path in ended if not path.endswith(f"/{BEGUN}")]
        objects.remove(commits or ended)
        if not commits:
            return
    # A commit has appeared since the first list, and is removed. `begun` is removed after the next list.


def _era_of(application: str, path: str) -> int | None:
    """The era of an object below the application's folder; None for other objects."""
    era, _, _ = path.removeprefix(f"{_folder(application, 0)}/").rpartition("/")
    return int(era or 0) if not era or era.isdecimal() else None


def entry(application: str) -> str:
    """The object that exists from the application's first commit on."""
    return f"applications/{application}"


class ObjectCommitStore:
    """The commits of one application in an object store.

    A commit is one conditional put (`Objects.create`). Its identity is the ETag. The first request looks up the era;
    `latest`, `snapshots` and `first`, which load a state, look it up again. Results are cached, so an instance is used
    by one thread at a time, except `save_snapshot` and `fold`.
    """

    def __init__(self, application: str, objects: Objects) -> None:
        self.application = application
        self._objects = objects
        self._known: Era | None = None
        self._there = 0
        """An existing commit of the present era. Most commits follow it, so it need not be looked up again."""
        self._ahead: dict[int, tuple[str, bytes]] = {}
        """Identities and data of prefetched commits after `_there`."""

    def path(self, number: int, *, snapshot: bool = False) -> str:
        return self._objects.uri((_snapshot if snapshot else _commit)(self._era(), number))

    def create(self, number: int, data: bytes) -> str:
        """See `CommitStore.create`.

        After the put, two objects are looked up concurrently. If the next era exists, this one has ended. If the
        previous commit exists, this one was not folded before it was created: commits are folded from the lowest on.
        """
        era = self._era()
        if number > 1 and number - 1 != self._there and not self._has(era, number - 1):
            raise self._creation_error(era, number)
        path = _commit(era, number)
        try:
            identity = self._objects.create(path, data)
        except ObjectExistsError:
            raise CommitExistsError(self.application, number) from None
        has_ended, follows = self._look_around(era, number)
        if has_ended:
            raise self._taken_back(path, number)
        if not follows:
            self._reject_folded(era, number, data)
        self._there = number
        if number == 1:
            self.enter()
        return identity

    def read(self, number: int) -> bytes | None:
        if number in self._ahead:
            return self._ahead.pop(number)[1]
        data = self._objects.get(_commit(self._era(), number))
        return None if data is None or self._was_folded(self._era(), number, data) else data

    def identity(self, number: int) -> str | None:
        """See `CommitStore.identity`.

        Loading a state reads one listed commit after the other, so these are prefetched.
        """
        if number == self._there + 1:
            if number not in self._ahead:
                self._read_ahead(self._era(), number)
            if number in self._ahead:
                self._there = number
                return self._ahead[number][0]
        found = self._objects.find(_commit(self._era(), number))
        if found is None:
            if number == self._there:  # `find` does not distinguish a missing bucket
                self._look()
            return None
        self._there = number
        return found.tag

    def checksum(self, number: int) -> int | None:
        data = self.read(number)
        return crc32(data) if data is not None else FoldedChecksums(self._objects, self._look()).checksum(number)

    def first(self) -> int:
        era = self._look()
        folded = FoldedChecksums(self._objects, era).last  # commits up to this one are superfluous, or came too late
        return min((number for number in era.numbers(".json") if number > folded), default=0)

    def latest(self) -> int:
        """See `CommitStore.latest`. Raises CommitsMissingError."""
        for _ in range(2):  # the first commit may appear between the two requests
            era = self._look()
            latest = max(era.numbers(".json"), default=0)
            if latest or not (era.numbers(".snapshot") or self._objects.find(entry(self.application))):
                return latest
        raise CommitsMissingError(
            self.application, self._objects.uri(era.folder), self._objects.uri(entry(self.application))
        )

    def enter(self) -> None:
        """Create the entry, if there are commits. Another process may create it concurrently."""
        if self._objects.find(entry(self.application)) is None and self.first():
            with suppress(ObjectExistsError):
                self._objects.create(entry(self.application), b"")
            if not self.first():  # the application was dropped meanwhile
                self._objects.remove([entry(self.application)])

    def snapshots(self) -> list[int]:
        return self._look().numbers(".snapshot")[::-1]

    def read_snapshot(self, number: int) -> bytes | None:
        return self._objects.get(_snapshot(self._era(), number))

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        """See `CommitStore.save_snapshot`. A snapshot in an ended era is never read.

        This method and `fold` run beside the thread that commits. So they look up the era themselves, and do not change
        the cache of this instance.
        """
        era = Era.find(self._objects, self.application)
        if not self._is(era, number, identity):
            return False
        self._objects.put(_snapshot(era, number), data)
        return True

    def fold(self, before: int, identity: str) -> None:
        """See `CommitStore.fold`. Commits are removed one by one, to keep their order."""
        era = Era.find(self._objects, self.application)
        if not self._is(era, before, identity):
            return
        commits = [number for number in era.numbers(".json") if number < before]
        FoldedChecksums(self._objects, era).keep(self._checksums_of(era, commits))
        existing = set(era.numbers(".json"))
        self._objects.remove(
            _snapshot(era, number) for number in era.numbers(".snapshot") if number < before or number not in existing
        )
        for number in commits:
            self._objects.remove([_commit(era, number)])

    def _checksums_of(self, era: Era, commits: Iterable[int]) -> list[tuple[int, int]]:
        found = ((number, self._objects.get(_commit(era, number))) for number in commits)
        return [(number, crc32(data)) for number, data in found if data is not None]

    def _is(self, era: Era, number: int, identity: str) -> bool:
        found = self._objects.find(_commit(era, number))
        return found is not None and found.tag == identity

    def _read_ahead(self, era: Era, number: int) -> None:
        """Prefetch listed commits from `number` on, concurrently."""
        numbers = [listed for listed in range(number, number + AT_ONCE) if _name(listed) in era.names]
        contents = list(self._objects.get_all(_commit(era, listed) for listed in numbers))
        self._ahead = {
            listed: (content[0].tag, content[1])
            for listed, content in zip(numbers, contents, strict=True)
            if content is not None
        }
        if number in self._ahead and self._was_folded(era, number, self._ahead[number][1]):
            self._ahead = {}

    def _has(self, era: Era, number: int) -> bool:
        return self._objects.find(_commit(era, number)) is not None

    def _was_folded(self, era: Era, number: int, data: bytes) -> bool:
        """Whether the commit of this number was folded, and `data` is another one, which is void.

        Its writer was late, and was killed before it could remove the commit. While the previous commit exists, neither
        this one nor later ones were folded, see `create`.
        """
        if number > 1 and self._has(era, number - 1):
            return False
        return FoldedChecksums(self._objects, era.listed(self._objects)).differ(number, crc32(data))

    def _look_around(self, era: Era, number: int) -> tuple[bool, bool]:
        """Whether the era has ended, and whether the previous commit exists.

        The first commit has no previous one, which would be removed with its era. So all later eras are looked up.
        """
        if number == 1:
            return Era.find(self._objects, self.application).number != era.number, False
        ended, before = threads().map(self._objects.find, (era.next, _commit(era, number - 1)))
        return ended is not None, before is not None

    def _taken_back(self, path: str, number: int) -> CommitExistsError | CommitGapError:
        """Remove a commit that was created in an ended era. Returns the error."""
        self._objects.remove([path])
        self._look()
        return CommitGapError(self.application, number) if number > 1 else CommitExistsError(self.application, 1)

    def _creation_error(self, era: Era, number: int) -> CommitExistsError | CommitGapError:
        """The error for a commit without its predecessor."""
        if min(era.listed(self._objects).numbers(".json"), default=0) > number:
            return CommitExistsError(self.application, number)
        return CommitGapError(self.application, number)

    def _reject_folded(self, era: Era, number: int, data: bytes) -> None:
        """Remove a commit with a number that was folded while this process was suspended before the put.

        If the process was suspended after the put, the commit is valid, or was folded.
        """
        folded = FoldedChecksums(self._objects, era.listed(self._objects))
        if (number == 1 and not folded.last) or 1 < number == folded.last + 1:
            return
        checksum = folded.checksum(number)
        self._objects.remove([_commit(era, number)])
        if not folded.last:
            raise CommitGapError(self.application, number)
        if checksum != crc32(data):
            raise CommitExistsError(self.application, number)

    def _look(self) -> Era:
        """Look up the present era, and clear the cache."""
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
