"""Objects of a bucket, and reads of segments from them."""

from __future__ import annotations

import re
import threading
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from obstore.exceptions import AlreadyExistsError, BaseError

from ...timed_parts import wall_ms
from ..errors import CorruptSegmentError, LogError, RangeMissingError
from ..ranges import Columns, Fetched, LogRange, RangeReader
from ..segments.files import fetch
from ..segments.segment import FileRange
from .connection import (
    FIRST_PATIENCE,
    PATIENCE,
    Connection,
    NoConditionalPutError,
    ObjectStoreError,
    PassingError,
    Patience,
    StoreFailingError,
    Waiting,
    error_of,
)

PART = 8 << 20
"""Bytes of a part. An object that is bigger is sent in several, each with a request of its own."""

_WRITER = "headwater-writer"
"""The metadata key of an object's writer (`x-amz-meta-headwater-writer`)."""

AT_ONCE = 16
"""The number of concurrent requests of a process."""

_CHECKS = "checks"
_CHECK_LASTS_MS = 24 * 3_600_000
"""Longer than any check, even with suspended processes and wrong clocks."""

_LISTED_AT_ONCE = 1000

Response = TypeVar("Response")
Data = bytes | memoryview


class ObjectExistsError(Exception):
    """Another writer has created the object."""


@dataclass(frozen=True)
class ObjectInfo:
    """An object: path under the prefix, ETag, size in bytes, and time of creation: ms by the store's clock."""

    path: str
    tag: str
    size: int
    modified: int


