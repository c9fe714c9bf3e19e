"""How rows travel between Python and Spark SQL: batches with meta columns, and a control row at the end of each task.

The order of arrival is the order of processing. A stage sends the rows of all its live edges in path order, and numbers
the rows that it receives. A *flat* pipe has the columns of its only edge. A *tagged* pipe has a struct column `@<edge>`
for each edge. In a data row exactly one struct is not null, in a control row none.

A *numbered* pipe also has the number of each row's record. A row that an SQL step could not process has the kind
`FAILED`. The next stage then removes all rows of its record.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import HeadwaterError
from ..records.arrays import Int8s, Int64s, cast_to, to_numpy
from ..records.types import Kind, parse_columns
from .execution.rows import Rows, after_old, conform, path_order, physical_columns, taken
from .operators.operator import Flow

META = (("_kind", pa.int8()), ("_ts", pa.int64()), ("_order", pa.int64()), ("_meta", pa.string()))
"""The first columns of every batch. `_meta`: the payload of a control row, otherwise headers and state, see `_pack`."""

NUMBER = "@@number"
"""A fifth meta column (bigint) of a numbered pipe: the number of the row's record, see `numbering.py`."""

_SHOWN = 40
"""The most bytes of an invalid text that an error shows."""

BATCH_ROWS = 32_768
"""The most rows of a batch that is sent to Spark SQL."""


class TextError(HeadwaterError):
    """An expression returned a text that is not UTF-8. `column`: its column. `value`: its bytes."""

    def __init__(self, column: str, value: bytes) -> None:
        shown = value[:_SHOWN].hex() + ("…" if len(value) > _SHOWN else "")
        super().__init__(f"the text in {column!r} is not UTF-8: its bytes are {shown}")
        self.column = column
        self.value = value


def pipe_schema(flows: Mapping[str, Flow], numbered: bool = False) -> pa.Schema:
    """The columns of a pipe with these edges."""
    data = {name: physical_columns(flow) for name, flow in flows.items()}
    if len(data) == 1:
        fields = list(next(iter(data.values())).items())
    else:
        fields = [(f"@{name}", pa.struct(list(columns.items()))) for name, columns in data.items()]
    return pa.schema([*META, *([(NUMBER, pa.int64())] if numbered else []), *fields])


