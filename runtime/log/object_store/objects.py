"""Objects of a bucket."""

from __future__ import annotations

import re
import threading
import time
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
    told,
)

# Objects under one prefix of a store: made whole, read in parts, listed; with errors that say what is wrong.

PART = 8 << 20
"""Bytes of a part. An object that is bigger is sent in several, each with a request of its own."""

_WRITER = "headwater-writer"
"""The name under which an object says who made it (`x-amz-meta-headwater-writer`)."""

AT_ONCE = 16
"""Requests that a process has under way at the same time, where it does not wait for each."""

_CHECKS = "checks"
_CHECK_LASTS_MS = 24 * 3_600_000
"""More than any check takes, however long its process is suspended and however wrong clocks are."""

_LISTED_AT_ONCE = 1000

Answer = TypeVar("Answer")
Data = bytes | memoryview


class ObjectExistsError(Exception):
    """An object is there that should have been made: by somebody else."""


@dataclass(frozen=True)
class Found:
    """An object: its path under the prefix, its ETag, its bytes, and when it was made: ms by the store's clock."""

    path: str
    tag: str
    size: int
    modified: int


class Objects:
    """What a log needs of an object store. Any thread may use it.

    An object appears whole or not at all, and stays as it is until it is replaced or removed as a whole. Once a put is
    answered it is durable, and every later request sees it: S3 and what speaks its protocol promise that (strong
    consistency). A local folder has no such promise after a power failure, as nothing brings files to the disk there.

    Requests that may succeed later are tried again, see `Patience`. Reading, listing, removing and replacing may be
    done twice without harm. For `create` that is not so, see there.
    """

    def __init__(self, connection: Connection, patience: Patience | None = None) -> None:
        self.connection = connection
        self._patience = patience or Patience(PATIENCE, PATIENCE)
        self._prefix = connection.prefix

    def __repr__(self) -> str:
        return f"Objects({self.connection.uri!r})"

    def impatient(self) -> Objects:
        """The same for the first requests of a command: an address where nobody answers is told within seconds."""
        return Objects(self.connection, Patience(FIRST_PATIENCE, PATIENCE))

    def hurried(self) -> Objects:
        """The same for what nobody should wait for."""
        return Objects(self.connection, Patience(FIRST_PATIENCE, FIRST_PATIENCE))

    def uri(self, path: str) -> str:
        """An object's address, for people."""
        return f"{self.connection.uri.rstrip('/')}/{path}"

    def create(self, path: str, data: Data) -> str:
        """Make an object unless there is one, and return its ETag. Raises ObjectExistsError.

        It is one conditional put (`If-None-Match: *`), which the store decides: of many writers one succeeds. If the
        answer is lost, nobody knows whether the object was made. Then the object itself is asked who made it: each call
        writes a name of its own beside the data. It is this call's: it was made. It is another's: the race is lost. If
        there is none, the put is sent again; that it may still arrive once more does no harm, as one of the two is
        refused. The bytes alone would not do: two drivers may write the same.
        """
        writer, request, waiting = uuid.uuid4().hex, f"PUT {path}", self._patience.begin()
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
                there = self.hurried()._writer(path)
            except PassingError as error:
                lost, there = lost or error, None
            if there is not None:
                by, tag = there
                if by == writer:
                    return tag
                raise ObjectExistsError(path)
            # Refused, and nothing there: another put of it was under way and failed, or the object was removed since.
            lost = lost or StoreFailingError(
                self.connection.uri, self.connection.place, request, waiting.seconds, "409 Conflict"
            )
            if not waiting.again(lost):
                raise lost

    def make(self, path: str, content: Data | Path) -> None:
        """Make an object of any size unless there is one. Raises ObjectExistsError.

        A big one is sent in parts, and appears when all of them are there. Such a put has no condition. So this is for
        names that only one writer takes: `create` decides who of several does.
        """
        if (content.stat().st_size if isinstance(content, Path) else len(content)) <= PART:
            self.create(path, content.read_bytes() if isinstance(content, Path) else content)
            return
        if self.find(path) is not None:
            raise ObjectExistsError(path)
        writer = uuid.uuid4().hex
        try:
            self._asked(f"PUT {path}", lambda: self._put(path, content, writer, chunk_size=PART))
        except ObjectStoreError:
            there = None
            with suppress(PassingError):
                there = self.hurried()._writer(path)  # only the answer may have been lost
            if there is None or there[0] != writer:
                raise

    def put(self, path: str, data: Data) -> None:
        """Make or replace an object. A big one is sent in parts, and appears when all of them are there."""
        self._asked(f"PUT {path}", lambda: self._client.put(self._full(path), data, chunk_size=PART))

    def find(self, path: str) -> Found | None:
        """An object without its content; None if there is none."""
        return self._asked_for_one(f"HEAD {path}", lambda: _found(self._client.head(self._full(path)), path))

    def get(self, path: str) -> bytes | None:
        """The content of an object; None if there is none."""
        return self._asked_for_one(f"GET {path}", lambda: bytes(self._client.get(self._full(path)).bytes()))

    def get_all(self, paths: Iterable[str]) -> Iterator[tuple[Found, bytes] | None]:
        """Several objects with their content, None for each that is not there: many requests at the same time."""
        return threads().map(self._found_with_content, paths)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]], joined: int) -> list[memoryview] | None:
        """Parts of an object, (start, length) each, at the same time; None if there is no object.

        Parts with at most `joined` bytes between them are read with one request. What lies behind the object's end is
        left out: an object may have been cut off. The client's own `get_ranges` does not bear that.
        """
        spans = _spans(ranges, joined)
        if len(spans) == 1:
            read = [self._span(path, *spans[0])]
        else:
            read = list(_span_threads().map(lambda span: self._span(path, *span), spans))
        found = {start: data for (start, _), data in zip(spans, read, strict=True) if data is not None}
        if len(found) < len(spans):
            return None
        starts = [start for start, _ in spans]
        parts = []
        for start, length in ranges:
            first = starts[bisect_right(starts, start) - 1]
            parts.append(found[first][start - first : start - first + length])
        return parts

    def _span(self, path: str, start: int, end: int) -> memoryview | None:
        """The bytes of an object from `start` up to, not including, `end`, as far as it has them; None without it."""

        def request() -> memoryview:
            try:
                return memoryview(self._client.get_range(self._full(path), start=start, end=end))
            except (BaseError, OSError) as error:
                if isinstance(error, FileNotFoundError) or not _BEHIND_THE_END.search(str(error)):
                    raise
                return memoryview(b"")

        return self._asked_for_one(f"GET {path}", request)

    def pieces(self, path: str, start: int, size: int) -> Iterator[memoryview]:
        """The content of an object from a byte on, in pieces of `size`. Raises FileNotFoundError."""
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(path)
        for at in range(start, found.size, size):
            parts = self.get_ranges(path, [(at, min(size, found.size - at))], 0)
            if parts is None:
                raise FileNotFoundError(path)
            yield parts[0]

    def below(self, folder: str) -> Iterator[Found]:
        """All objects below a folder, in no order. A store answers in pages; all of them are read."""
        pages, last = None, None

        def next_page() -> list[Any] | None:
            nonlocal pages
            try:
                pages = pages or self._client.list(self._full(folder), offset=last, chunk_size=_LISTED_AT_ONCE)
                return next(pages, None)
            except Exception:
                pages = None  # the next try begins a list of its own behind what is read
                raise

        while page := self._asked(f"LIST {folder}/", next_page):
            for each in page:
                yield _found(each, self._short(each["path"]))
            last = page[-1]["path"]

    def folders(self, folder: str) -> tuple[list[str], list[Found]]:
        """The names of the folders in a folder, and the objects in it."""
        answer = self._asked(f"LIST {folder}/", lambda: self._client.list_with_delimiter(self._full(folder)))
        names = [each.rstrip("/").rpartition("/")[2] for each in answer["common_prefixes"]]
        return sorted(names), [_found(each, self._short(each["path"])) for each in answer["objects"]]

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects; none of them needs to be there. One request for up to a thousand, in no order."""
        doomed = [self._full(path) for path in paths]
        if self.connection.local:
            for path in doomed:
                with suppress(FileNotFoundError):
                    self._asked(f"DELETE {path}", lambda path=path: self._client.delete(path))  # type: ignore[misc]
        elif doomed:
            more = f" and {len(doomed) - 1} more" if doomed[1:] else ""
            self._asked(f"DELETE {self._short(doomed[0])}{more}", lambda: self._client.delete(doomed))

    def check(self) -> None:
        """Check that objects can be made, read, listed and removed, and that `create` refuses to replace one.

        Raises NoConditionalPutError, ObjectStoreError.
        """
        path = f"{_CHECKS}/{uuid.uuid4().hex}"
        try:
            self.create(path, b"first")
            with suppress(ObjectExistsError):
                self.create(path, b"second")
                raise NoConditionalPutError(self.connection.uri)
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
            raise self._told("the first request", 0, error) from error

    def remove_old_checks(self) -> None:
        """Remove what processes have left that were killed while they checked."""
        now = time.time_ns() // 1_000_000
        self.remove([each.path for each in self.below(_CHECKS) if each.modified < now - _CHECK_LASTS_MS])

    def _put(self, path: str, content: Data | Path, writer: str, **how: Any) -> Any:
        # A put into a local folder has no answer that could be lost, and no place for attributes.
        attributes = {} if self.connection.local else {"attributes": {_WRITER: writer}}
        return self._client.put(self._full(path), content, **attributes, **how)

    def _writer(self, path: str) -> tuple[str | None, str] | None:
        """Who has made an object, and its ETag; None if there is none."""
        answer = self._asked_for_one(f"HEAD {path}", lambda: self._client.get(self._full(path), options={"head": True}))
        return None if answer is None else (answer.attributes.get(_WRITER), _tag(answer.meta))

    def _found_with_content(self, path: str) -> tuple[Found, bytes] | None:
        def request() -> tuple[Found, bytes]:
            answer = self._client.get(self._full(path))
            return _found(answer.meta, path), bytes(answer.bytes())

        return self._asked_for_one(f"GET {path}", request)

    def _asked_for_one(self, request: str, send: Callable[[], Answer]) -> Answer | None:
        try:
            return self._asked(request, send)
        except FileNotFoundError:
            return None

    def _asked(self, request: str, send: Callable[[], Answer]) -> Answer:
        """Send a request that may be done twice without harm. `request`: what it is, for people."""
        waiting = self._patience.begin()
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
        """An error that may pass by itself. Raises ObjectStoreError for any other."""
        found = self._told(request, waiting.seconds, error)
        if isinstance(found, PassingError):
            return found
        raise found from error

    def _told(self, request: str, seconds: float, error: Exception) -> ObjectStoreError:
        if self.connection.local:
            return ObjectStoreError(self.connection.uri, "the folder cannot be used", str(error).partition("\n")[0])
        return told(self.connection.uri, self.connection.place, request, seconds, error)

    def _full(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _short(self, path: str) -> str:
        return path[len(self._prefix) + 1 :] if self._prefix else path


_BEHIND_THE_END = re.compile("StartTooLarge|<Code>InvalidRange</Code>|status code: 416")
"""What the client says of a range that begins behind the end of an object, or in an empty one."""


def _spans(ranges: Sequence[tuple[int, int]], joined: int) -> list[tuple[int, int]]:
    """The (start, end) that cover all ranges (start, length), in order. With at most `joined` bytes between them,
    several are one.
    """
    spans: list[tuple[int, int]] = []
    for start, length in sorted(ranges):
        if spans and start - spans[-1][1] <= joined:
            spans[-1] = spans[-1][0], max(spans[-1][1], start + length)
        else:
            spans.append((start, start + length))
    return spans


def _found(meta: Any, path: str) -> Found:
    return Found(path, _tag(meta), meta["size"], int(meta["last_modified"].timestamp() * 1000))


def _tag(meta: Any) -> str:
    """What distinguishes an object from another of its name: the ETag, which S3 makes of the content."""
    return str(meta["e_tag"])


@lru_cache(maxsize=1)
def threads() -> ThreadPoolExecutor:
    """The threads of this process for requests at the same time. They wait for answers nearly all of the time."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="object-store")


