"""Foreign-key joins of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from operator import eq

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....ir import declarations
from ....ir.topology import Store
from ....records.arrays import Bools, Int64s, cast_to, to_numpy
from ....records.keys import decode_keys, encode_keys
from ....records.types import Kind, parse_columns
from ....state.codec import RowCodec
from ..keyed.groups import bytes_of
from ..keyed.stored_rows import RowStore, store_keys, stored_columns
from ..node import Edges, TaskEpoch, step_name
from ..rows import Rows, interleave, is_old, path_order
from .foreign_key_stores import Asked, RowsAt, Subscribers, Subscriptions, expiring, unexpired

# The middle part of a join by a foreign key: subscriptions are kept beside the rows that they mean, and answered.

MOST_TOGETHER = 65_536
"""About the most answers that are in memory at once, beside those to subscriptions of the epoch."""


@dataclass(frozen=True)
class Answer(declarations.Answer):
    """Answers each subscription with the row as it is then, and each change of a row to all who subscribe to it.

    | what comes | who is answered | time of the answer |
    |---|---|---|
    | a subscription, or the end of one that wants an answer | who has sent it | the later one of record and row |
    | a change of the row, also a deletion | each subscriber, by key bytes | that of the change |

    Whoever subscribes to a null foreign key is told that there is no row, and not kept.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        asked, table = edges[self.flow], edges[self.table]
        changed = table.filter(table.kind <= Kind.VALUE)
        places = np.empty(len(asked) + len(changed), np.int64)
        places[path_order([asked, changed])] = np.arange(len(places))
        subscribers = [asked.values[name] for name in self.key]
        keys = encode_keys(list(changed.keys.values()))
        kept = Subscriptions(
            epoch.store(self.store),
            Asked(
                encode_keys(list(asked.keys.values())),
                encode_keys(subscribers),
                asked.values[declarations.HASH],
                to_numpy(asked.values[declarations.SUBSCRIBE]),
                asked.timestamp,
                places[: len(asked)],
            ),
            keys,
        )
        kept.put()
        waits = to_numpy(asked.values[declarations.ANSWER])
        answered = self._answered(asked.filter(waits), table, epoch)
        changes = _Changes(changed, bytes_of(keys), places[len(asked) :], [column.type for column in subscribers])
        pieces = self._pieces(answered, places[: len(asked)][waits], changes, kept)
        # The first ones go on now, and the rest as they are written: a row may have millions of subscribers.
        edges[self.flow] = next(pieces)
        epoch.more[self.flow] = pieces

    def _pieces(self, answered: Rows, places: Int64s, changes: _Changes, kept: Subscriptions) -> Iterator[Rows]:
        """All answers in path order, some at a time; perhaps none. `places`: of those to subscriptions."""
        done, told, size = 0, [], 0
        for number, (key, place) in enumerate(zip(changes.keys, changes.places.tolist(), strict=True)):
            order = 0
            for some in kept.at(key, place):
                told.append(_Told(number, order, some))
                order += len(some)
                size += len(some)
                if size >= MOST_TOGETHER:
                    before = int(np.searchsorted(places, place))
                    yield interleave([answered.take(np.arange(done, before)), self._told(changes, told)])
                    done, told, size = before, [], 0
        yield interleave([answered.take(np.arange(done, len(answered))), self._told(changes, told)])

    def _answered(self, asked: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
        """The answers to subscriptions, and to ends of subscriptions that want one: there, no row."""
        names = dict.fromkeys(self.values.values())
        found = RowsAt.of(self.rows, table, asked, names, epoch)
        times = np.where(found.exists, np.maximum(asked.timestamp, found.timestamp[found.index]), asked.timestamp)
        there = found.exists & to_numpy(asked.values[declarations.SUBSCRIBE])
        columns = found.taken(there)
        return _answers(
            replace(asked, timestamp=times),
            {name: asked.values[name] for name in self.key},
            asked.values[declarations.HASH],
            there,
            {new: columns[name] for new, name in self.values.items()},
        )

    def _told(self, changes: _Changes, parts: Sequence[_Told]) -> Rows:
        """The answers to the subscribers of rows that change."""
        counts = [len(part.some) for part in parts]
        told = changes.rows.take(np.repeat(np.array([part.number for part in parts], np.int64), counts))
        nobody = pa.array([], pa.binary())
        columns = decode_keys(pa.concat_arrays([nobody, *(part.some.keys for part in parts)]), changes.types)
        values = told.values
        orders = [np.zeros(0, np.int64), *(part.order + np.arange(len(part.some)) for part in parts)]
        return _answers(
            told,
            dict(zip(self.key, columns, strict=True)),
            pa.concat_arrays([nobody, *(part.some.hashes for part in parts)]),
            told.kind == Kind.VALUE,
            {new: values[name] for new, name in self.values.items()},
        ).deeper(np.concatenate(orders))


@dataclass(frozen=True)
class _Changes:
    """The changes of rows. `keys`: encoded. `places`: see `Asked`. `types`: of the columns of subscribers' keys."""

    rows: Rows
    keys: Sequence[bytes]
    places: Int64s
    types: list[pa.DataType]


@dataclass(frozen=True)
class _Told:
    """Some subscribers who are told of a change. `number`: of the change; `order`: how many come before them."""

    number: int
    order: int
    some: Subscribers


def _answers(
    rows: Rows, key: Mapping[str, pa.Array], hashes: pa.Array, found: Bools, values: Mapping[str, pa.Array]
) -> Rows:
    """Answers for whoever has the `key`, at the time and place of `rows`."""
    made = replace(rows, kind=np.full(len(rows), Kind.VALUE, np.int8))
    return made.with_columns(key, {declarations.HASH: hashes, declarations.FOUND: pa.array(found), **values})


# Rows that leave the result of a join by a foreign key without a change of it.


@dataclass(frozen=True)
class Forget(declarations.Forget):
    """Removes the rows of keys from a store. Nobody is told: they are as they were, but can change no more."""

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        forget(self.store, edges.pop(self.flow), epoch)


def forget(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    """Remove the rows with these keys from a store."""
    keys = bytes_of(store_keys(store, rows.keys))
    epoch.store(store).put_many(keys, [None] * len(keys), rows.timestamp)


# The hash of a row's values: an answer is for the row that has asked, and the row may be another one by then.

_BYTES = 16
_TIME = 8
"""A stored row begins with its timestamp, which the hash leaves out."""


def row_hashes(store: Store, columns: Mapping[str, pa.Array], rows: int) -> list[bytes]:
    """The hash of each row of a table. `store`: the table's, which says the order of its value columns."""
    types = parse_columns(store.value)
    values = [columns[name].cast(kind) if columns[name].type != kind else columns[name] for name, kind in types.items()]
    encoded = RowCodec(types).encode(values, np.zeros(rows, np.int64))
    return [blake2b(row[_TIME:], digest_size=_BYTES).digest() for row in encoded]


# The first part of a join by a foreign key: changes of the left table become subscriptions to rows of the other.


@dataclass(frozen=True)
class Subscribe(declarations.Subscribe):
    """Turns each change of a table into one or two records with the foreign key as their key.

    Of a change, f is the foreign key of the row that is replaced, g that of the new one. What is sent, and to whom:

    | change | left | inner |
    |---|---|---|
    | to another g | unsubscribe from f, then subscribe to g | the same |
    | f = g, or a new row | subscribe to g | the same |
    | g is null | unsubscribe from f; ask nobody | unsubscribe from f, who answers (or ask nobody); counted |
    | deletion | the same | the same, not counted |

    Whoever subscribes is answered, also if there is no row. A record that asks nobody has a null key, and the answer is
    that there is no row. So every update of a row is answered, with the hash of the row that it is for.

    Of a table whose rows expire, nobody is asked where g is null or of a deletion: the result changes at once
    (`ForeignKeyJoin`). A row that expires unsubscribes, and is answered once more: by then all answers to it have come.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        rows = edges[self.flow]
        if self.expired is None:
            edges[self.flow] = self._asked(rows, epoch)
            return
        counting = unexpired(self.store, rows, epoch)
        gone = expiring(self.store, rows, counting, epoch)
        _keep(self.expired, gone, epoch)
        edges[self.flow] = interleave([self._asked(counting, epoch), self._last(gone)])

    def _asked(self, rows: Rows, epoch: TaskEpoch) -> Rows:
        """What changes ask."""
        foreign = [rows.columns[column] for column in self.key.values()]
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
        if self.how == "inner":
            epoch.drop(step_name(self), "null_foreign_key", int((there & ~has_key).sum()))
            asks = has_key | ~had_key
        if self.expired is not None:
            asks = has_key
        hashes = self._hashes(rows, new, there)
        sent = np.concatenate([np.flatnonzero(leaves), np.flatnonzero(asks)])
        second = np.repeat([0, 1], [int(leaves.sum()), int(asks.sum())])
        order = np.lexsort((second, sent))
        sent, second = sent[order], second[order].astype(np.bool_)
        source = np.where(second, new[sent], replaced[sent])
        # Who only leaves is answered by the one that it leaves.
        answer = second | (~asks[sent] & (self.expired is None))
        null = second & ~has_key[sent]
        made = replace(rows.take(new[sent]), kind=np.full(len(sent), Kind.VALUE, np.int8)).deeper(second.astype(int))
        picked = pa.array(source, mask=null)
        keys = [column.take(picked) for column in foreign]
        return self._records(made, keys, hashes.take(pa.array(sent)), second, answer)

    def _last(self, gone: Rows) -> Rows:
        """What rows ask that expire. It comes behind what the change asks that moves the clock."""
        number = gone.path[-1] + 2
        made = replace(gone, path=(*gone.path[:-1], number))
        foreign = [gone.columns[column] for column in self.key.values()]
        hashes = pa.array([declarations.LAST] * len(gone), pa.binary())
        no = np.zeros(len(gone), np.bool_)
        return self._records(made, foreign, hashes, no, ~no)

    def _records(
        self, rows: Rows, foreign: Sequence[pa.Array], hashes: pa.BinaryArray, subscribe: Bools, answer: Bools
    ) -> Rows:
        return rows.with_columns(
            dict(zip(self.key, foreign, strict=True)),
            {
                **rows.keys,
                declarations.HASH: hashes,
                declarations.SUBSCRIBE: pa.array(subscribe),
                declarations.ANSWER: pa.array(answer),
            },
        )

    def _hashes(self, rows: Rows, new: Int64s, there: Bools) -> pa.BinaryArray:
        """The hash of each new row; null for a deletion."""
        chosen = rows.take(new[there])
        hashes = pa.array(row_hashes(self.store, chosen.values, len(chosen)), pa.binary())
        return hashes.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _keep(store: Store, rows: Rows, epoch: TaskEpoch) -> None:
    there = np.ones(len(rows), np.bool_)
    keys = bytes_of(store_keys(store, rows.keys))
    RowStore(epoch.store(store), stored_columns(store)).put(keys, rows.values, rows.timestamp, there, there)


def _replaced(rows: Rows, new: Int64s) -> Int64s:
    """The row that each new row replaces; -1 for none."""
    old = is_old(rows.kind)
    return np.where((new > 0) & old[new - 1], new - 1, -1)


# The last part of a join by a foreign key: answers meet the rows that have asked.


@dataclass(frozen=True)
class ForeignKeyJoin(declarations.ForeignKeyJoin):
    """Makes upserts of the result of answers: the left row as it is now, with the columns of the other one.

    An answer to a row that is another one by now is dropped and counted: that row has asked, too. The result is null
    where the left row is gone and, of an inner join, where the other row was not found.

    The rows of a table that expire are looked up among those that have expired then, until the last answer has come.
    """

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        """See `Node`."""
        answers, table = edges.pop(self.flow), edges[self.table]
        if self.expired is None:
            edges[self.into] = self._joined(answers, table, epoch)
            return
        last = np.array([row == declarations.LAST for row in answers.columns[declarations.HASH].to_pylist()], np.bool_)
        ended, table = answers.filter(last), unexpired(self.store, table, epoch)
        forget(self.expired, ended, epoch)
        edges[self.ended] = ended.with_columns(None, {})
        joined = self._joined(answers.filter(~last), table, epoch)
        edges[self.into] = interleave([joined, self._at_once(table, joined)])

    def _joined(self, answers: Rows, table: Rows, epoch: TaskEpoch) -> Rows:
        """What answers make of the rows that have asked."""
        names = list(parse_columns(self.store.value))
        left = RowsAt.of(self.store, table, answers, names, epoch, self.expired)
        rows = left.taken(left.exists)
        # Only rows that are there: each answer to one of the others has no hash.
        there = pa.array(np.flatnonzero(left.exists))
        hashes = row_hashes(self.store, {name: column.take(there) for name, column in rows.items()}, len(there))
        current: list[bytes | None] = [None] * len(answers)
        for place, row in zip(there.to_pylist(), hashes, strict=True):
            current[place] = row
        asked = answers.columns[declarations.HASH].to_pylist()
        fits = np.fromiter(map(eq, asked, current), np.bool_, len(asked))
        epoch.drop(step_name(self), "outdated_answer", int((~fits).sum()))
        found = to_numpy(answers.columns[declarations.FOUND])
        exists = left.exists & (found | (self.how == "left"))
        kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        other = {name: column for name, column in answers.values.items() if name not in _META}
        picked = pa.array(np.arange(len(answers)), mask=~exists)
        values = {name: column.take(picked) for name, column in {**rows, **other}.items()}
        return replace(answers, kind=kind).with_columns(None, values).filter(fits)

    def _at_once(self, table: Rows, joined: Rows) -> Rows:
        """What rows make of which nobody is asked: those without a foreign key, and those that are deleted.

        An answer to a deletion might come when the row is there again, and has expired: nothing would tell it then from
        one that counts. `joined`: rows with the same columns.
        """
        new = table.filter(table.kind <= Kind.VALUE)
        nobody = to_numpy(encode_keys([new.columns[column] for column in self.asks_by.values()]).is_null())
        rows = new.filter(nobody | (new.kind == Kind.TOMBSTONE))
        exists = (rows.kind == Kind.VALUE) & (self.how == "left")
        places = pa.array(np.arange(len(rows)), mask=~exists)
        mine = rows.values
        values = {
            name: cast_to(mine[name].take(places), column.type) if name in mine else pa.nulls(len(rows), column.type)
            for name, column in joined.values.items()
        }
        keys = {name: cast_to(rows.keys[name], column.type) for name, column in joined.keys.items()}
        kind = np.where(exists, Kind.VALUE, Kind.TOMBSTONE).astype(np.int8)
        return replace(rows, kind=kind, state=None).with_columns(keys, values)


_META = (declarations.HASH, declarations.FOUND)
