"""The log in an object store: all files of the log are objects under one prefix. Stores stay local."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from ....private_files import make_folder
from ...environment import parse_duration
from ..durable_files import pieces, size_and_checksum
from ..errors import SavedFileError
from ..log import NAME, LogFile, SavedFile, id_in, new_id
from ..ranges import Columns, Fetched, LogRange
from ..segments.files import fetch
from ..segments.partitions import SegmentWriter
from .commits import BEGUN, Era, ObjectCommitStore, entry, remove_ended
from .connection import Connection
from .objects import PART, BatchesAhead, ObjectExistsError, Objects, RangesAhead

_KINDS = {"segments": ".seg", "snapshots": ".snap"}


class ObjectStoreLog(SegmentWriter):
    """A `Log` under one prefix, with the same paths as in a directory, see `docs/log.md`.

    `uri`: `s3://bucket/prefix`, or `file:///folder`. For the other options see `Connection`. `look_every`: a duration,
    the interval at which a driver polls for commits of others, with a request for each application.
    """

    def __init__(
        self,
        uri: str,
        region: str | None = None,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        look_every: str = "1s",
    ) -> None:
        connection = Connection(uri, region, endpoint, access_key_id, secret_access_key, session_token)
        self.uri = uri
        self._look_seconds = parse_duration(look_every) / 1000
        self._objects = Objects(connection)

    def __repr__(self) -> str:
        return f"ObjectStoreLog({self.uri!r})"

    def check(self) -> None:
        """See `Log.check`. Raises NoConditionalPutError and other errors of the store within seconds."""
        if self._objects.connection.local:
            make_folder(Path("/") / self._objects.connection.prefix)
        first = self._objects.impatient()
        first.check()
        if not self.identity():
            with suppress(ObjectExistsError):
                first.create(NAME, new_id())
        self.remove_leftovers()
        for application in self.applications():
            self.commits(application).enter()

    def remove_leftovers(self) -> None:
        """See `Log.remove_leftovers`. Removes the rest of dropped applications, and of checks."""
        self._remove_ended_eras()
        self._objects.remove_old_checks()

    def identity(self) -> str:
        """See `Log.identity`. Raises LogFileError."""
        content = self._objects.impatient().get(NAME)
        return "" if content is None else id_in(content, self._objects.uri(NAME))

    def look_seconds(self) -> float:
        """See `Log.look_seconds`: the option `look_every`."""
        return self._look_seconds

    def applications(self) -> list[str]:
        entered = {found.path.partition("/")[2] for found in self._objects.below("applications")}
        folders, _ = self._objects.folders("commits")
        return [name for name in folders if name in entered or self.commits(name).first()]

    def commits(self, application: str) -> ObjectCommitStore:
        return ObjectCommitStore(application, self._objects)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`. Reads several batches of the file with one request."""
        return fetch(within, start, columns, BatchesAhead(self._objects))

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangesAhead:
        return RangesAhead(self._objects, ranges)

    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        """See `Log.save_file`. The file is created in the system's temporary folder, and uploaded from there."""
        with tempfile.TemporaryDirectory(prefix="headwater-") as folder:
            file = Path(folder) / "file"
            if self._objects.find(path) is not None:
                raise FileExistsError(self._objects.uri(path))
            fill(file)
            saved = SavedFile(path, *size_and_checksum(pieces(file)))
            self._make(path, file)
        return saved

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        try:
            yield from self._objects.pieces(path, start, PART)
        except FileNotFoundError as error:
            raise SavedFileError(path, "there is no such object") from error

    def files(self, application: str) -> Iterator[LogFile]:
        for kind, suffix in _KINDS.items():
            for found in sorted(self._objects.below(f"{kind}/{application}"), key=lambda found: found.path):
                if found.path.endswith(suffix):
                    yield LogFile(found.path, found.modified, found.size)

    def remove(self, path: str) -> None:
        self._objects.remove([path])

    def drop(self, application: str) -> None:
        """See `Log.drop`.

        Files are listed first. Then a new era starts, which makes all commits void at once. So a process that is
        suspended in here, and continues after the application has restarted, removes nothing of the new era.
        """
        # The entry first: commits without an entry are valid, an entry without commits is an error.
        self._objects.remove([entry(application), self._status(application)])
        era = Era.find(self._objects, application)
        files = [found.path for kind in _KINDS for found in self._objects.below(f"{kind}/{application}")]
        if not files and era.names <= {BEGUN}:
            return
        with suppress(ObjectExistsError):  # another process has just dropped it too
            self._objects.create(era.next, b"")
            remove_ended(self._objects, application, era.number + 1)
            self._objects.remove(files)
        if not self.commits(application).first():  # a process that still saw the commits may have created it again
            self._objects.remove([entry(application)])

    def write_status(self, application: str, status: str) -> None:
        # The driver must not wait long for a status that is only shown to users.
        self._objects.hurried().put(self._status(application), status.encode())

    def read_status(self, application: str) -> str | None:
        content = self._objects.get(self._status(application))
        return None if content is None else content.decode(errors="replace")

    def pause(self, application: str) -> None:
        """See `Log.pause`. A second pause keeps the time of the first."""
        with suppress(ObjectExistsError):
            self._objects.create(self._pause(application), b"")

    def resume(self, application: str) -> None:
        self._objects.remove([self._pause(application)])

    def paused_since(self, application: str) -> int | None:
        """See `Log.paused_since`. The time is that of the store's clock."""
        found = self._objects.find(self._pause(application))
        return None if found is None else found.modified

    def _pause(self, application: str) -> str:
        return f"paused/{application}"

    def _status(self, application: str) -> str:
        return f"status/{application}.json"

    def _write_file(self, path: str, data: pa.Buffer) -> None:
        self._make(path, memoryview(data).cast("B"))

    def _make(self, path: str, content: memoryview | Path) -> None:
        try:
            self._objects.make(path, content)
        except ObjectExistsError as error:
            raise FileExistsError(self._objects.uri(path)) from error

    def _remove_ended_eras(self) -> None:
        """Remove the rest of ended eras: of interrupted drops, and late commits."""
        for application in self._objects.folders("commits")[0]:
            remove_ended(self._objects, application, Era.find(self._objects, application).number)
