"""Connections to a bucket, and their errors."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from obstore.store import LocalStore, S3Store

from ..errors import LogError

if TYPE_CHECKING:
    from obstore.store import S3Config


# How an object store is reached: the client, made from a log's options, and how long it is waited for.

PATIENCE = timedelta(seconds=20)
"""For how long a request is tried again during a run, while the store does not answer. An outage of some seconds ends
no run."""

FIRST_PATIENCE = timedelta(seconds=4)
"""The same for the first requests of a command: an address that was misspelt is told soon."""

_REQUEST = timedelta(seconds=15)
"""The most that one try may take. A bigger object is sent in parts, each with a request of its own."""

_CONNECT = timedelta(seconds=3)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(milliseconds=50), timedelta(seconds=1)

_DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True)
class Connection:
    """What a log's options say of its store. Without credentials, the client looks for them itself, as all clients of
    Amazon do: in the environment (AWS_ACCESS_KEY_ID and so on), then in the role of the container or machine.
    """

    uri: str
    region: str | None = None
    endpoint: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def local(self) -> bool:
        """Whether it is a folder of the local file system."""
        return urlsplit(self.uri).scheme == "file"

    @property
    def prefix(self) -> str:
        """What the paths of all objects begin with; empty, or without a slash at either end."""
        return unquote(urlsplit(self.uri).path).strip("/")

    @property
    def place(self) -> str:
        """Where the store is, for people."""
        if self.local:
            return "this machine"
        return self.endpoint or f"Amazon S3, region {self.region or _DEFAULT_REGION}"

    def client(self, patience: timedelta) -> LocalStore | S3Store:
        """The client that tries again for so long. One for each process: clients keep their connections open."""
        return LocalStore() if self.local else _s3(self, patience)


@lru_cache(maxsize=16)
def _s3(of: Connection, patience: timedelta) -> S3Store:
    config: S3Config = {}
    for name in ("region", "endpoint", "access_key_id", "secret_access_key", "session_token"):
        if (value := getattr(of, name)) is not None:
            config[name] = str(value)
    return S3Store(
        urlsplit(of.uri).netloc,
        config=config,
        client_options={
            "allow_http": (of.endpoint or "").startswith("http://"),
            # A store under load may need that long for one answer, however short the patience is.
            "timeout": min(_REQUEST, max(patience, FIRST_PATIENCE)),
            "connect_timeout": _CONNECT,
        },
        retry_config={
            "max_retries": 1000,
            "retry_timeout": patience,
            "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": 2},
        },
    )


# What goes wrong with an object store, each as a sentence with a way out. No credentials are in any of them.

_PROFILE = "the `log:` of profiles.yml"
_COMMITTED = "everything that was committed is there"

_CREDENTIALS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired"}
    | {"InvalidSecurity", "MissingSecurityHeader"}
)
_DENIED = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem"})
_NO_BUCKET = frozenset({"NoSuchBucket", "InvalidBucketName"})
_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
_NO_CONDITIONS = frozenset({"NotImplemented"})
_PASSING = frozenset({"InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"})
_PASSING_STATUS = re.compile("408|409|429|5..")

_CREDENTIAL_SOURCES = re.compile(r"/latest/api/token|/latest/meta-data|169\.254\.170\.|AssumeRoleWithWebIdentity")
"""Addresses that are asked for credentials when neither the options nor the environment have any."""


class ObjectStoreError(LogError):
    """An object store refuses, or does not answer. `uri`: of the log. `cause`: what the store or the system said."""

    def __init__(self, uri: str, what: str, cause: str, hint: str | None = None) -> None:
        super().__init__(f"{uri}: {what}" + (f" ({cause})" if cause else ""), hint)
        self.uri = uri
        self.cause = cause


class PassingError(ObjectStoreError):
    """What may pass by itself lasts for longer than it is waited for.

    `endpoint`: of the store. `request`: what it was asked for. `seconds`: for how long that was tried.
    """

    def __init__(self, uri: str, endpoint: str, what: str, request: str, seconds: float, cause: str, hint: str) -> None:
        tried = f"{request} was tried for {max(1, round(seconds))} s: {cause}"
        super().__init__(uri, f"the object store at {endpoint} {what}", tried, f"{hint}; then run again: {_COMMITTED}")
        self.endpoint = endpoint
        self.request = request
        self.seconds = seconds


class StoreUnreachableError(PassingError):
    """The store does not answer."""

    def __init__(self, uri: str, endpoint: str, request: str, seconds: float, cause: str) -> None:
        hint = f"look whether it runs and can be reached from here, or correct `endpoint` in {_PROFILE}"
        super().__init__(uri, endpoint, "does not answer", request, seconds, cause, hint)


class StoreFailingError(PassingError):
    """The store answers with errors of its own, or asks for fewer requests."""

    def __init__(self, uri: str, endpoint: str, request: str, seconds: float, cause: str) -> None:
        hint = "look at its own log, its load and its free space"
        super().__init__(uri, endpoint, "answers with errors only", request, seconds, cause, hint)


class BucketMissingError(ObjectStoreError):
    """There is no such bucket."""

    def __init__(self, uri: str, endpoint: str, cause: str) -> None:
        super().__init__(
            uri,
            f"there is no such bucket at {endpoint}",
            cause,
            f"make the bucket, or correct `uri`, `region` or `endpoint` in {_PROFILE}",
        )
        self.endpoint = endpoint


class StoreCredentialsError(ObjectStoreError):
    """There are no credentials, or the store does not know them."""

    def __init__(self, uri: str, found: bool, cause: str) -> None:
        what = "the object store does not accept the credentials" if found else "there are no credentials"
        super().__init__(
            uri,
            what,
            cause,
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) where Headwater and its executors "
            f"run, or name variables with env_var in {_PROFILE}",
        )
        self.found = found


class StoreDeniedError(ObjectStoreError):
    """The credentials are known, but do not allow what a log needs."""

    def __init__(self, uri: str, cause: str) -> None:
        super().__init__(
            uri,
            "these credentials may not do what a log needs",
            cause,
            "allow them to list the bucket, and to get, put and delete objects under this prefix",
        )


class StoreClockError(ObjectStoreError):
    """The clock here differs too much from the store's, so requests are refused."""

    def __init__(self, uri: str, cause: str) -> None:
        super().__init__(
            uri, "the clock of this machine differs too much from the object store's", cause, "set it right (NTP)"
        )


