"""The checksums that commits list, by file: what a copied file is compared with."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from zlib import crc32

from ..commit.records import StoreSnapshot
from ..saved_files import summed
from ..segments.segment import Segment
from ..state import LogState


class Checksums:
    """Those of all files that these states list."""

    def __init__(self, states: Iterable[LogState]) -> None:
        self._segments: dict[str, list[Segment]] = {}
        self._copies: dict[str, StoreSnapshot] = {}
        for state in states:
            for segment in state.segments():
                self._segments.setdefault(segment.path, []).append(segment)
            self._copies.update((copy.path, copy) for copy in state.store_snapshots.listed)

    def fit(self, path: str, content: Path) -> bool:
        """Whether the file at `content` is what commits list as `path`, in all bytes that they list."""
        if (copy := self._copies.get(path)) is not None:
            return summed(content) == (copy.size, copy.checksum)
        with open(content, "rb") as file:
            if not file.seek(0, 2):
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
                return all(_fits(view, *each) for segment in self._segments[path] for each in _listed(segment))


def _fits(view: memoryview, start: int, length: int, checksum: int) -> bool:
    with view[start : start + length] as part:
        return len(part) == length and crc32(part) == checksum


def _listed(segment: Segment) -> Iterator[tuple[int, int, int]]:
    """Start, length and crc32 of the schema and of each batch."""
    if segment.head_checksum is not None:
        yield 0, segment.head, segment.head_checksum
    for batch in segment.batches:
        yield batch.start, batch.length, batch.checksum
