"""Connections to an object store, and its errors."""

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


PATIENCE = timedelta(seconds=20)
"""How long requests of a run are retried while the store does not respond, so that short outages end no run."""

FIRST_PATIENCE = timedelta(seconds=4)
"""How long the first requests of a command are retried, so that a wrong address is reported soon."""

_REQUEST = timedelta(seconds=15)
"""The timeout of one try. Larger objects are uploaded in parts, each with its own request."""

_CONNECT = timedelta(seconds=3)
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(milliseconds=50), timedelta(seconds=1)

_DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True)
class Connection:
    """The options of a log in an object store.

    Without credentials, the client searches them like all clients of Amazon: in the environment (AWS_ACCESS_KEY_ID and
    so on), then in the role of the container or machine.
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
        """The prefix of all paths; empty, or without a slash at either end."""
        return unquote(urlsplit(self.uri).path).strip("/")

    @property
    def location(self) -> str:
        """Where the store is, for messages."""
        if self.local:
            return "this machine"
        return self.endpoint or f"Amazon S3, region {self.region or _DEFAULT_REGION}"

    def client(self, patience: timedelta) -> LocalStore | S3Store:
        """The client that retries for this time. One for each process, as clients keep connections open."""
        return LocalStore() if self.local else _s3(self, patience)


@lru_cache(maxsize=16)
def _s3(connection: Connection, patience: timedelta) -> S3Store:
    config: S3Config = {}
    for name in ("region", "endpoint", "access_key_id", "secret_access_key", "session_token"):
        if (value := getattr(connection, name)) is not None:
            config[name] = str(value)
    return S3Store(
        urlsplit(connection.uri).netloc,
        config=config,
        client_options={
            "allow_http": (connection.endpoint or "").startswith("http://"),
            # A store under load may need that long for one response, however short the patience is.
            "timeout": min(_REQUEST, max(patience, FIRST_PATIENCE)),
            "connect_timeout": _CONNECT,
        },
        retry_config={
            "max_retries": 1000,
            "retry_timeout": patience,
            "backoff": {"init_backoff": _FIRST_PAUSE, "max_backoff": _LONGEST_PAUSE, "base": 2},
        },
    )


# Errors of an object store, with hints. None contains credentials.

_PROFILE = "the `log:` of profiles.yml"
_NO_CREDENTIALS = "there are no credentials"
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
"""Addresses at which the client requests credentials if neither the options nor the environment have any."""


class ObjectStoreError(LogError):
    """An object store reports an error, or does not respond.

    `uri`: of the log. `cause`: the store's or system's message. `what`, `remedy`: the message and hint of a class.
    """

    what = "the object store refuses a request"
    remedy: str | None = None

    def __init__(self, uri: str, cause: str, what: str = "") -> None:
        super().__init__(f"{uri}: {what or self.what}" + (f" ({cause})" if cause else ""), self.remedy)


class PassingError(ObjectStoreError):
    """A temporary error lasts longer than the patience. `seconds`: how long it was retried."""

    def __init__(self, uri: str, endpoint: str, request: str, seconds: float, cause: str) -> None:
        tried = f"{request} was tried for {max(1, round(seconds))} s: {cause}"
        super().__init__(uri, tried, f"the object store at {endpoint} {self.what}")
        self.hint = f"{self.remedy}; then run again: {_COMMITTED}"
        self.seconds = seconds


class StoreUnreachableError(PassingError):
    """The store does not respond."""

    what = "does not answer"
    remedy = f"look whether it runs and can be reached from here, or correct `endpoint` in {_PROFILE}"


class StoreFailingError(PassingError):
    """The store responds with internal errors, or is overloaded."""

    what = "answers with errors only"
    remedy = "look at its own log, its load and its free space"


class BucketMissingError(ObjectStoreError):
    """The bucket does not exist."""

    remedy = f"make the bucket, or correct `uri`, `region` or `endpoint` in {_PROFILE}"


class StoreCredentialsError(ObjectStoreError):
    """Credentials are missing, or the store does not accept them."""

    what = "the object store does not accept the credentials"
    remedy = (
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) where Headwater and its executors "
        f"run, or name variables with env_var in {_PROFILE}"
    )


class StoreDeniedError(ObjectStoreError):
    """The credentials lack permissions that a log needs."""

    what = "these credentials may not do what a log needs"
    remedy = "allow them to list the bucket, and to get, put and delete objects under this prefix"


class StoreClockError(ObjectStoreError):
    """The clock of this machine differs too much from the store's, so the store rejects requests."""

    what = "the clock of this machine differs too much from the object store's"
    remedy = "set it right (NTP)"


