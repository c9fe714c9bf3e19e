"""What a driver asks about a client's stores, and the answers. Both are plain data: stores lie where the client is.

A request is about one application on one client, and is bounded: so many records at most are applied for one. Its
answer is about the stores that the request names. `client_stores.answer` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..chosen_plugins import Origin
from ..tasks.plan import StoreInput
from ..topology import Store

What = Literal["hold", "look", "restore", "close", "let_go", "wipe", "release"]
"""`hold`: become the owner of the state directory, and list the stores there. `look`: read all rows, and tell where
stores stand. `restore`: bring stores to where they are planned to stand. `close`: do so, remove expired rows, make all
durable, and let go. `let_go`: of the files, whatever state they are in. `wipe`: remove stores. `release`: note that all
stores are closed."""


@dataclass(frozen=True)
class StateLocation:
    """Where the state of one application on one client lies, and what is needed to work on it.

    `folder`: of the client, below `state_dir`; empty: one that is free is to be taken (see `state.claim`).
    `process_id`: what the directory must have. `incarnation`: of the application; stores of another one are removed.
    `log`, `strategy`: plugin name and options. `stores`: as the topology declares them, `tables`: those of global
    tables. `log_identity`: see `Log.identity`.
    """

    state_dir: str
    application: str
    folder: str = ""
    process_id: str = ""
    incarnation: str = ""
    log: tuple[str, Mapping[str, Any]] = ("embedded", {})
    plugins: Origin = ("", (), ())
    strategy: tuple[str, Mapping[str, Any]] = ("changelog", {})
    stores: tuple[Store, ...] = ()
    log_identity: str = ""
    tables: tuple[Store, ...] = ()


@dataclass(frozen=True)
class StoreTarget:
    """One partition of a store, and the position that it is to be brought to."""

    partition: int
    input: StoreInput


@dataclass(frozen=True)
class StateRequest:
    """What to do with which stores. `hold` is about all that are there."""

    what: What
    location: StateLocation
    stores: tuple[StoreTarget, ...] = ()


@dataclass(frozen=True)
class StoreFailure:
    """Why the work on a store, or on all of them, has failed. `kind`: `corrupted`, `migrated` or `failed`."""

    kind: str
    message: str
    hint: str = ""
    expected: int | None = None
    found: int | None = None


@dataclass(frozen=True)
class StoreAnswer:
    """One partition of a store. `position`: changelog records applied.

    `damage`: why it was wiped, empty where it was not. `lost`: whether it started empty though rows had been committed,
    as it has no changelog.
    """

    store: str
    partition: int
    position: int
    failure: StoreFailure | None = None
    damage: str = ""
    lost: bool = False


@dataclass(frozen=True)
class StateAnswer:
    """What became of a request. `folder`, `process_id`: of the client. `failure`: of all of it.

    `strangers`: stores, as `<store>/<partition>`, that were wiped, as they had been brought forward with a commit that
    is not in the log, and the number of that commit.
    """

    folder: str = ""
    process_id: str = ""
    stores: tuple[StoreAnswer, ...] = field(default=())
    failure: StoreFailure | None = None
    strangers: Mapping[str, int] = field(default_factory=dict)
