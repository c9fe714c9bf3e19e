"""The file that says up to where stores have applied their changelogs.

The format is that of Kafka Streams' checkpoint files, version 0 (`OffsetCheckpoint` of Kafka Streams 4.0): lines of
UTF-8 with the version, the number of entries, and for each entry topic, partition and offset. An offset is that of the
last record that was applied; UNKNOWN says that none was, as far as is known. A file is replaced as a whole, and is on
the disk before it can be seen.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...errors import HeadwaterError
from ..log.durable_files import sync_directory
from .whole_files import write_whole

NAME = ".checkpoint"
"""The file's name. No store may have it."""

UNKNOWN = -4
"""Instead of an offset: nothing is known to be applied."""

_VERSION = 0

Changelog = tuple[str, int]
"""The topic and the partition of a changelog."""


class CheckpointError(HeadwaterError):
    """A checkpoint file is not as it was written, or an offset cannot be written down: `path`, `cause`."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"checkpoint file {path}: {cause}")
        self.path = path
        self.cause = cause


class OffsetCheckpoint:
    """One checkpoint file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Changelog, int]:
        """The offsets; empty without a file. Entries with an offset that is none are passed over.

        Raises CheckpointError, OSError.
        """
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError as error:
            raise CheckpointError(self.path, "it is no text") from error
        version, expected = (self._number(line) for line in [*lines, "", ""][:2])
        if version != _VERSION:
            raise CheckpointError(self.path, f"its version is {version}; this is known: {_VERSION}")
        offsets: dict[Changelog, int] = {}
        for line in lines[2:]:
            fields = line.split()
            if len(fields) != 3:
                raise CheckpointError(self.path, f"an entry has {len(fields)} fields instead of 3")
            offset = self._number(fields[2])
            if _is_valid(offset):
                offsets[fields[0], self._number(fields[1])] = offset
            else:
                expected -= 1
        if len(offsets) != expected:
            raise CheckpointError(self.path, f"it has {len(offsets)} entries instead of {expected}")
        return offsets

    def write(self, offsets: Mapping[Changelog, int]) -> None:
        """Replace the file; without any offsets it is deleted. Raises CheckpointError for an offset that is none."""
        for (topic, partition), offset in offsets.items():
            if not _is_valid(offset):
                raise CheckpointError(self.path, f"{offset} is no offset of {topic} {partition}")
        if not offsets:
            self.delete()
            return
        entries = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in sorted(offsets.items())]
        write_whole(self.path, "".join([f"{_VERSION}\n{len(entries)}\n", *entries]), durably=True)
        sync_directory(self.path.parent)

    def delete(self) -> None:
        """Remove the file, on the disk too. There may be none."""
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)

    def stamp(self) -> tuple[int, int] | None:
        """What tells this file from those that replace it; None without a file."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _number(self, text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise CheckpointError(self.path, f"{text!r} is no number") from None


def offset_of(position: int) -> int:
    """The offset that stands for a store's position."""
    return position - 1 if position else UNKNOWN


def position_of(offset: int) -> int:
    """The position of a store for which an offset was written."""
    return 0 if offset == UNKNOWN else offset + 1


def _is_valid(offset: int) -> bool:
    return offset >= 0 or offset == UNKNOWN
