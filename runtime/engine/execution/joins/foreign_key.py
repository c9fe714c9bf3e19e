"""Foreign-key joins of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import eq

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir.topology import Store
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.keys import decode_keys, encode_keys
from ....records.types import Kind, parse_columns
from ....state.codec import RowCodec
from ...operators.foreign_keys import ANSWER, FOUND, HASH, LAST, SUBSCRIBE, Answer, ForeignKeyJoin, Subscribe
from ..keyed.groups import bytes_of
from ..keyed.stored_rows import RowStore, store_keys, stored_columns
from ..node import Edges, TaskEpoch, step_name
from ..rows import Rows, interleave, is_old, path_order, taken
from .foreign_key_stores import Incoming, RowsAt, Subscribers, Subscriptions, expiring, unexpired

# Part 2 of a foreign-key join, in the tasks of the right table: stores subscriptions and sends responses.
#
# A foreign-key join has three parts. Part 1 (`subscribe`) sends a subscription for each change of a left row.
# Part 2 (`respond`) sends a response for each subscription, and for each change of a right row to all its subscribers.
# Part 3 (`join_by_foreign_key`) joins a response with the left row, if this row has not changed meanwhile.

MOST_TOGETHER = 65_536
"""Approximate limit of responses to changes that are in memory at once."""


def respond(node: Answer, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Answer`."""
    incoming, table = edges[node.flow], edges[node.table]
    changed = table.filter(table.kind <= Kind.VALUE)
    places = np.empty(len(incoming) + len(changed), np.int64)
    places[path_order([incoming, changed])] = np.arange(len(places))
    subscribers = [incoming.values[name] for name in node.key]
    keys = encode_keys(list(changed.keys.values()))
    kept = Subscriptions(
        epoch.store(node.store),
        Incoming(
            encode_keys(list(incoming.keys.values())),
            encode_keys(subscribers),
            incoming.values[HASH],
            to_numpy(incoming.values[SUBSCRIBE]),
            incoming.timestamp,
            places[: len(incoming)],
        ),
        keys,
    )
    kept.put()
    waits = to_numpy(incoming.values[ANSWER])
    responses = _responses_to(node, incoming.filter(waits), table, epoch)
    changes = _Changes(changed, bytes_of(keys), places[len(incoming) :], [column.type for column in subscribers])
    pieces = _pieces(node, responses, places[: len(incoming)][waits], changes, kept)
    # A row may have millions of subscribers: the sink computes all pieces but the first while it writes.
    edges[node.flow] = next(pieces)
    epoch.more[node.flow] = pieces


def _pieces(node: Answer, responses: Rows, places: Int64s, changes: _Changes, kept: Subscriptions) -> Iterator[Rows]:
    """All responses in path order, piece by piece; a piece may be empty. `places`: of `responses`, see `Incoming`."""
    done, batches, size = 0, [], 0
    for number, (key, place) in enumerate(zip(changes.keys, changes.places.tolist(), strict=True)):
        order = 0
        for some in kept.at(key, place):
            batches.append(_Batch(number, order, some))
            order += len(some)
            size += len(some)
            if size >= MOST_TOGETHER:
                before = int(np.searchsorted(places, place))
                yield interleave([responses.take(np.arange(done, before)), _to_subscribers(node, changes, batches)])
                done, batches, size = before, [], 0
    yield interleave([responses.take(np.arange(done, len(responses))), _to_subscribers(node, changes, batches)])


