"""The checksums of folded commits: 4 bytes a commit, in files of one directory, at places that their numbers give.

A file `<number>.checksums` is of the commits from that number on. An entry is 0 while the commit is there. The file has
one byte, less than an entry, once all of its commits were folded so long ago that nobody needs their checksums. An
empty one was just made: nothing is folded there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from struct import Struct

from ....private_files import FILE
from ..commits import KEPT_CHECKSUMS

IN_A_FILE = 1_000_000
"""Commits."""

_ENTRY = Struct("<I")

_EMPTIED = 1
"""Bytes of a file whose checksums are not needed any more."""


class FoldedChecksums:
    """Those of one application, in the directory of its commits."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def of(self, number: int) -> int | None:
        """The checksum of a folded commit. None if it was not folded, or too long ago."""
        return _unpacked(self._entry(number))

    def differ(self, number: int, checksum: int) -> bool:
        """Whether commit `number` was folded with another checksum, or so long ago that its checksum is not known."""
        entry = self._entry(number)
        if not entry:
            return entry is not None
        return _unpacked(entry) not in (None, checksum)

    def keep(self, directory: int, checksums: Iterable[tuple[int, int]]) -> None:
        """Keep checksums durably, by number, in ascending order. `directory`: a descriptor of the directory.

        Those that are kept already stay as they are.
        """
        last = 0
        for first, some in groupby(checksums, lambda each: _file_of(each[0])):
            handle = os.open(_name(first), os.O_RDWR | os.O_CREAT, FILE, dir_fd=directory)
            try:
                if not os.fstat(handle).st_size:
                    os.fchmod(handle, FILE)  # whatever the umask has left
                for number, checksum in some:
                    at = (number - first) * _ENTRY.size
                    if _unpacked(os.pread(handle, _ENTRY.size, at)) is None:
                        os.pwrite(handle, _ENTRY.pack(checksum), at)
                    last = number
                os.fsync(handle)
            finally:
                os.close(handle)
        os.fsync(directory)
        self._drop(directory, last - KEPT_CHECKSUMS)

    def _drop(self, directory: int, before: int) -> None:
        """Drop the checksums of commits that all lie before one, file by file."""
        for first in range(_file_of(max(before, 0)) - IN_A_FILE, -1, -IN_A_FILE):
            with suppress(FileNotFoundError):
                if os.stat(_name(first), dir_fd=directory).st_size == _EMPTIED:
                    return  # and those before it have been, too
                handle = os.open(_name(first), os.O_WRONLY, dir_fd=directory)
                try:
                    os.ftruncate(handle, _EMPTIED)
                finally:
                    os.close(handle)

    def _entry(self, number: int) -> bytes | None:
        """The entry of a commit: no bytes if it is not needed any more, None without a file."""
        first = _file_of(number)
        path = f"{self._directory}/{_name(first)}"
        try:
            handle = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if os.fstat(handle).st_size == _EMPTIED:
                return b""
            return os.pread(handle, _ENTRY.size, (number - first) * _ENTRY.size).ljust(_ENTRY.size, b"\0")
        except OSError as error:
            error.filename = path  # which the system does not say of a file that is open
            raise
        finally:
            os.close(handle)


def _file_of(number: int) -> int:
    return number - number % IN_A_FILE


def _name(first: int) -> str:
    return f"{first:012d}.checksums"


def _unpacked(entry: bytes | None) -> int | None:
    return _ENTRY.unpack(entry)[0] or None if entry else None