class Objects:
    """The objects under one prefix of an object store. Thread-safe.

    An object appears atomically, and does not change until it is replaced or removed as a whole. After the response to
    a put it is durable and visible to all requests: S3 and compatible stores guarantee that (strong consistency). A
    local folder has no such guarantee after a power failure, as files are not synced there.

    Requests that may succeed later are retried, see `Patience`. Reads, lists, removals and replacements are idempotent.
    `create` is not, see there.
    """

    def __init__(self, connection: Connection, patience: Patience | None = None) -> None:
        self.connection = connection
        self._patience = patience or Patience(PATIENCE, PATIENCE)
        self._prefix = connection.prefix

    def __repr__(self) -> str:
        return f"Objects({self.connection.uri!r})"

    def impatient(self) -> Objects:
        """With a short patience for the first requests of a command: a wrong address is reported within seconds."""
        return Objects(self.connection, Patience(FIRST_PATIENCE, PATIENCE))

    def hurried(self) -> Objects:
        """With a short patience for optional requests."""
        return Objects(self.connection, Patience(FIRST_PATIENCE, FIRST_PATIENCE))

    def uri(self, path: str) -> str:
        """An object's URI, for messages."""
        return f"{self.connection.uri.rstrip('/')}/{path}"

    def create(self, path: str, data: Data) -> str:
        """Create an object unless it exists. Returns its ETag. Raises ObjectExistsError.

        It is one conditional put (`If-None-Match: *`), and of many writers one succeeds. Without a response, it is
        unknown whether the object was created. Then its metadata is read: each call writes a unique writer name into
        it. If it is this call's, the object was created; if it is another one, the race is lost. If there is no object,
        the put is sent again. A late first put does no harm, as one of both fails. The bytes alone would not suffice:
        two drivers may write the same ones.
        """
        writer, request, waiting = uuid.uuid4().hex, f"PUT {path}", Waiting(self._patience)
        while True:
            lost: PassingError | None = None
            try:
                return _tag(self._put(path, data, writer, mode="create", use_multipart=False))
            except AlreadyExistsError as error:
                if self.connection.local:
                    raise ObjectExistsError(path) from error
            except (BaseError, OSError) as error:
                lost = self._passing(request, waiting, error)
            try:
                found = self.hurried()._writer(path)
            except PassingError as error:
                lost, found = lost or error, None
            if found is not None:
                creator, tag = found
                if creator == writer:
                    return tag
                raise ObjectExistsError(path)
            # An error without an object: another put of it was in progress and failed, or the object was removed since.
            lost = lost or StoreFailingError(
                self.connection.uri, self.connection.location, request, waiting.seconds, "409 Conflict"
            )
            if not waiting.again(lost):
                raise lost

    def make(self, path: str, content: Data | Path) -> None:
        """Create an object of any size unless it exists. Raises ObjectExistsError.

        A large one is uploaded in parts, and appears at the end. Such a put has no condition. So this is for names with
        only one writer; `create` decides between several.
        """
        if (content.stat().st_size if isinstance(content, Path) else len(content)) <= PART:
            self.create(path, content.read_bytes() if isinstance(content, Path) else content)
            return
        if self.find(path) is not None:
            raise ObjectExistsError(path)
        writer = uuid.uuid4().hex
        try:
            self._request(f"PUT {path}", lambda: self._put(path, content, writer, chunk_size=PART))
        except ObjectStoreError:
            found = None
            with suppress(PassingError):
                found = self.hurried()._writer(path)  # perhaps only the response was lost
            if found is None or found[0] != writer:
                raise

    def put(self, path: str, data: Data) -> None:
        """Create or replace an object. A large one is uploaded in parts, and appears at the end."""
        self._request(f"PUT {path}", lambda: self._client.put(self._full(path), data, chunk_size=PART))

    def find(self, path: str) -> ObjectInfo | None:
        """An object's metadata; None without the object."""
        return self._request_or_none(f"HEAD {path}", lambda: _found(self._client.head(self._full(path)), path))

    def get(self, path: str) -> bytes | None:
        """The content of an object; None without the object."""
        return self._request_or_none(f"GET {path}", lambda: bytes(self._client.get(self._full(path)).bytes()))

    def get_all(self, paths: Iterable[str]) -> Iterator[tuple[ObjectInfo, bytes] | None]:
        """Metadata and content of several objects, None for missing ones, with concurrent requests."""
        return threads().map(self._found_with_content, paths)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]], joined: int) -> list[memoryview] | None:
        """Parts of an object, (start, length) each, with concurrent requests; None without the object.

        Parts with at most `joined` bytes in between are read with one request. Bytes behind the object's end are
        missing in the result, as the object may be truncated; the client's own `get_ranges` raises an error then.

            ranges, joined    [(0, 10), (15, 5), (500, 20)], 8
            spans             [(0, 20), (500, 520)]: two requests
            parts             bytes 0 to 10 and 15 to 20 of the first response, the second response
        """
        spans = _spans(ranges, joined)
        if len(spans) == 1:
            read = [self._span(path, *spans[0])]
        else:
            read = list(_span_threads().map(lambda span: self._span(path, *span), spans))
        by_start = {start: data for (start, _), data in zip(spans, read, strict=True) if data is not None}
        if len(by_start) < len(spans):
            return None
        starts = [start for start, _ in spans]
        parts = []
        for start, length in ranges:
            first = starts[bisect_right(starts, start) - 1]
            parts.append(by_start[first][start - first : start - first + length])
        return parts

    def _span(self, path: str, start: int, end: int) -> memoryview | None:
        """The bytes of an object from `start` to `end`, exclusive; fewer at its end, None without the object."""

        def request() -> memoryview:
            try:
                return memoryview(self._client.get_range(self._full(path), start=start, end=end))
            except (BaseError, OSError) as error:
                if isinstance(error, FileNotFoundError) or not _BEHIND_THE_END.search(str(error)):
                    raise
                return memoryview(b"")

        return self._request_or_none(f"GET {path}", request)

    def pieces(self, path: str, start: int, size: int) -> Iterator[memoryview]:
        """The content of an object from byte `start` on, in pieces of `size` bytes. Raises FileNotFoundError."""
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(path)
        for position in range(start, found.size, size):
            parts = self.get_ranges(path, [(position, min(size, found.size - position))], 0)
            if parts is None:
                raise FileNotFoundError(path)
            yield parts[0]

    def below(self, folder: str) -> Iterator[ObjectInfo]:
        """All objects below a folder, unordered. Reads all pages of the response."""
        pages, last = None, None

        def next_page() -> list[Any] | None:
            nonlocal pages
            try:
                pages = pages or self._client.list(self._full(folder), offset=last, chunk_size=_LISTED_AT_ONCE)
                return next(pages, None)
            except Exception:
                pages = None  # the next try lists again, from the last object on
                raise

        while page := self._request(f"LIST {folder}/", next_page):
            for meta in page:
                yield _found(meta, self._short(meta["path"]))
            last = page[-1]["path"]

    def folders(self, folder: str) -> tuple[list[str], list[ObjectInfo]]:
        """The names of the folders in a folder, and the objects in it."""
        response = self._request(f"LIST {folder}/", lambda: self._client.list_with_delimiter(self._full(folder)))
        names = [prefix.rstrip("/").rpartition("/")[2] for prefix in response["common_prefixes"]]
        return sorted(names), [_found(meta, self._short(meta["path"])) for meta in response["objects"]]

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects, in no order; missing ones are no error. One request for up to a thousand."""
        doomed = [self._full(path) for path in paths]
        if self.connection.local:
            for path in doomed:
                with suppress(FileNotFoundError):
                    self._request(f"DELETE {path}", lambda path=path: self._client.delete(path))  # type: ignore[misc]
        elif doomed:
            more = f" and {len(doomed) - 1} more" if doomed[1:] else ""
            self._request(f"DELETE {self._short(doomed[0])}{more}", lambda: self._client.delete(doomed))

    def check(self) -> None:
        """Check that objects can be created, read, listed and removed, and that `create` replaces none.

        Raises NoConditionalPutError, ObjectStoreError.
        """
        path = f"{_CHECKS}/{uuid.uuid4().hex}"
        try:
            self.create(path, b"first")
            with suppress(ObjectExistsError):
                self.create(path, b"second")
                raise NoConditionalPutError(self.connection.uri, "")
        except NoConditionalPutError:
            with suppress(LogError):
                self.remove([path])
            raise
        next(self.below(_CHECKS), None)
        self.get(path)
        self.remove([path])

    @cached_property
    def _client(self) -> Any:
        try:
            return self.connection.client(self._patience.silent)
        except (BaseError, OSError) as error:
            raise self._client_error("the first request", 0, error) from error

    def remove_old_checks(self) -> None:
        """Remove leftovers of processes that were killed during a check."""
        now = wall_ms()
        self.remove([found.path for found in self.below(_CHECKS) if found.modified < now - _CHECK_LASTS_MS])

    def _put(self, path: str, content: Data | Path, writer: str, **how: Any) -> Any:
        # A local folder has no attributes, and no response that could be lost.
        attributes = {} if self.connection.local else {"attributes": {_WRITER: writer}}
        return self._client.put(self._full(path), content, **attributes, **how)

    def _writer(self, path: str) -> tuple[str | None, str] | None:
        """The writer of an object, and its ETag; None without the object."""
        response = self._request_or_none(
            f"HEAD {path}", lambda: self._client.get(self._full(path), options={"head": True})
        )
        return None if response is None else (response.attributes.get(_WRITER), _tag(response.meta))

    def _found_with_content(self, path: str) -> tuple[ObjectInfo, bytes] | None:
        def request() -> tuple[ObjectInfo, bytes]:
            response = self._client.get(self._full(path))
            return _found(response.meta, path), bytes(response.bytes())

        return self._request_or_none(f"GET {path}", request)

    def _request_or_none(self, request: str, send: Callable[[], Response]) -> Response | None:
        try:
            return self._request(request, send)
        except FileNotFoundError:
            return None

    def _request(self, request: str, send: Callable[[], Response]) -> Response:
        """Send an idempotent request, with retries. `request`: its description, for messages."""
        waiting = Waiting(self._patience)
        while True:
            try:
                return send()
            except (BaseError, OSError) as error:
                if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                    raise
                passing = self._passing(request, waiting, error)
                if not waiting.again(passing):
                    raise passing from error

    def _passing(self, request: str, waiting: Waiting, error: Exception) -> PassingError:
        """A temporary error. Raises ObjectStoreError for any other."""
        found = self._client_error(request, waiting.seconds, error)
        if isinstance(found, PassingError):
            return found
        raise found from error

    def _client_error(self, request: str, seconds: float, error: Exception) -> ObjectStoreError:
        if self.connection.local:
            return ObjectStoreError(self.connection.uri, str(error).partition("\n")[0], "the folder cannot be used")
        return error_of(self.connection.uri, self.connection.location, request, seconds, error)

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _short(self, path: str) -> str:
        return path[len(self._prefix) + 1 :] if self._prefix else path


_BEHIND_THE_END = re.compile("StartTooLarge|<Code>InvalidRange</Code>|status code: 416")
"""Errors of the client for a range behind the end of an object, or in an empty one."""


def _spans(ranges: Sequence[tuple[int, int]], joined: int) -> list[tuple[int, int]]:
    """Spans (start, end) that cover all ranges (start, length), in order, joined over at most `joined` bytes.

    The ranges (0, 10), (15, 5) and (500, 20) give (0, 20) and (500, 520) for 8 bytes.
    """
    spans: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if spans and start - spans[-1][1] <= joined:
            spans[-1] = spans[-1][0], max(spans[-1][1], start + length)
        else:
            spans.append((start, start + length))
    return spans


def _found(meta: Any, path: str) -> ObjectInfo:
    return ObjectInfo(path, _tag(meta), meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _tag(meta: Any) -> str:
    """The ETag, which distinguishes an object from others of its name."""
    return str(meta["e_tag"])


@lru_cache(maxsize=1)
def threads() -> ThreadPoolExecutor:
    """The threads of this process for concurrent requests. They wait for responses nearly all of the time."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="object-store")


