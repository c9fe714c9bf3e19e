"""The log in a directory of a local file system: no server, nothing to install."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ....private_files import make_folder, opener, refuse_dangling, write_text
from ....unusable_paths import in_utf8, unusable_paths_told
from ..durable_files import check_directory, make_directory, sync_directory, sync_file, write_durably
from ..errors import CorruptSegmentError, RangeMissingError, SavedFileError
from ..log import LogFile, SavedFile
from ..ranges import Columns, Fetched, LogRange
from ..rewritten import Rewritten
from ..saved_files import pieces, summed
from ..segments.files import byte_ranges
from ..segments.reading import fetch
from ..segments.segment import FileRange, Segment
from ..segments.writing import write_rewritten, write_segments
from .commits import DirectoryCommitStore
from .identity import ensure_identity, identity_of
from .leftovers import remove_leftovers
from .writer import EmbeddedWriter

_FILES = {"segments": "*/*.seg", "snapshots": "*/*.snap"}


class EmbeddedLog:
    """A `Log` under one directory: `commits/<application>/`, `segments/<application>/<topic>/`,
    `snapshots/<application>/<store>/`, the status of the last run, `status/<application>.json`, and empty files:
    `applications/<application>` for each that has committed, `paused/<application>` for each that is paused.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = in_utf8(Path(root))

    def __repr__(self) -> str:
        return f"EmbeddedLog({str(self.root)!r})"

    @unusable_paths_told
    def check(self) -> None:
        """See `Log.check`. Raises UnsupportedFileSystemError."""
        check_directory(self.root)
        ensure_identity(self.root)
        remove_leftovers(self.root)
        for application in self.applications():
            self.commits(application).enter()

    @unusable_paths_told
    def remove_leftovers(self) -> None:
        """See `Log.remove_leftovers`."""
        remove_leftovers(self.root)
        for application in self.applications():
            self.commits(application).remove_refused()

    @unusable_paths_told
    def identity(self) -> str:
        """See `Log.identity`. Raises LogFileError."""
        return identity_of(self.root)

    def look_seconds(self) -> float:
        """See `Log.look_seconds`."""
        return 0.0

    @unusable_paths_told
    def applications(self) -> list[str]:
        """See `Log.applications`."""
        try:
            names = os.listdir(self.root / "commits")
        except FileNotFoundError:
            refuse_dangling(self.root)
            return []
        return sorted(name for name in names if not name.startswith("."))

    def commits(self, application: str) -> DirectoryCommitStore:
        """See `Log.commits`."""
        directory = self.root.joinpath("commits", application)
        return DirectoryCommitStore(application, directory, self._entry(application))

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
        """See `Log.write`."""
        return write_segments(self._keep, application, topic, name, table, partitions, lane)

    def writer(self) -> AbstractContextManager[EmbeddedWriter]:
        """See `BatchingLog.writer`."""
        return EmbeddedWriter.under(self.root)

    @unusable_paths_told
    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Segment, ...]:
        """See `Log.write_rewritten`."""
        return write_rewritten(self._keep, application, topic, name, parts)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`: batch by batch, as the file has them."""
        return fetch(within, start, columns, self._read)

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> EmbeddedLog:  # noqa: ARG002
        """See `RangeReader.ahead`."""
        return self

    @unusable_paths_told
    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        """See `Log.save_file`."""
        target = self.root / path
        make_directory(target.parent)
        if target.exists():
            raise FileExistsError(str(target))
        try:
            fill(target)
            sync_file(target)
            saved = SavedFile(path, *summed(target))
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        sync_directory(target.parent)
        return saved

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        """See `Log.read_file`."""
        try:
            yield from pieces(self.root / path, start)
        except OSError as error:
            raise SavedFileError(path, error.strerror or str(error)) from error

    def files(self, application: str) -> Iterator[LogFile]:
        """See `Log.files`."""
        paths = [path for kind, each in _FILES.items() for path in (self.root / kind / application).glob(each)]
        for path in sorted(paths):
            try:
                found = path.stat()
            except FileNotFoundError:
                continue
            yield LogFile(path.relative_to(self.root).as_posix(), found.st_mtime_ns // 1_000_000, found.st_size)

    @unusable_paths_told
    def remove(self, path: str) -> None:
        """See `Log.remove`."""
        (self.root / path).unlink(missing_ok=True)

    @unusable_paths_told
    def drop(self, application: str) -> None:
        """See `Log.drop`."""
        # The entry goes first: commits without an entry still count, an entry without commits is an error.
        self._entry(application).unlink(missing_ok=True)
        self._status(application).unlink(missing_ok=True)
        there = [path for kind in ("commits", *_FILES) if (path := self.root / kind / application).exists()]
        # Renamed first, so that a crash half-way leaves neither a sequence without its beginning nor files whose
        # names the application will take again.
        doomed = [path.rename(path.with_name(f".{application}-{uuid.uuid4().hex}")) for path in there]
        for path in doomed:
            sync_directory(path.parent)
            # Another process may be removing it too, and `remove_leftovers` removes the rest.
            shutil.rmtree(path, ignore_errors=True)
        if not self.commits(application).first():  # somebody who still saw the commits may have made the entry again
            self._entry(application).unlink(missing_ok=True)

    @unusable_paths_told
    def write_status(self, application: str, status: str) -> None:
        """See `Log.write_status`."""
        path = self._status(application)
        make_folder(path.parent)
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            write_text(temporary, status)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    @unusable_paths_told
    def read_status(self, application: str) -> str | None:
        """See `Log.read_status`."""
        try:
            return self._status(application).read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    @unusable_paths_told
    def pause(self, application: str) -> None:
        """See `Log.pause`. A second pause keeps the time of the first."""
        path = self._pause(application)
        make_directory(path.parent)
        with suppress(FileExistsError), open(path, "xb", opener=opener):
            pass
        sync_directory(path.parent)

    @unusable_paths_told
    def resume(self, application: str) -> None:
        """See `Log.resume`."""
        path = self._pause(application)
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            sync_directory(path.parent)

    @unusable_paths_told
    def paused_since(self, application: str) -> int | None:
        """See `Log.paused_since`."""
        try:
            return self._pause(application).stat().st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def _keep(self, path: str, data: pa.Buffer) -> None:
        target = self.root / path
        make_directory(target.parent)
        write_durably(target, memoryview(data))
        # The file's name must be durable before a commit that lists it is.
        sync_directory(target.parent)

    def _pause(self, application: str) -> Path:
        return self.root.joinpath("paused", application)

    def _status(self, application: str) -> Path:
        return self.root.joinpath("status", f"{application}.json")

    def _entry(self, application: str) -> Path:
        return self.root.joinpath("applications", application)

    @unusable_paths_told
    def _read(self, file: FileRange, batch: int) -> memoryview:
        """The byte ranges of the schema and a batch, one after the other."""
        ranges = byte_ranges(file, batch)
        data = np.empty(sum(length for _, length in ranges), np.uint8).data
        try:
            handle = os.open(self.root / file.path, os.O_RDONLY)
        except FileNotFoundError:
            raise RangeMissingError(file.path) from None
        try:
            at = 0
            for start, length in ranges:
                # A file that ends early is damaged: it was whole when the commit listed it.
                if os.preadv(handle, [data[at : at + length]], start) != length:
                    raise CorruptSegmentError(file.path, batch)
                at += length
        except OSError as error:
            error.filename = error.filename or str(self.root / file.path)  # `preadv` knows none
            raise
        finally:
            os.close(handle)
        return data