class StoreRegionError(ObjectStoreError):
    """The bucket is in another region."""

    what = "the bucket is in another region"
    remedy = f"correct `region` in {_PROFILE}"


class NoConditionalPutError(ObjectStoreError):
    """The store has no conditional put, so two drivers could create the same commit."""

    what = "this object store cannot hold a log: it replaces an object that should be made only if there is none"
    remedy = (
        "use a store with conditional writes (`If-None-Match: *`), such as Amazon S3, or `type: embedded` on a local "
        "file system"
    )


def error_of(uri: str, endpoint: str, request: str, seconds: float, error: Exception) -> ObjectStoreError:
    """The error for an exception of the client. `request`: its description, `seconds`: how long it was retried."""
    text = str(error)
    code = _search(r"<Code>(\w+)</Code>", text) or _search(r"^[^\n]*\(code: (\w+)\)", text)
    status = _search(r"status code: (\d{3})", text)
    said = ": ".join(
        filter(None, (code or (status and f"status {status}"), _search(r"<Message>([^<]*)</Message>", text)))
    )
    if missing := _search(r"Generic S3 error: Missing (SecretAccessKey|AccessKeyId)", text):
        return StoreCredentialsError(uri, f"one of two is missing: {missing}", _NO_CREDENTIALS)
    if _CREDENTIAL_SOURCES.search(text.partition("\n")[0]):
        return StoreCredentialsError(uri, "", _NO_CREDENTIALS)
    cause = f"{request}: {said}" if said else request
    if code in _CREDENTIALS or status == "401":
        return StoreCredentialsError(uri, cause)
    if code in _NO_BUCKET:
        return BucketMissingError(uri, cause, f"there is no such bucket at {endpoint}")
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
    return ObjectStoreError(uri, cause)


def _innermost(text: str) -> str:
    """The system's message, from the client's error for a request without a response."""
    for pattern in (r'message: "([^"]*)"', r'error: "([^"]*)"', r"(timed out|TimedOut)", r'"([^"]*error[^"]*)"'):
        if found := re.findall(pattern, text):
            return "no answer in time" if found[-1] in ("timed out", "TimedOut") else str(found[-1])
    return text.partition("\n")[0].rpartition(" - ")[2]


def _search(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text)
    return match[1] if match else None


# Retries while the store does not respond, or responds with internal errors.
#
# The client itself retries after most of these: after a refused connection, a lost response, and the statuses 408, 429
# and 5xx. It does not after other temporary errors: a removal or a conditional put that hangs, a truncated response,
# Amazon's 400 RequestTimeout, 409 Conflict, an error of a single object among many to remove. So callers retry here for
# the rest of the time.

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


@dataclass(frozen=True)
class Patience:
    """How long to retry. `silent`: without responses. `failing`: while the store responds with internal errors."""

    silent: timedelta
    failing: timedelta


class Waiting:
    """The retries of one request."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._begun = time.monotonic()
        self._pause = _FIRST_WAIT

    @property
    def seconds(self) -> float:
        """The time since the first try."""
        return time.monotonic() - self._begun

    def again(self, error: PassingError) -> bool:
        """Pause and return True if the request may be retried after this error, else return False."""
        silent = isinstance(error, StoreUnreachableError)
        allowed = self._patience.silent if silent else self._patience.failing
        if self.seconds >= allowed.total_seconds():
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_WAIT)
        return True
