"""Requests of the driver about a client's stores, and the responses, as plain data.

A request concerns one application on one client. It applies a limited number of records, so that the response comes
soon. The response covers the stores of the request. `client_stores.handle` computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from ..chosen_plugins import Origin
from ..ir.topology import GlobalTable, Store
from ..log.commit.records import StoreSnapshot
from ..state.catch_up import RECORDS_PER_SLICE
from ..task_id import StoreId
from ..tasks.measured import StoreSize, Trouble
from ..tasks.plan import Positions, StoreInput, TopicInput

What = Literal["claim", "open", "verify", "load", "restore", "save", "close", "wipe", "clean", "release"]
"""The kinds of requests.

`claim`: become the owner of the state directory and list its stores. `open`: report the stores' positions. `verify`:
the same, and read all rows. `load`: load records into global tables. `restore`: bring stores to their planned
positions. `save`: save snapshots of stores into the log. `close`: bring stores to their planned positions, delete
expired rows, flush and close the files. `wipe`: delete stores. `clean`: the same, unless they were touched recently.
`release`: record that all stores are closed.
"""

WITHOUT_OPENING: Collection[What] = ("claim", "wipe", "clean", "release")
"""Requests that open no store. They may run in any process: a damaged store crashes only a process that opens it."""

UNKNOWN = -1
"""The unknown position of a store that has to be opened, or verified, first."""

TABLE = -1
"""The partition of a global table's store."""


@dataclass(frozen=True)
class StateLocation:
    """The location of one application's state on one client, and the declarations needed to work on it.

    `folder`: of the client, below `state_dir`; empty: claim a free one (see `state.directory_claim`). `process_id`: the
    expected one of the directory. `incarnation`: of the application; stores of another one are deleted. `log`: plugin
    name and options. `stores`: as the topology declares them. `tables`: its global tables. `log_identity`: see
    `Log.identity`. `assignment`: the number of a commit; from `claim` on, older assignments are fenced. `fenced`: a
    process id that is replaced by a new one if the directory still has it. `former`: earlier names of the application.
    `renamed`: old name -> new name of stores.
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

    `load`: a snapshot that replaces the store first. `discarded`: a partly fetched snapshot to remove. `slice_records`:
    see `Apply`. `save_to`: the path of its new snapshot in the log. `subtopology`: of its task, if known.
    """

    partition: int
    input: StoreInput
    load: StoreSnapshot | None = None
    slice_records: int = RECORDS_PER_SLICE
    save_to: str = ""
    subtopology: str = ""
    discarded: StoreSnapshot | None = None

    @classmethod
    def at(cls, store: StoreId, position: int) -> Self:
        """A target that leaves a store at its position."""
        return cls(store.partition, StoreInput(store.store, position, position, ()))

    @property
    def store(self) -> StoreId:
        """The store of the target."""
        return StoreId(self.input.store, self.partition)


@dataclass(frozen=True)
class TableTarget:
    """A global table, and the records that its store may lack, by partition of the topic."""

    table: GlobalTable
    topics: tuple[TopicInput, ...]


@dataclass(frozen=True)
class StateRequest:
    """A request about stores or global tables. `claim` has none; `release` has the stores to record.

    `idle_s`: `clean` deletes stores that were not touched for so many seconds.
    """

    what: What
    location: StateLocation
    stores: tuple[StoreTarget, ...] = ()
    tables: tuple[TableTarget, ...] = ()
    idle_s: float = 0.0


@dataclass(frozen=True)
class StoreResponse:
    """The response about one partition of a store, or TABLE. `position`: up to which its changelog is applied.

    `damage`: why it was wiped; empty if it was not. `lost`: whether it started empty although it had committed rows,
    because it has no changelog. `unusable`: why the snapshot was not loaded; empty if it was, or without one. `saved`:
    the new snapshot. `fetched`: bytes of a snapshot that is fetched partly. `removed`: whether `clean` deleted it.
    `outdated`: its position when it was wiped for the delete horizon `horizon` of its changelog; 0 if it was not.
    `size`: of the store, after `verify`, `restore` and `close`.
    """

    store: StoreId
    position: int
    failure: Trouble | None = None
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
    """The response about a global table. `positions`: of its store in the topic.

    `damage`: why the store was wiped; empty if it was not.
    """

    table: str
    positions: Positions
    failure: Trouble | None = None
    damage: str = ""


@dataclass(frozen=True)
class StateResponse:
    """The response to a request. `folder`, `process_id`: of the client. `failure`: of the whole request.

    `closed`: after `claim`, whether the last owner has closed all stores. `unopened`: stores with a position known from
    their close. `foreign_stores`: `<store>/<partition>` -> number of a commit that the log does not have, for stores
    wiped because of it.
    """

    folder: str = ""
    process_id: str = ""
    stores: tuple[StoreResponse, ...] = field(default=())
    failure: Trouble | None = None
    closed: bool = True
    unopened: tuple[StoreId, ...] = ()
    foreign_stores: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[TableResponse, ...] = ()