@lru_cache(maxsize=1)
def _span_threads() -> ThreadPoolExecutor:
    """Threads for the requests of one reader, which may run in one of `threads` and must not wait for these."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="object-store-parts")


# Reading batches of segments from an object store, with few and concurrent requests.
#
# A request takes as long as the transfer of a megabyte or more. So each reads that much, and for a reader with many
# small ranges, the next ones are prefetched.

AHEAD = 4 << 20
"""The bytes of a range that one request reads."""

JOINED = 256 << 10
"""Up to this number of bytes between two parts, one request reads both."""

MOST_BYTES = 16 << 20
"""The greatest number of prefetched bytes."""


@dataclass(frozen=True)
class Parts:
    """The bytes of a segment's schema, and of some of its batches by number."""

    head: memoryview
    batches: dict[int, memoryview]


_NONE = memoryview(b"")


def load(objects: Objects, file: FileRange, first: int, head: memoryview) -> Parts:
    """Batches from number `first` on, up to `AHEAD` bytes. The schema is read too, unless `head` has it.

    Raises RangeMissingError, CorruptSegmentError, ObjectStoreError.
    """
    numbers = _up_to(AHEAD, file, first)
    ranges = [] if head else [(0, file.head)]
    ranges += [(file.batches[number].start, file.batches[number].length) for number in numbers]
    parts = objects.get_ranges(file.path, ranges, JOINED)
    if parts is None:
        raise RangeMissingError(file.path)
    # A shorter object is damaged: it was complete when the commit listed it.
    if any(len(part) != length for part, (_, length) in zip(parts, ranges, strict=True)):
        raise CorruptSegmentError(file.path, None)
    if not head:
        head, *parts = parts
    return Parts(head, dict(zip(numbers, parts, strict=True)))