def send(
    edges: Mapping[str, Rows], flows: Mapping[str, Flow], end: str, now: int, numbers: Int64s | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches with a task's rows on the edges `flows`, in path order, then the control row with payload `end`.

    `now`: the epoch's planned time in ms, for edges with `_now`. `numbers`: the record numbers of a numbered pipe, by
    the first level of the rows' path.

    Example: edges a (x int) and b (y int), both with the key k. Edge a has rows with the paths 0 and 2, b has path 1.

        _kind  _ts  _order  _meta   @a                     @b
        1      0    0       None    {"k": "k", "x": 1}     None
        1      1    1       None    None                   {"k": "k", "y": 3}
        1      2    2       None    {"k": "k", "x": 2}     None
        -1     0    0       "end"   None                   None
    """
    schema = pipe_schema(flows, numbers is not None)
    parts = [conform(edges[name], flow, now) for name, flow in flows.items()]
    numbered = [] if numbers is None else [pa.concat_arrays([pa.array(numbers[part.path[0]]) for part in parts])]
    if len(parts) == 1:
        data = schema.names[len(META) + len(numbered) :]
        columns = [*_meta(parts[0]), *numbered, *(parts[0].columns[name] for name in data)]
    else:
        order = pa.array(path_order(parts))
        tagged = _tagged(parts, schema)
        columns = [column.take(order) for column in [*_concat_meta(parts), *numbered, *tagged]]
    if any(map(len, parts)):
        yield from pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)
    yield _end(schema, end)


def send_end(flows: Mapping[str, Flow], end: str, numbered: bool = False) -> pa.RecordBatch:
    """The control row with payload `end`, for a task without rows."""
    return _end(pipe_schema(flows, numbered), end)


def _end(schema: pa.Schema, end: str) -> pa.RecordBatch:
    control = {"_kind": [int(Kind.CONTROL)], "_ts": [0], "_order": [0], "_meta": [end]}
    return pa.RecordBatch.from_pydict({name: control.get(name, [None]) for name in schema.names}, schema=schema)


def _meta(rows: Rows) -> list[pa.Array]:
    return [
        pa.array(rows.kind),
        pa.array(rows.timestamp),
        pa.array(rows.order),
        _pack(rows.headers, rows.state, len(rows)),
    ]


def _pack(headers: pa.Array | None, state: pa.Array | None, rows: int) -> pa.Array:
    r"""Headers (JSON on one line) and, after a newline, the state in base64. So state needs no column in SQL.

    Example: headers ['{"a":"b"}', None] and state [b"\x01", None] give ['{"a":"b"}\nAQ==', None].
    """
    if headers is None:
        headers = pa.nulls(rows, pa.string())
    if state is None:
        return headers
    packed = [
        text if hidden is None else f"{text or ''}\n{b64encode(hidden).decode()}"
        for text, hidden in zip(headers.to_pylist(), state.to_pylist(), strict=True)
    ]
    return pa.array(packed, pa.string())


def _unpack(meta: pa.Array) -> tuple[pa.Array | None, pa.Array | None]:
    if meta.null_count == len(meta):
        return None, None
    if not pc.any(pc.match_substring(meta, "\n")).as_py():
        return meta, None
    parts = [("", None, None) if text is None else text.partition("\n") for text in meta.to_pylist()]
    headers = pa.array([text or None for text, _, _ in parts], pa.string())
    state = pa.array([b64decode(hidden) if hidden else None for _, _, hidden in parts], pa.binary())
    return None if headers.null_count == len(headers) else headers, state


def _concat_meta(parts: Sequence[Rows]) -> list[pa.Array]:
    return [pa.concat_arrays(columns) for columns in zip(*map(_meta, parts), strict=True)]


def _tagged(parts: Sequence[Rows], schema: pa.Schema) -> list[pa.Array]:
    """A struct column for each part, null except in the part's own rows. The rows are those of all parts in turn.

    Example: the first part has two rows, the second one.

        @a   [{"k": "k", "x": 1}, {"k": "k", "x": 2}, None]
        @b   [None, None, {"k": "k", "y": 3}]
    """
    columns = []
    fields = [field for field in schema if pa.types.is_struct(field.type)]
    for mine, field in enumerate(fields):
        runs = [pa.nulls(len(part), field.type) for part in parts]
        arrays = [parts[mine].columns[child.name] for child in field.type]
        runs[mine] = pa.StructArray.from_arrays(arrays, fields=list(field.type))
        columns.append(pa.concat_arrays(runs))
    return columns


@dataclass(frozen=True)
class Arrived:
    """One task's rows by edge, and the payload of its control row.

    A numbered pipe also has `numbers`, the record numbers by the first level of the rows' path, and `failed`, the
    numbers of the records that an SQL step could not process. Rows of failed records are not in `edges`.
    """

    edges: dict[str, Rows]
    end: str
    numbers: Int64s | None = None
    failed: tuple[int, ...] = ()


def receive(batches: Iterable[pa.RecordBatch], flows: Mapping[str, Flow], numbered: bool = False) -> Iterator[Arrived]:
    """The tasks one by one, as soon as their control rows arrive.

    Example: one edge of a numbered pipe. The rows with the column x = 1, 2, 3, null, 3 have these kinds and numbers.

        _kind      [1, 1, 1, FAILED, 1, CONTROL]
        @@number   [0, 1, 1, 1, 2, null]
        failed     (1,)          record 1 failed, so its three rows are removed
        x          [1, 3]
        path       [1, 2]        the first level of the remaining rows
        numbers    [0, 0, 2]     by the first level; index 0 is for rows of punctuations before the first row
    """
    schema = pipe_schema(flows, numbered)
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        start = 0
        for end in np.flatnonzero(to_numpy(batch.column(0)) == Kind.CONTROL).tolist():
            pending.append(batch.slice(start, end - start))
            yield _arrived(pending, flows, schema, batch.column(3)[end].as_py())
            pending, start = [], end + 1
        if start < len(batch):
            pending.append(batch.slice(start))


def _arrived(batches: list[pa.RecordBatch], flows: Mapping[str, Flow], schema: pa.Schema, end: str) -> Arrived:
    columns = {
        field.name: cast_to(pa.concat_arrays([batch.column(number) for batch in batches]), field.type)
        for number, field in enumerate(schema)
    }
    if NUMBER not in columns:
        return Arrived(_edges(columns, flows), end)
    numbers = to_numpy(columns.pop(NUMBER))
    failed = np.unique(numbers[to_numpy(columns["_kind"]) == Kind.FAILED])
    if len(failed):
        # All rows of a failed record are removed, including those from other steps.
        kept = np.flatnonzero(~np.isin(numbers, failed))
        numbers = numbers[kept]
        columns = taken(columns, kept)
    first = ~after_old(_kinds(columns))
    # Rows that punctuations forward before the first row have the path 0, and no record.
    return Arrived(_edges(columns, flows), end, np.concatenate([[0], numbers[first]]), tuple(failed.tolist()))


def _kinds(columns: Mapping[str, pa.Array]) -> Int8s:
    return to_numpy(columns["_kind"]).astype(np.int8, copy=False)


def _edges(columns: Mapping[str, pa.Array], flows: Mapping[str, Flow]) -> dict[str, Rows]:
    for name, column in columns.items():
        _check_text(column, name)
    _, timestamp, order, meta, *data = columns.values()
    kinds = _kinds(columns)
    path: Int64s = np.cumsum(~after_old(kinds))
    headers, state = _unpack(meta)
    whole = Rows((path,), kinds, to_numpy(timestamp), to_numpy(order), headers, state=state)
    if len(flows) == 1:
        ((name, flow),) = flows.items()
        return {name: _with_flow(whole, data, flow)}
    edges = {}
    for column, (name, flow) in zip(data, flows.items(), strict=True):
        index = np.flatnonzero(to_numpy(column.is_valid()))
        edges[name] = _with_flow(whole.take(index), column.take(pa.array(index)).flatten(), flow)
    return edges


def _check_text(column: pa.Array, name: str) -> None:
    """Raise TextError for a text from Spark SQL that is not UTF-8: no reader of a topic could decode it.

    This takes 30 ms for a million texts.
    """
    try:
        column.validate(full=True)
        return
    except pa.ArrowInvalid as error:
        invalid = error
    if pa.types.is_struct(column.type):
        for field, child in zip(column.type, column.flatten(), strict=True):
            _check_text(child, field.name)
    elif pa.types.is_list(column.type):
        _check_text(column.flatten(), name)
    elif pa.types.is_map(column.type):
        _check_text(column.keys, name)
        _check_text(column.items, name)
    else:
        found = next(filter(_is_no_text, column.cast(pa.binary()).to_pylist()), None)
        raise invalid if found is None else TextError(name, found)


def _is_no_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _with_flow(rows: Rows, columns: Sequence[pa.Array], flow: Flow) -> Rows:
    keys = list(parse_columns(flow.key))
    values = list(parse_columns(flow.value))
    return rows.with_columns(
        dict(zip(keys, columns[: len(keys)], strict=True)), dict(zip(values, columns[len(keys) :], strict=True))
    )