def _responses_to(node: Answer, incoming: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
    """Responses to `incoming` subscriptions. The response to the end of one has no row."""
    names = dict.fromkeys(node.values.values())
    found = RowsAt.of(node.rows, table, incoming, names, epoch)
    times = np.where(found.exists, np.maximum(incoming.timestamp, found.timestamp[found.index]), incoming.timestamp)
    there = found.exists & to_numpy(incoming.values[SUBSCRIBE])
    columns = found.taken(there)
    return _response_rows(
        replace(incoming, timestamp=times),
        {name: incoming.values[name] for name in node.key},
        incoming.values[HASH],
        there,
        {new: columns[name] for new, name in node.values.items()},
    )


def _to_subscribers(node: Answer, changes: _Changes, parts: Sequence[_Batch]) -> Rows:
    """Responses to the subscribers of changed rows. `parts`: some subscribers each, in order."""
    counts = [len(part.some) for part in parts]
    rows = changes.rows.take(np.repeat(np.array([part.number for part in parts], np.int64), counts))
    nobody = pa.array([], pa.binary())
    columns = decode_keys(pa.concat_arrays([nobody, *(part.some.keys for part in parts)]), changes.types)
    values = rows.values
    orders = [np.zeros(0, np.int64), *(part.order + np.arange(len(part.some)) for part in parts)]
    return _response_rows(
        rows,
        dict(zip(node.key, columns, strict=True)),
        pa.concat_arrays([nobody, *(part.some.hashes for part in parts)]),
        rows.kind == Kind.VALUE,
        {new: values[name] for new, name in node.values.items()},
    ).deeper(np.concatenate(orders))


@dataclass(frozen=True)
class _Changes:
    """Changes of right rows. `keys`: encoded. `places`: see `Incoming`. `types`: of the key columns of subscribers."""

    rows: Rows
    keys: Sequence[bytes]
    places: Int64s
    types: list[pa.DataType]


@dataclass(frozen=True)
class _Batch:
    """Some subscribers of a changed row. `number`: of the change. `order`: the count of subscribers before these."""

    number: int
    order: int
    some: Subscribers


def _response_rows(
    rows: Rows, key: Mapping[str, pa.Array], hashes: pa.Array, found: Bools, values: Mapping[str, pa.Array]
) -> Rows:
    """Responses to the left rows with this `key`, with the time and path of `rows`. `hashes`, `found`: of each."""
    made = replace(rows, kind=np.full(len(rows), Kind.VALUE, np.int8))
    return made.with_columns(key, {HASH: hashes, FOUND: pa.array(found), **values})


# Expired left rows leave the join without a change of the result.


def forget(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    """Remove the rows with these keys from a store."""
    keys = bytes_of(store_keys(store, rows.keys))
    epoch.store(store).put_many(keys, [None] * len(keys), rows.timestamp)


# The hash of a left row. A response carries the hash of the row that subscribed, so an outdated response is found.

_BYTES = 16
_TIME = 8
"""Bytes of the timestamp at the start of an encoded row. It is not hashed."""


def row_hashes(store: Store, columns: Mapping[str, pa.Array], rows: int) -> list[bytes]:
    """The hash of each row, 16 bytes. `store`: its value columns give the order. `rows`: the number of rows."""
    types = parse_columns(store.value)
    values = [columns[name].cast(kind) if columns[name].type != kind else columns[name] for name, kind in types.items()]
    encoded = RowCodec(types).encode(values, np.zeros(rows, np.int64))
    return [blake2b(row[_TIME:], digest_size=_BYTES).digest() for row in encoded]


# Part 1 of a foreign-key join: changes of the left table become subscriptions to rows of the right table.


def subscribe(node: Subscribe, edges: Edges, epoch: TaskEpoch) -> None:
    """See `Subscribe`."""
    rows = edges[node.flow]
    if node.expired is None:
        edges[node.flow] = _subscriptions(node, rows, epoch)
        return
    counting = unexpired(node.store, rows, epoch)
    gone = expiring(node.store, rows, counting, epoch)
    _keep(node.expired, gone, epoch)
    edges[node.flow] = interleave([_subscriptions(node, counting, epoch), _last_subscriptions(node, gone)])


def _subscriptions(node: Subscribe, rows: Rows, epoch: TaskEpoch) -> Rows:
    """The subscriptions that changes of the left table send, and the ends of subscriptions.

    A change that moves a row from one foreign key to another sends an end to the old key, then a subscription to the
    new one. Example, for a left join: a row changes its foreign key from x to y.

        rows                        OLD with x, VALUE with y
        new, replaced               [1], [0]: row 1 replaces row 0
        sent                        x: end, no response; y: subscription, with a response
        new path level              [0, 1]
    """
    foreign = [rows.columns[column] for column in node.key.values()]
    keys = encode_keys(foreign)
    new = np.flatnonzero(~is_old(rows.kind))
    replaced = _replaced(rows, new)
    there = rows.kind[new] == Kind.VALUE
    # A deletion of a row that was not there changes nothing.
    new, replaced, there = (each[there | (replaced >= 0)] for each in (new, replaced, there))
    has = to_numpy(keys.is_valid())
    had_key = (replaced >= 0) & has[replaced]
    has_key = there & has[new]
    before = keys.take(pa.array(replaced, mask=~had_key))
    same = to_numpy(pc.equal(before, keys.take(pa.array(new, mask=~has_key))).fill_null(False))
    leaves = had_key & ~same
    asks = np.ones(len(new), np.bool_)
    if node.how == "inner":
        epoch.drop(step_name(node), "null_foreign_key", int((there & ~has_key).sum()))
        asks = has_key | ~had_key
    if node.expired is not None:
        asks = has_key
    hashes = _hashes(node, rows, new, there)
    sent = np.concatenate([np.flatnonzero(leaves), np.flatnonzero(asks)])
    second = np.repeat([0, 1], [int(leaves.sum()), int(asks.sum())])
    order = np.lexsort((second, sent))
    sent, second = sent[order], second[order].astype(np.bool_)
    source = np.where(second, new[sent], replaced[sent])
    # A row that only ends a subscription (inner join: a deleted row) gets its response from the old foreign key.
    answer = second | (~asks[sent] & (node.expired is None))
    null = second & ~has_key[sent]
    made = replace(rows.take(new[sent]), kind=np.full(len(sent), Kind.VALUE, np.int8)).deeper(second.astype(int))
    picked = pa.array(source, mask=null)
    keys = [column.take(picked) for column in foreign]
    return _records(node, made, keys, hashes.take(pa.array(sent)), second, answer)


def _last_subscriptions(node: Subscribe, gone: Rows) -> Rows:
    """The last subscription records of expired rows. They come behind those of the change that moves the clock."""
    number = gone.path[-1] + 2
    made = replace(gone, path=(*gone.path[:-1], number))
    foreign = [gone.columns[column] for column in node.key.values()]
    hashes = pa.array([LAST] * len(gone), pa.binary())
    no = np.zeros(len(gone), np.bool_)
    return _records(node, made, foreign, hashes, no, ~no)


def _records(
    node: Subscribe, rows: Rows, foreign: Sequence[pa.Array], hashes: pa.BinaryArray, subscribe: Bools, answer: Bools
) -> Rows:
    return rows.with_columns(
        dict(zip(node.key, foreign, strict=True)),
        {
            **rows.keys,
            HASH: hashes,
            SUBSCRIBE: pa.array(subscribe),
            ANSWER: pa.array(answer),
        },
    )


def _hashes(node: Subscribe, rows: Rows, new: Int64s, there: Bools) -> pa.BinaryArray:
    """The hash of each new row; null for a deletion. `new`: indexes of `rows`. `there`: whether each has a value."""
    chosen = rows.take(new[there])
    hashes = pa.array(row_hashes(node.store, chosen.values, len(chosen)), pa.binary())
    return hashes.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _keep(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    there = np.ones(len(rows), np.bool_)
    keys = bytes_of(store_keys(store, rows.keys))
    RowStore(epoch.store(store), stored_columns(store)).put(keys, rows.values, rows.timestamp, there, there)


def _replaced(rows: Rows, new: Int64s) -> Int64s:
    """The index of the row that each new row replaces; -1 without one. An old row directly precedes its new row."""
    old = is_old(rows.kind)
    return np.where((new > 0) & old[new - 1], new - 1, -1)


# Part 3 of a foreign-key join: responses meet the left rows that subscribed.


def join_by_foreign_key(join: ForeignKeyJoin, edges: Edges, epoch: TaskEpoch) -> None:
    """See `ForeignKeyJoin`."""
    answers, table = edges.pop(join.flow), edges[join.table]
    if join.expired is None:
        edges[join.into] = _joined(join, answers, table, epoch)
        return
    last = np.array([row == LAST for row in answers.columns[HASH].to_pylist()], np.bool_)
    ended, table = answers.filter(last), unexpired(join.store, table, epoch)
    forget(join.expired, ended, epoch)
    edges[join.ended] = ended.with_columns(None, {})
    joined = _joined(join, answers.filter(~last), table, epoch)
    edges[join.into] = interleave([joined, _at_once(join, table, joined)])


def _joined(join: ForeignKeyJoin, answers: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
    """The results of responses: left rows with columns of right rows, or deletions. Drops outdated responses."""
    names = list(parse_columns(join.store.value))
    left = RowsAt.of(join.store, table, answers, names, epoch, join.expired)
    rows = left.taken(left.exists)
    # Hashes of existing left rows. A response to a deleted row has a null hash.
    there = np.flatnonzero(left.exists)
    hashes = row_hashes(join.store, taken(rows, there), len(there))
    current: list[bytes | None] = [None] * len(answers)
    for place, row in zip(there.tolist(), hashes, strict=True):
        current[place] = row
    sent = answers.columns[HASH].to_pylist()
    fits = np.fromiter(map(eq, sent, current), np.bool_, len(sent))
    epoch.drop(step_name(join), "outdated_answer", int((~fits).sum()))
    found = to_numpy(answers.columns[FOUND])
    exists = left.exists & (found | (join.how == "left"))
    kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
    other = {name: column for name, column in answers.values.items() if name not in _META}
    values = taken({**rows, **other}, np.arange(len(answers)), ~exists)
    return replace(answers, kind=kind).with_columns(None, values).filter(fits)


def _at_once(join: ForeignKeyJoin, table: Rows, joined: Rows) -> Rows:
    """The results of left changes that send no subscription: rows without a foreign key, and deletions.

    A response to a deletion might arrive after the row was inserted again and expired. It would look like a valid one.
    So deletions give their result at once. `joined`: rows with the columns of the result.
    """
    new = table.filter(table.kind <= Kind.VALUE)
    nobody = to_numpy(encode_keys([new.columns[column] for column in join.asks_by.values()]).is_null())
    rows = new.filter(nobody | (new.kind == Kind.TOMBSTONE))
    exists = (rows.kind == Kind.VALUE) & (join.how == "left")
    places = pa.array(np.arange(len(rows)), mask=~exists)
    mine = rows.values
    values = {
        name: cast_to(mine[name].take(places), column.type) if name in mine else pa.nulls(len(rows), column.type)
        for name, column in joined.values.items()
    }
    keys = {name: cast_to(rows.keys[name], column.type) for name, column in joined.keys.items()}
    kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
    return replace(rows, kind=kind, state=None).with_columns(keys, values)


_META = (HASH, FOUND)