def _up_to(size: int, file: FileRange, first: int) -> list[int]:
    """The numbers of batches from `first` on with at most `size` bytes in total, at least one."""
    ends = accumulate(batch.length for batch in file.batches[first:])
    return [first + index for index, end in enumerate(ends) if not index or end <= size]


class BatchesAhead:
    """The `Load` of one range, which reads following batches too. `begun`: returns prefetched parts."""

    def __init__(self, objects: Objects, begun: Callable[[], Parts] | None = None) -> None:
        self._objects = objects
        self._begun = begun
        self._parts = Parts(_NONE, {})

    def __call__(self, file: FileRange, batch: int) -> memoryview:
        """See `segments.files.Load`. Raises the errors of `load`."""
        if self._begun is not None:
            self._parts, self._begun = self._begun(), None
        data = self._parts.batches.pop(batch, None)
        if data is None:
            self._parts = load(self._objects, file, batch, self._parts.head)
            data = self._parts.batches.pop(batch)
        return memoryview(b"".join((self._parts.head, data)))


class RangesAhead:
    """A `RangeReader` with prefetching of some ranges, from the first read on."""

    def __init__(self, objects: Objects, ranges: Iterable[tuple[LogRange, int]]) -> None:
        self._objects = objects
        self._waiting = {within.token: (within, start) for within, start in ranges if start < within.end}
        self._begun: dict[str, tuple[Future[Parts], int]] = {}
        self._lock = threading.Lock()

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        return RangesAhead(self._objects, ranges)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        return fetch(within, start, columns, BatchesAhead(self._objects, lambda: self._taken(within.token)))

    def _taken(self, token: str) -> Parts:
        """The prefetched parts of a range. Starts prefetching of the next ranges."""
        with self._lock:
            future, _ = self._begun.pop(token, (None, 0))
            if future is None:
                self._waiting.pop(token, None)  # its reader reads it itself
            self._begin()
        return Parts(_NONE, {}) if future is None else future.result()

    def _begin(self) -> None:
        size = sum(range_size for _, range_size in self._begun.values())
        for token, (within, start) in list(self._waiting.items()):
            file = FileRange.from_token(token)
            if len(self._begun) == AT_ONCE or size >= MOST_BYTES:
                return
            del self._waiting[token]
            if file.batches:
                first = max(bisect_right(file.firsts(within.start), max(start, within.start)) - 1, 0)
                taken = sum(file.batches[number].length for number in _up_to(AHEAD, file, first))
                size += taken
                self._begun[token] = (threads().submit(load, self._objects, file, first, _NONE), taken)
