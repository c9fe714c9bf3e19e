"""The joins of the bare loop, see `bare_loop.py`: what is done with the records of a partition, beside its store.

The store has the names of the table from the start, under their keys. All else is under keys that begin with a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

QUARTER = 900
NEAR = 600
"""How far apart two records of a pair may be, s."""

_MICROS = 1_000_000
_WORD = 8
_LEFT, _ASKED, _JOINED = b"\x00l", b"\x00a", b"\x00j"

Column = np.ndarray[tuple[int], np.dtype[Any]]


def named(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The records with the names of their keys."""
    return rows.append_column("name", pa.array(_looked_up(store, rows["k"]), pa.binary()).cast(pa.string()))


def kept_and_named(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The same; the last record of each key is kept, and the one that it replaces is looked up."""
    last = _last(rows)
    _replace(store, b"\x00", last["k"], _words(last["v"]))
    return named(store, rows)


def kept(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The records, of which the last of each key is kept with its foreign key."""
    last = _last(rows)
    others = last["other"].to_pylist()
    values = [value + other.encode() for value, other in zip(_words(last["v"]), others, strict=True)]
    _replace(store, _LEFT, last["k"], values)
    return rows


def asked(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The records with the names of their foreign keys; who has asked is kept."""
    last = _last(rows)
    who = pc.binary_join_element_wise(last["other"], last["k"], "")
    hashes = [blake2b(value, digest_size=16).digest() for value in _words(last["v"])]
    _replace(store, _ASKED, who, hashes)
    return rows.append_column("name", pa.array(_looked_up(store, rows["other"]), pa.binary()).cast(pa.string()))


def answered(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The records, of which the last of each key is the result, once it is compared with the row that has asked."""
    last = _last(rows)
    with store.begin() as transaction:
        there = [transaction.get(_LEFT + key.encode(), b"")[:_WORD] for key in last["k"].to_pylist()]
    assert there == _words(last["v"])
    _replace(store, _JOINED, last["k"], [name.encode() for name in last["name"].to_pylist()])
    return rows


def paired(store: lmdb.Environment, rows: pa.Table) -> pa.Table:
    """The pairs of even and odd records of a key that are near each other, of which one at least is new.

    All records are of one quarter of an hour, and find those of it and of the one before, which the store has.
    """
    times = rows["ts"].cast(pa.int64()).to_numpy()
    quarter = int(times[0]) // (QUARTER * _MICROS)
    before = _records(store, quarter - 1)
    new = pa.table({"k": rows["k"], "ts": times, "v": rows["v"], "new": np.ones(len(rows), np.bool_)})
    found = pa.concat_tables([before, new])
    even = pc.equal(pc.bit_wise_and(found["v"], 1), 0)
    pairs = found.filter(even).join(found.filter(pc.invert(even)), "k", join_type="inner", right_suffix="_other")
    apart = pc.abs(pc.subtract(pairs["ts"], pairs["ts_other"]))
    fits = pc.and_(pc.less_equal(apart, NEAR * _MICROS), pc.or_(pairs["new"], pairs["new_other"]))
    _put_records(store, quarter, new)
    return pairs.filter(fits).select(["k", "v", "ts", "v_other"]).rename_columns(["k", "v", "ts", "w"])


def _records(store: lmdb.Environment, quarter: int) -> pa.Table:
    """The stored records of a quarter of an hour."""
    first, end = _big_endian(quarter), _big_endian(quarter + 1)
    keys, values = [], []
    with store.begin() as transaction:
        cursor = transaction.cursor()
        for key, value in cursor.iternext() if cursor.set_range(first) else ():
            if key >= end:
                break
            keys.append(key)
            values.append(value)
    found = pa.array(keys, pa.binary())
    times = b"".join([key[-_WORD:] for key in keys])
    return pa.table(
        {
            "k": pc.binary_slice(found, _WORD, -_WORD).cast(pa.string()),
            "ts": np.frombuffer(times, ">i8").astype(np.int64),
            "v": np.frombuffer(b"".join(values), np.int64),
            "new": np.zeros(len(keys), np.bool_),
        }
    )


def _put_records(store: lmdb.Environment, quarter: int, new: pa.Table) -> None:
    """Put the records of a quarter; those that nobody finds any more go."""
    head, end = _big_endian(quarter), _big_endian(quarter - 1)
    tails = new["ts"].to_numpy().astype(">i8").view(f"V{_WORD}").tolist()
    keys = [head + key.encode() + tail for key, tail in zip(new["k"].to_pylist(), tails, strict=True)]
    with store.begin(write=True) as transaction:
        cursor = transaction.cursor()
        there = cursor.first()
        while there and cursor.key() < end:
            there = cursor.delete()
        cursor.putmulti(sorted(zip(keys, _words(new["v"]), strict=True)))


def _looked_up(store: lmdb.Environment, keys: pa.ChunkedArray) -> list[bytes | None]:
    """The name of each record; each key is looked up once."""
    coded = keys.combine_chunks().dictionary_encode()
    with store.begin() as transaction:
        found = [transaction.get(key.encode()) for key in coded.dictionary.to_pylist()]
    return list(pa.array(found, pa.binary()).take(coded.indices).to_pylist())


def _last(rows: pa.Table) -> pa.Table:
    """The last record of each key."""
    coded = rows["k"].combine_chunks().dictionary_encode()
    last = np.empty(len(coded.dictionary), np.int64)
    last[coded.indices.to_numpy()] = np.arange(len(rows))
    return rows.take(pa.array(last))


def _replace(store: lmdb.Environment, head: bytes, keys: pa.ChunkedArray, values: Sequence[bytes]) -> None:
    """Put rows under keys that begin with `head`, and look up those that they replace."""
    found = [head + key.encode() for key in keys.to_pylist()]
    with store.begin(write=True) as transaction:
        for key in found:
            transaction.get(key)
        transaction.cursor().putmulti(sorted(zip(found, values, strict=True)))


def _words(numbers: pa.ChunkedArray) -> list[bytes]:
    """Eight bytes of each number."""
    raw = numbers.to_numpy().astype(np.int64).tobytes()
    return [raw[at : at + _WORD] for at in range(0, len(raw), _WORD)]


def _big_endian(number: int) -> bytes:
    return max(number, 0).to_bytes(_WORD, "big")