@lru_cache(maxsize=1)
def _span_threads() -> ThreadPoolExecutor:
    """Threads for the requests of one reader, who may be one of `threads` himself and must not wait for these."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="object-store-parts")


# Reads the batches of segments from an object store: as few requests as possible, and several at the same time.
#
# A request takes as long as it takes to transfer a megabyte or more. So much is read with one, and a reader that has
# many small ranges before it has those read that come next while it works on the first.

AHEAD = 4 << 20
"""Bytes of a range that are read at once."""

JOINED = 256 << 10
"""Bytes between two parts of an object that are rather read than left out by a request of their own."""

MOST_BYTES = 16 << 20
"""Of records that are read before they are asked for."""


@dataclass(frozen=True)
class Parts:
    """Bytes of a segment: its schema, and some of its batches by number."""

    head: memoryview
    batches: dict[int, memoryview]


_NONE = memoryview(b"")


def load(objects: Objects, file: FileRange, first: int, head: memoryview) -> Parts:
    """Batches from number `first` on, up to `AHEAD` bytes. The schema is read with them unless it is given.

    Raises RangeMissingError, CorruptSegmentError, ObjectStoreError.
    """
    numbers = _up_to(AHEAD, file, first)
    ranges = [] if head else [(0, file.head)]
    ranges += [(file.batches[number].start, file.batches[number].length) for number in numbers]
    parts = objects.get_ranges(file.path, ranges, JOINED)
    if parts is None:
        raise RangeMissingError(file.path)
    # An object that ends early is damaged: it was whole when the commit listed it.
    if any(len(part) != length for part, (_, length) in zip(parts, ranges, strict=True)):
        raise CorruptSegmentError(file.path, None)
    if not head:
        head, *parts = parts
    return Parts(head, dict(zip(numbers, parts, strict=True)))


def _up_to(size: int, file: FileRange, first: int) -> list[int]:
    """The numbers of batches from one on, at least one, that have so many bytes together."""
    ends = accumulate(each.length for each in file.batches[first:])
    return [first + at for at, end in enumerate(ends) if not at or end <= size]


class BatchesAhead:
    """The `Load` of one range: with a batch, those that follow it are read too. `begun`: gives what is read already."""

    def __init__(self, objects: Objects, begun: Callable[[], Parts] | None = None) -> None:
        self._objects = objects
        self._begun = begun
        self._parts = Parts(_NONE, {})

    def __call__(self, file: FileRange, batch: int) -> memoryview:
        """See `segments.reading.Load`. Raises as `load`."""
        if self._begun is not None:
            self._parts, self._begun = self._begun(), None
        found = self._parts.batches.pop(batch, None)
        if found is None:
            self._parts = load(self._objects, file, batch, self._parts.head)
            found = self._parts.batches.pop(batch)
        return memoryview(b"".join((self._parts.head, found)))


class RangesAhead:
    """A `RangeReader` of some ranges. Nothing is read before the first of them is asked for."""

    def __init__(self, objects: Objects, ranges: Iterable[tuple[LogRange, int]]) -> None:
        self._objects = objects
        self._waiting = {within.token: (within, start) for within, start in ranges if start < within.end}
        self._begun: dict[str, tuple[Future[Parts], int]] = {}
        self._lock = threading.Lock()

    def ahead(self, ranges: Iterable[tuple[LogRange, int]]) -> RangeReader:
        """See `RangeReader.ahead`."""
        return RangesAhead(self._objects, ranges)

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        """See `RangeReader.read`."""
        return fetch(within, start, columns, BatchesAhead(self._objects, lambda: self._taken(within.token)))

    def _taken(self, token: str) -> Parts:
        """What is read of a range, and have those begin that come next."""
        with self._lock:
            future, _ = self._begun.pop(token, (None, 0))
            if future is None:
                self._waiting.pop(token, None)  # its reader reads it itself, now
            self._begin()
        return Parts(_NONE, {}) if future is None else future.result()

    def _begin(self) -> None:
        size = sum(each for _, each in self._begun.values())
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