class StoreRegionError(ObjectStoreError):
    """The bucket is in another region."""

    def __init__(self, uri: str, cause: str) -> None:
        super().__init__(uri, "the bucket is in another region", cause, f"correct `region` in {_PROFILE}")


class NoConditionalPutError(ObjectStoreError):
    """The store cannot create an object only if there is none, so two drivers could make the same commit."""

    def __init__(self, uri: str, cause: str = "") -> None:
        super().__init__(
            uri,
            "this object store cannot hold a log: it replaces an object that should be made only if there is none",
            cause,
            "use a store with conditional writes (`If-None-Match: *`), such as Amazon S3, or `type: embedded` on a "
            "local file system",
        )


def told(uri: str, endpoint: str, request: str, seconds: float, error: Exception) -> ObjectStoreError:
    """An error of the client as a sentence. `request`: what was asked for, `seconds`: for how long."""
    text = str(error)
    code = _found(r"<Code>(\w+)</Code>", text) or _found(r"^[^\n]*\(code: (\w+)\)", text)
    status = _found(r"status code: (\d{3})", text)
    said = ": ".join(
        filter(None, (code or (status and f"status {status}"), _found(r"<Message>([^<]*)</Message>", text)))
    )
    if missing := _found(r"Generic S3 error: Missing (SecretAccessKey|AccessKeyId)", text):
        return StoreCredentialsError(uri, False, f"one of two is missing: {missing}")
    if _CREDENTIAL_SOURCES.search(text.partition("\n")[0]):
        return StoreCredentialsError(uri, False, "")
    cause = f"{request}: {said}" if said else request
    if code in _CREDENTIALS or status == "401":
        return StoreCredentialsError(uri, True, cause)
    if code in _NO_BUCKET:
        return BucketMissingError(uri, endpoint, cause)
    if code == "RequestTimeTooSkewed":
        return StoreClockError(uri, cause)
    if code in _REGION or status == "301" or "incorrectly configured region" in text:
        return StoreRegionError(uri, cause)
    if code in _NO_CONDITIONS or status == "501":
        return NoConditionalPutError(uri, cause)
    if code in _DENIED or status == "403":
        return StoreDeniedError(uri, cause)
    if code in _PASSING or (status and _PASSING_STATUS.fullmatch(status)):
        return StoreFailingError(uri, endpoint, request, seconds, said)
    if not code and not status:
        return StoreUnreachableError(uri, endpoint, request, seconds, _innermost(text))
    return ObjectStoreError(uri, "the object store refuses a request", cause)


def _innermost(text: str) -> str:
    """What the system said, from the client's description of an error without an answer."""
    for pattern in (r'message: "([^"]*)"', r'error: "([^"]*)"', r"(timed out|TimedOut)", r'"([^"]*error[^"]*)"'):
        if found := re.findall(pattern, text):
            return "no answer in time" if found[-1] in ("timed out", "TimedOut") else str(found[-1])
    return text.partition("\n")[0].rpartition(" - ")[2]


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


# For how long a request is tried again while the store does not answer, or answers with errors of its own.
#
# The client itself tries again after most of these: after a refused connection, an answer that was lost, and the
# statuses 408, 429 and 5xx. It gives up at once after others that pass as well: a removal or a conditional put that
# hangs, an answer that ends early, Amazon's 400 RequestTimeout, 409 Conflict, an error of a single object among many to
# remove. So whoever asks waits here for the rest of the time.

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


@dataclass(frozen=True)
class Patience:
    """`silent`: while nobody answers. `failing`: while the store answers with errors of its own."""

    silent: timedelta
    failing: timedelta

    def begin(self) -> Waiting:
        """For one request, from now on."""
        return Waiting(self)


class Waiting:
    """How long a request has been tried."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._begun = time.monotonic()
        self._pause = _FIRST_WAIT

    @property
    def seconds(self) -> float:
        """Since the first try."""
        return time.monotonic() - self._begun

    def again(self, error: PassingError) -> bool:
        """Wait a little, and say True, if it may be tried once more after this error."""
        silent = isinstance(error, StoreUnreachableError)
        allowed = self._patience.silent if silent else self._patience.failing
        if self.seconds >= allowed.total_seconds():
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_WAIT)
        return True
