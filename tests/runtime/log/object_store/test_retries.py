"""Requests that fail for a while, of each kind: they are tried again, and are done once. Those that fail for long are
told. On a real server, behind a proxy that has them fail.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from headwater.runtime.log.object_store import connection, objects
from headwater.runtime.log.object_store.connection import (
    Connection,
    PassingError,
    StoreFailingError,
    StoreUnreachableError,
)
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.runtime.log.object_store.objects import ObjectExistsError, Objects
from headwater.tests.s3_proxy import BREAK, CUT, HANG, LOSE, Fault, Proxy, Refusal, Request, proxy
from headwater.tests.s3_server import S3Server

BIG = bytes(9 << 20)
"""It is sent in two parts."""


@pytest.fixture
def between(s3: S3Server) -> Iterator[Proxy]:
    with proxy(s3) as found:
        yield found


@pytest.fixture
def make(s3: S3Server, between: Proxy) -> Callable[[], Objects]:
    options = {"uri": s3.uri(uuid.uuid4().hex)} | s3.options | {"endpoint": between.endpoint}
    return lambda: Objects(Connection(**options))


def removed(store: Objects, path: str) -> bool:
    store.remove([path])
    return store.find(path) is None


def created(store: Objects, path: str) -> bool:
    """Whether it is this call that has made the object."""
    try:
        return bool(store.create(path, b"new"))
    except ObjectExistsError:
        return False


def kept(store: Objects, path: str, content: bytes) -> bool:
    store.make(path, content)
    return store.get(path) == content


def replaced(store: Objects, path: str) -> bytes | None:
    store.put(path, b"replaced")
    return store.get(path)


KINDS: dict[str, tuple[Callable[[Objects], Any], Any, str]] = {
    "conditional put": (lambda store: created(store, "new"), True, "PUT new"),
    "lost conditional put": (lambda store: created(store, "there/a"), False, "PUT there/a"),
    "put": (lambda store: replaced(store, "replaced"), b"replaced", "PUT replaced"),
    "put in parts": (lambda store: kept(store, "big", BIG), True, "HEAD big"),
    "head": (lambda store: getattr(store.find("there/a"), "size", None), 5, "HEAD there/a"),
    "get": (lambda store: store.get("there/a"), b"hello", "GET there/a"),
    "get of ranges": (lambda store: store.get_ranges("there/a", [(1, 3)], 0), [b"ell"], "GET there/a"),
    "list": (lambda store: sorted(each.path for each in store.below("there")), ["there/a", "there/b"], "LIST there/"),
    "list of a folder": (lambda store: store.folders("there")[0], [], "LIST there/"),
    "delete": (lambda store: removed(store, "there/b"), True, "DELETE there/b"),
}
"""A request of each kind, what comes of it, and what it is called."""

PASSING = {
    "500": Refusal(500, "InternalError"),
    "500 after it was done": Refusal(500, "InternalError", done=True),
    "503": Refusal(503, "SlowDown"),
    "503 after it was done": Refusal(503, "SlowDown", done=True),
    "429": Refusal(429, "TooManyRequests"),
    "408": Refusal(408, "RequestTimeout"),
    "lost answer": LOSE,
    "no answer": CUT,
    "half an answer": BREAK,
}


@pytest.mark.parametrize("name", PASSING)
def test_request_of_any_kind_that_fails_at_first_is_done_once_in_the_end(
    make: Callable[[], Objects], between: Proxy, name: str
) -> None:
    store = make()
    for path in ("there/a", "there/b"):
        store.create(path, b"hello")
    for kind, (request, outcome, _) in KINDS.items():
        left = [PASSING[name]]
        between.fault = lambda _, left=left: left.pop() if left else None  # type: ignore[misc]
        assert request(store) == outcome, kind
        assert not left, kind


def test_upload_that_amazon_has_waited_for_too_long_is_sent_again(make: Callable[[], Objects], between: Proxy) -> None:
    store = make()
    for request in (lambda: created(store, "a"), lambda: replaced(store, "b"), lambda: removed(store, "b")):
        left = [Refusal(400, "RequestTimeout")]
        between.fault = lambda _, left=left: left.pop() if left else None  # type: ignore[misc]
        assert request()
        assert not left


def test_error_of_one_object_among_many_to_remove_is_tried_again(make: Callable[[], Objects], between: Proxy) -> None:
    store = make()
    for path in ("a", "b", "c"):
        store.create(path, b"hello")
    left: list[Fault] = [Refusal(200, "OperationAborted"), Refusal(200, "InternalError", done=True)]
    between.fault = lambda _: left.pop() if left else None
    store.remove(["a", "b", "c"])
    assert (list(store.below("")), left) == ([], [])


def test_list_that_breaks_off_goes_on_behind_what_was_read(
    make: Callable[[], Objects], between: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_LISTED_AT_ONCE", 2)
    store = make()
    for number in range(7):
        store.create(f"there/{number}", b"")
    found = []
    for each in store.below("there"):
        left = [BREAK]
        between.fault = lambda _, left=left: left.pop() if left else None  # type: ignore[misc]
        found.append(each.path)
    assert found == [f"there/{number}" for number in range(7)]


def test_conditional_put_and_removal_that_hang_are_tried_again(
    make: Callable[[], Objects], between: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_REQUEST", timedelta(seconds=1))
    connection._s3.cache_clear()
    store = make()
    store.create("b", b"hello")
    for request in (lambda: created(store, "a"), lambda: removed(store, "b")):
        left = [HANG]
        between.fault = lambda _, left=left: left.pop() if left else None  # type: ignore[misc]
        assert request()
    connection._s3.cache_clear()


@pytest.mark.parametrize(
    ("fault", "error", "what", "cause"),
    [
        (Refusal(500, "InternalError"), StoreFailingError, "answers with errors only", "InternalError: so it is"),
        (Refusal(503, "SlowDown"), StoreFailingError, "answers with errors only", "SlowDown: so it is"),
        (Refusal(429, "TooMany"), StoreFailingError, "answers with errors only", "TooMany: so it is"),
        (CUT, StoreUnreachableError, "does not answer", "HTTP error: error sending request"),
    ],
    ids=["500", "503", "429", "no answer"],
)
def test_request_of_any_kind_that_always_fails_is_told_with_its_name_its_place_and_a_way_out(
    make: Callable[[], Objects],
    between: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    error: type[PassingError],
    what: str,
    cause: str,
) -> None:
    for patience in ("PATIENCE", "FIRST_PATIENCE"):
        monkeypatch.setattr(objects, patience, timedelta(milliseconds=50))
    store = make()
    between.fault = lambda _: fault
    for request, _, name in KINDS.values():
        with pytest.raises(error) as raised:
            request(store)
        # An answer to HEAD has no body, so it is a status only.
        said = f"status {fault.status}" if isinstance(fault, Refusal) and name.startswith("HEAD") else cause
        where = f"{store.connection.uri}: the object store at {between.endpoint}"
        seconds = max(1, round(raised.value.seconds))
        assert raised.value.message == f"{where} {what} ({name} was tried for {seconds} s: {said})"
        assert str(raised.value.hint).endswith("then run again: everything that was committed is there")


def test_store_that_only_answers_with_errors_at_first_is_waited_for_at_the_start_too(
    s3: S3Server, between: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "FIRST_PATIENCE", timedelta(milliseconds=500))
    log = ObjectStoreLog(**{"uri": s3.uri(uuid.uuid4().hex)} | s3.options | {"endpoint": between.endpoint})
    left = [Refusal(503, "ServiceUnavailable")] * 9

    def fault(request: Request) -> Fault:
        return left.pop() if left and request.method == "PUT" else None

    between.fault = fault
    log.check()
    assert (left, log.applications()) == ([], [])
