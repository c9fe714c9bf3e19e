"""Requests of the driver about a client's stores, and the answers, as plain data. Stores lie where the client is.

A request concerns one application on one client. It applies a limited number of records, so that an answer comes soon.
The answer covers the stores in the request. `client_stores.answer` computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..chosen_plugins import Origin
from ..ir.topology import GlobalTable, Store
from ..log.commit.records import StoreSnapshot
from ..state.catch_up import RECORDS_PER_SLICE
from ..task_id import StoreId
from ..tasks.measured import StoreSize
from ..tasks.plan import StoreInput, TopicInput

What = Literal["claim", "open", "verify", "load", "restore", "save", "close", "wipe", "clean", "release"]
"""What a request does.

`hold`: become the owner of the state directory and list its stores. `open`: report the stores' positions. `look`: the
same, and read all rows. `load`: bring global tables forward. `restore`: bring stores to their planned positions.
`save`: copy them into the log. `close`: bring them to their planned positions, remove expired rows, make everything
durable and close the files. `wipe`: remove stores. `clean`: the same, unless they were touched lately. `release`: note
that all stores are closed.
"""

WITHOUT_OPENING: Collection[What] = ("claim", "wipe", "clean", "release")
"""What any process may do: a damaged store kills only those that open it."""

UNKNOWN = -1
"""Instead of the position of a store that has to be opened for it."""

TABLE = -1
"""Instead of a partition: the store of a global table."""


@dataclass(frozen=True)
class StateLocation:
    """Where the state of one application on one client lies, and what is needed to work on it.

    `folder`: the client's, below `state_dir`; empty: claim a free one (see `state.directories.claim`). `process_id`:
    the one that the directory must have. `incarnation`: of the application; stores of another one are removed. `log`:
    plugin name and options. `stores`: as the topology declares them. `tables`: its global tables. `log_identity`:
    see `Log.identity`. `assignment`: the number of a commit; from `hold` on, the client works for no assignment that
    was noted before it. `fenced`: a process id that the client has no longer, if it has it still when it is held.
    `former`: names that the application had before. `renamed`: store -> its new name, if that has just changed.
    """

    state_dir: str
    application: str
    folder: str = ""
    process_id: str = ""
    incarnation: str = ""
    log: tuple[str, Mapping[str, Any]] = ("embedded", {})
    plugins: Origin = ("", (), ())
    stores: tuple[Store, ...] = ()
    log_identity: str = ""
    assignment: int = 0
    fenced: str = ""
    tables: tuple[GlobalTable, ...] = ()
    former: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StoreTarget:
    """One partition of a store, or TABLE, and its target position.

    `load`: the snapshot that takes the place of the store first. `given_up`: one that is partly there, and is not to be
    loaded any more. `slice_records`: see `Apply`. `save_to`: the path in the log where it is copied to. `subtopology`:
    that of its task, where that is known.
    """

    partition: int
    input: StoreInput
    load: StoreSnapshot | None = None
    slice_records: int = RECORDS_PER_SLICE
    save_to: str = ""
    subtopology: str = ""
    given_up: StoreSnapshot | None = None


@dataclass(frozen=True)
class TableTarget:
    """A global table, and what its copy may lack, partition by partition of the topic."""

    table: GlobalTable
    topics: tuple[TopicInput, ...]


@dataclass(frozen=True)
class StateRequest:
    """What to do with which stores, or global tables. `hold` names none; `release` those whose positions are noted.

    `idle_s`: for how many seconds a store must not have been touched to be removed by `clean`.
    """

    what: What
    location: StateLocation
    stores: tuple[StoreTarget, ...] = ()
    tables: tuple[TableTarget, ...] = ()
    idle_s: float = 0.0


@dataclass(frozen=True)
class StoreFailure:
    """Why the work on a store, or on all stores, failed. `kind`: `corrupted`, `migrated`, `unreadable`
    (the changelog, where `missing` is the file that is not there) or `failed`.
    """

    kind: str
    message: str
    hint: str = ""
    expected: int | None = None
    found: int | None = None
    missing: str = ""


@dataclass(frozen=True)
class StoreResponse:
    """The answer about one partition of a store. `position`: up to which its changelog is applied.

    `damage`: why it was wiped; empty if it was not. `lost`: whether it started empty although rows had been committed,
    because it has no changelog. `unusable`: why the snapshot was not loaded; empty if it was, or there was none.
    `saved`: the snapshot that was made. `fetched`: bytes of the snapshot that are here, as long as it is not whole.
    `removed`: whether it was removed by `clean`. `outdated`: the position at which it stood when it was wiped, as
    deletions before `horizon` are dropped from its changelog; 0 if it was not. `size`: how large the store is, after
    `look` and `restore`.
    """

    store: str
    partition: int
    position: int
    failure: StoreFailure | None = None
    damage: str = ""
    lost: bool = False
    unusable: str = ""
    saved: StoreSnapshot | None = None
    fetched: int = 0
    removed: bool = False
    size: StoreSize | None = None
    outdated: int = 0
    horizon: int = 0


@dataclass(frozen=True)
class TableResponse:
    """The answer about a global table. `positions`: partition -> lane -> position of the topic that the copy has.

    `damage`: why the copy was wiped; empty if it was not.
    """

    table: str
    positions: Mapping[int, Mapping[int, int]]
    failure: StoreFailure | None = None
    damage: str = ""


@dataclass(frozen=True)
class StateResponse:
    """The answer to a request. `folder`, `process_id`: of the client. `failure`: of the whole request. `closed`: to
    `hold`, whether the last owner has closed all stores.

    `unopened`: the stores whose positions are known from their close.

    `foreign_stores`: `<store>/<partition>` of stores that were wiped, each with the number of the commit that made it.
    That commit is not in the log.
    """

    folder: str = ""
    process_id: str = ""
    stores: tuple[StoreResponse, ...] = field(default=())
    failure: StoreFailure | None = None
    closed: bool = True
    unopened: tuple[StoreId, ...] = ()
    foreign_stores: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableResponse, ...] = ()
