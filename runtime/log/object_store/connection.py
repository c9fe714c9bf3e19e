"""How an object store is reached: the client, made from a log's options, and how long it is waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from obstore.store import LocalStore, S3Store

if TYPE_CHECKING:
    from obstore.store import S3Config

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
