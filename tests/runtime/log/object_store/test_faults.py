"""What goes wrong between a log and its store: with a real server, and a proxy before it that has it go wrong."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.log.errors import CommitExistsError, LogError
from headwater.runtime.log.object_store import objects
from headwater.runtime.log.object_store.connection import (
    BucketMissingError,
    NoConditionalPutError,
    ObjectStoreError,
    StoreClockError,
    StoreCredentialsError,
    StoreDeniedError,
    StoreFailingError,
    StoreRegionError,
    StoreUnreachableError,
)
from headwater.runtime.log.object_store.log import ObjectStoreLog
from headwater.tests.s3_proxy import CUT, IGNORE, LOSE, Fault, Proxy, Refusal, Request, proxy
from headwater.tests.s3_server import NOBODY, READER, S3Server

Make = Callable[..., ObjectStoreLog]


@pytest.fixture
def between(s3: S3Server) -> Iterator[Proxy]:
    with proxy(s3) as found:
        yield found


@pytest.fixture
def make(s3: S3Server, between: Proxy) -> Make:
    """A log behind the proxy: the same in each call."""
    options = {"uri": s3.uri(uuid.uuid4().hex)} | s3.options | {"endpoint": between.endpoint}
    return lambda **given: ObjectStoreLog(**options | given)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not answer is given up at once."""
    at_once = timedelta(milliseconds=200)
    monkeypatch.setattr(objects, "PATIENCE", at_once)
    monkeypatch.setattr(objects, "FIRST_PATIENCE", at_once)


def first(*faults: Fault) -> Callable[[Request], Fault]:
    """These faults for the first puts, one each."""
    left = list(faults)
    return lambda request: left.pop(0) if left and request.method == "PUT" else None


@pytest.mark.parametrize(
    "fault", [LOSE, CUT, Refusal(500, "InternalError"), Refusal(409, "ConditionalRequestConflict")]
)
def test_commit_whose_answer_was_lost_is_the_writers_own(make: Make, between: Proxy, fault: Fault) -> None:
    log = make()
    log.check()
    between.fault = first(fault)
    identity = log.commits("a").create(1, b"mine")
    assert (log.commits("a").read(1), log.commits("a").identity(1)) == (b"mine", identity)


@pytest.mark.parametrize("fault", [LOSE, CUT, Refusal(503, "SlowDown")])
def test_commit_whose_answer_was_lost_is_another_writers_even_of_the_same_bytes(
    make: Make, between: Proxy, fault: Fault
) -> None:
    log = make()
    log.check()
    log.commits("a").create(1, b"same")
    between.fault = first(fault)
    with pytest.raises(CommitExistsError):
        make().commits("a").create(1, b"same")


def test_store_that_replaces_what_should_be_made_once_is_refused_in_one_sentence(
    make: Make, between: Proxy, soon: None
) -> None:
    between.fault = lambda request: IGNORE if request.conditional else None
    with pytest.raises(NoConditionalPutError, match="cannot hold a log: it replaces an object") as raised:
        make().check()
    assert str(raised.value).count(". ") == 0
    between.fault = lambda request: Refusal(501, "NotImplemented") if request.conditional else None
    with pytest.raises(NoConditionalPutError, match="NotImplemented"):
        make().check()


REFUSALS = {
    "clock": (Refusal(403, "RequestTimeTooSkewed"), StoreClockError, "clock"),
    "region": (Refusal(301, "PermanentRedirect"), StoreRegionError, "region"),
    "expired": (Refusal(400, "ExpiredToken"), StoreCredentialsError, "credentials"),
    "denied": (Refusal(403, "AccessDenied"), StoreDeniedError, "may not do"),
    "no bucket": (Refusal(404, "NoSuchBucket"), BucketMissingError, "no such bucket"),
    "down": (Refusal(503, "ServiceUnavailable"), StoreFailingError, "answers with errors only"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_refusal_of_any_request_is_told_as_what_it_is(make: Make, between: Proxy, refusal: str, soon: None) -> None:
    answer, error, words = REFUSALS[refusal]
    log = make()
    log.check()
    commits = log.commits("a")
    commits.create(1, b"x")
    between.fault = lambda request: None if request.method == "HEAD" else answer
    for request in (
        log.check,
        log.applications,
        lambda: commits.create(2, b"y"),
        lambda: commits.read(1),
        commits.latest,
        lambda: list(log.files("a")),
        lambda: log.remove("segments/a/t/s-1.seg"),
        lambda: log.write_status("a", "text"),
        lambda: log.drop("a"),
    ):
        with pytest.raises(error, match=words) as raised:
            request()
        assert isinstance(raised.value, LogError)
        assert raised.value.hint


def test_bucket_that_is_gone_is_not_taken_for_a_full_refresh(make: Make, between: Proxy) -> None:
    log = make()
    log.check()
    commits = log.commits("a")
    commits.create(1, b"x")
    # An answer to HEAD has no body, so nothing says what is missing.
    gone = Refusal(404, "NoSuchBucket")
    between.fault = lambda _: gone
    with pytest.raises(BucketMissingError):
        commits.identity(1)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"endpoint": NOBODY}, StoreUnreachableError),
        ({"endpoint": "http://nowhere.invalid"}, StoreUnreachableError),
        ({"uri": "s3://nothing/p"}, BucketMissingError),
        ({"secret_access_key": "hush-wrong"}, StoreCredentialsError),
        ({"access_key_id": "hush-unknown"}, StoreCredentialsError),
        ({"access_key_id": READER[0], "secret_access_key": READER[1]}, StoreDeniedError),
        ({"access_key_id": None, "secret_access_key": None}, StoreCredentialsError),
        ({"secret_access_key": None}, StoreCredentialsError),
    ],
    ids=str,
)
def test_log_that_cannot_be_kept_there_is_refused_at_the_start_and_no_secret_is_shown(
    make: Make, soon: None, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], error: type[ObjectStoreError]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", NOBODY)
    log = make(**given)
    with pytest.raises(error) as raised:
        log.check()
    assert raised.value.hint
    assert "hush" not in f"{raised.value!s}{raised.value!r}{log!r}{vars(log)}"


def test_credentials_of_the_environment_are_taken(make: Make, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    make(access_key_id=None, secret_access_key=None).check()
    assert make().identity()


def test_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((ObjectStoreError, OSError)):
        ObjectStoreLog((tmp_path / "file" / "log").as_uri()).check()
