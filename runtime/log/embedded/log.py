"""The log in a directory of a local file system."""

from __future__ import annotations

import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from io import FileIO
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from ....private_files import opener, raise_if_dangling, write_whole
from ....unusable_paths import in_utf8, raises_machine_errors
from ...timed_parts import timed
from ..durable_files import (
    check_directory,
    link,
    make_directory,
    pieces,
    size_and_checksum,
    sync_directory,
    sync_file,
    sync_new,
    write_durably,
    write_new,
)
from ..errors import CorruptSegmentError, RangeMissingError, SavedFileError
from ..log import NAME, LogFile, SavedFile, id_in, new_id
from ..ranges import Columns, Fetched, LogRange
from ..segments.files import byte_ranges, fetch
from ..segments.partitions import SegmentWriter
from ..segments.segment import FileRange
from .commits import DirectoryCommitStore

# Syncs all files of an epoch at once.
#
# A disk syncs several files at the same time in little more than the time for one, because file systems write their
# journal once for all of them. Four files with their folders, one after the other, take eight times as long.

MOST_OPEN = 64
"""The greatest number of unsynced files, below the limit of open files of a process."""

AT_ONCE = 16


class EmbeddedWriter(SegmentWriter):
    """See `Writer`. `root`: the log's directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: list[tuple[Path, FileIO]] = []
        self._folders: set[Path] = set()

    @raises_machine_errors
    def sync(self) -> None:
        # No commit lists these files yet, so a name may be on the disk before its content.
        self._sync([*self._unsynced_files(), *(partial(sync_directory, folder) for folder in sorted(self._folders))])
        self.close()
        self._folders.clear()

    @raises_machine_errors
    def _write_file(self, path: str, data: pa.Buffer) -> None:
        if len(self._files) == MOST_OPEN:
            self._sync(self._unsynced_files())
            self.close()
        target = self._root / path
        make_directory(target.parent)
        self._files.append((target, write_new(target, memoryview(data))))
        self._folders.add(target.parent)

    def _unsynced_files(self) -> list[Callable[[], None]]:
        return [partial(sync_new, path, file) for path, file in self._files]

    def _sync(self, work: list[Callable[[], None]]) -> None:
        if not work:
            return
        first, *others = work  # this thread does one itself: starting a thread takes longer than a sync in memory
        with timed("fsync"), ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(sync) for sync in others]
            first()
            for future in futures:
                future.result()

    def close(self) -> None:
        """Close its files. They may be lost without `sync`."""
        for _, file in self._files:
            file.close()
        self._files.clear()


# Leftovers of dead processes: partly dropped applications, files that were never linked.

GRACE_S = 24 * 3600
"""A temporary file exists for a moment until it is linked. After a day its writer is certainly dead."""

_DROPPED = re.compile(r"\..+-[0-9a-f]{32}")


def remove_leftovers(root: Path, now: float | None = None) -> None:
    """Remove leftovers, as far as permissions allow. `now`: seconds since 1970, by default the clock's.

    A dropped application's folder was renamed, and no process reads it under the new name.
    """
    now = time.time() if now is None else now
    for kind in ("commits", "segments", "snapshots"):
        for folder in (root / kind).glob(".*-*"):
            if _DROPPED.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
    for path in chain(*map(root.glob, (".*.tmp", "status/.*.tmp", "commits/*/.*.tmp"))):
        try:
            if path.stat().st_mtime < now - GRACE_S:
                path.unlink()
        except OSError:  # another process has removed it, or permissions do not allow it
            continue


_FILES = {"segments": "*/*.seg", "snapshots": "*/*.snap"}


class EmbeddedLog(SegmentWriter):
    """A `Log` in one directory, without a server.

    It has `commits/<application>/`, `segments/<application>/<topic>/`, `snapshots/<application>/<store>/`, the status
    of the last run, `status/<application>.json`, and empty files: `applications/<application>` for each application
    with commits, `paused/<application>` for each paused one.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = in_utf8(Path(root))

    def __repr__(self) -> str:
        return f"EmbeddedLog({str(self.root)!r})"

    @raises_machine_errors
    def check(self) -> None:
        """See `Log.check`. Raises UnsupportedFileSystemError."""
        check_directory(self.root)
        self._ensure_identity()
        remove_leftovers(self.root)
        for application in self.applications():
            self.commits(application).enter()

    @raises_machine_errors
    def remove_leftovers(self) -> None:
        remove_leftovers(self.root)
        for application in self.applications():
            self.commits(application).remove_refused()

    @raises_machine_errors
    def identity(self) -> str:
        """See `Log.identity`. Raises LogFileError."""
        path = self.root / NAME
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise_if_dangling(self.root)
            return ""
        except NotADirectoryError:
            return ""
        return id_in(content, path)

    def look_seconds(self) -> float:
        return 0.0

    @raises_machine_errors
    def applications(self) -> list[str]:
        try:
            names = os.listdir(self.root / "commits")
        except FileNotFoundError:
            raise_if_dangling(self.root)
            return []
        return sorted(name for name in names if not name.startswith("."))

    def commits(self, application: str) -> DirectoryCommitStore:
        directory = self.root.joinpath("commits", application)
        return DirectoryCommitStore(application, directory, self._entry(application))

    def writer(self) -> AbstractContextManager[EmbeddedWriter]:
        return closing(EmbeddedWriter(self.root))

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`. Reads one batch of the file after another."""
        return fetch(within, start, columns, self._read)

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> EmbeddedLog:  # noqa: ARG002
        return self

    @raises_machine_errors
    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        target = self.root / path
        make_directory(target.parent)
        if target.exists():
            raise FileExistsError(str(target))
        try:
            fill(target)
            sync_file(target)
            saved = SavedFile(path, *size_and_checksum(pieces(target)))
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        sync_directory(target.parent)
        return saved

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        try:
            yield from pieces(self.root / path, start)
        except OSError as error:
            raise SavedFileError(path, error.strerror or str(error)) from error

    def files(self, application: str) -> Iterator[LogFile]:
        paths = [path for kind, glob in _FILES.items() for path in (self.root / kind / application).glob(glob)]
        for path in sorted(paths):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            yield LogFile(path.relative_to(self.root).as_posix(), stat.st_mtime_ns // 1_000_000, stat.st_size)

    @raises_machine_errors
    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    @raises_machine_errors
    def drop(self, application: str) -> None:
        # The entry first: commits without an entry are valid, an entry without commits is an error.
        self._entry(application).unlink(missing_ok=True)
        self._status(application).unlink(missing_ok=True)
        existing = [path for kind in ("commits", *_FILES) if (path := self.root / kind / application).exists()]
        # Renamed first, so that a crash leaves neither commits without the first ones, nor files with names that the
        # application will use again.
        doomed = [path.rename(path.with_name(f".{application}-{uuid.uuid4().hex}")) for path in existing]
        for path in doomed:
            sync_directory(path.parent)
            # Another process may remove it too, and `remove_leftovers` removes the rest.
            shutil.rmtree(path, ignore_errors=True)
        if not self.commits(application).first():  # a process that still saw the commits may have created it again
            self._entry(application).unlink(missing_ok=True)

    @raises_machine_errors
    def write_status(self, application: str, status: str) -> None:
        write_whole(self._status(application), status.encode(), "tmp")

    @raises_machine_errors
    def read_status(self, application: str) -> str | None:
        try:
            return self._status(application).read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    @raises_machine_errors
    def pause(self, application: str) -> None:
        """See `Log.pause`. A second pause keeps the time of the first."""
        path = self._pause(application)
        make_directory(path.parent)
        with suppress(FileExistsError), open(path, "xb", opener=opener):
            pass
        sync_directory(path.parent)

    @raises_machine_errors
    def resume(self, application: str) -> None:
        path = self._pause(application)
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_directory(path.parent)

    @raises_machine_errors
    def paused_since(self, application: str) -> int | None:
        try:
            return self._pause(application).stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    @raises_machine_errors
    def _write_file(self, path: str, data: pa.Buffer) -> None:
        target = self.root / path
        make_directory(target.parent)
        write_durably(target, memoryview(data))
        # The file's name must be durable before a commit lists it.
        sync_directory(target.parent)

    def _ensure_identity(self) -> None:
        """Create the log's id, unless it has one. Of two concurrent processes, the first one wins."""
        if self.identity():
            return
        temporary = self.root / f".{uuid.uuid4().hex}.tmp"
        write_durably(temporary, new_id())
        try:
            with suppress(FileExistsError):
                link(temporary, self.root / NAME)
        finally:
            temporary.unlink()
        sync_directory(self.root)

    def _pause(self, application: str) -> Path:
        return self.root.joinpath("paused", application)

    def _status(self, application: str) -> Path:
        return self.root.joinpath("status", f"{application}.json")

    def _entry(self, application: str) -> Path:
        return self.root.joinpath("applications", application)

    @raises_machine_errors
    def _read(self, file: FileRange, batch: int) -> memoryview:
        """The concatenated bytes of the schema and a batch."""
        ranges = byte_ranges(file, batch)
        data = np.empty(sum(length for _, length in ranges), np.uint8).data
        try:
            handle = os.open(self.root / file.path, os.O_RDONLY)
        except FileNotFoundError:
            raise RangeMissingError(file.path) from None
        try:
            read = 0
            for start, length in ranges:
                # A shorter file is damaged: it was complete when the commit listed it.
                if os.preadv(handle, [data[read : read + length]], start) != length:
                    raise CorruptSegmentError(file.path, batch)
                read += length
        except OSError as error:
            error.filename = error.filename or str(self.root / file.path)  # errors of `preadv` have none
            raise
        finally:
            os.close(handle)
        return data
