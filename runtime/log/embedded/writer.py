"""Brings all files of an epoch to the disk at once.

A disk that is asked for several files at the same time has them all after little more than it takes for one: file
systems write their journal once for all of them. Four files with their folders, one after the other, take eight times
as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import FileIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....unusable_paths import unusable_paths_told
from ...timed_parts import timed
from ..durable_files import make_directory, sync_directory, sync_new, write_new
from ..segments.segment import Segment
from ..segments.writing import write_segments

MOST_OPEN = 64
"""Files that are written and not on the disk yet: more would come near to what a process may have open."""

AT_ONCE = 16


class EmbeddedWriter:
    """See `Writer`. `root`: of the log."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[tuple[Path, FileIO]] = []
        self._folders: set[Path] = set()

    @classmethod
    @contextmanager
    def under(cls, root: Path) -> Iterator[EmbeddedWriter]:
        """A writer, whose files are closed at the end."""
        writer = cls(root)
        try:
            yield writer
        finally:
            writer._close()

    @unusable_paths_told
    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Segment, ...]:
        """See `Writer.write`."""
        if len(self._files) == MOST_OPEN:
            self._sync(self._unsynced_files())
            self._close()
        return write_segments(self._keep, application, topic, name, table, partitions, lane)

    @unusable_paths_told
    def sync(self) -> None:
        """See `Writer.sync`."""
        # Nothing lists these files yet, so it does not matter whether a name is on the disk before its content.
        self._sync([*self._unsynced_files(), *(partial(sync_directory, folder) for folder in sorted(self._folders))])
        self._close()
        self._folders.clear()

    def _keep(self, path: str, data: pa.Buffer) -> None:
        target = self._root / path
        make_directory(target.parent)
        self._files.append((target, write_new(target, memoryview(data))))
        self._folders.add(target.parent)

    def _unsynced_files(self) -> list[Callable[[], None]]:
        return [partial(sync_new, path, file) for path, file in self._files]

    def _sync(self, work: list[Callable[[], None]]) -> None:
        if not work:
            return
        first, *others = work  # this thread takes one of them: a thread takes longer to start than a disk in memory
        with timed("fsync"), ThreadPoolExecutor(AT_ONCE) as pool:
            begun = [pool.submit(each) for each in others]
            first()
            for done in begun:
                done.result()

    def _close(self) -> None:
        for _, file in self._files:
            file.close()
        self._files.clear()
