"""What is measured beside the peer: our topologies. `sides/spark_queries.py` has the same as queries of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .sizes import Size

SUMMED = {"n": "count(*)", "total": "sum(v)"}
_COUNT = {"n": "count(*)"}


@dataclass(frozen=True)
class Workload:
    """`title`: what an epoch does. `target`: how many times as fast as the peer it is wanted to be. `kind`: of records,
    see `inputs.py`. `flows`: beside the measured one. `epochs`: how often a record is taken, as itself or as what is
    made of it, one subtopology behind the other. `compared`: what the ratio does not say by itself. `behind`: how many
    epochs later the peer gives its results. `fewer`, `fewer_keys`: an epoch has so many times fewer records, and keys,
    than others.
    """

    name: str
    title: str
    target: float
    steps: tuple[Mapping[str, Any], ...]
    kind: str = "typed"
    tables: Mapping[str, Any] = field(default_factory=dict)
    stores: Mapping[str, Any] = field(default_factory=dict)
    flows: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = 1
    compared: str = ""
    behind: int = 0
    fewer: int = 1
    fewer_keys: int = 1

    def sized(self, size: Size) -> Size:
        """The size of its epochs, where others have `size`."""
        return replace(size, records=size.records // self.fewer, keys=size.keys // self.fewer_keys)


def _summed(**more: Any) -> Mapping[str, Any]:
    return {"aggregate": {"values": SUMMED, **more}}


def _counted_in(**window: str) -> tuple[Mapping[str, Any], ...]:
    return {"window": window}, {"aggregate": {"values": _COUNT}}


def _processed(kind: str) -> Mapping[str, Any]:
    return {"process": {"function": f"functions.counting:{kind}", "stores": ["counts"], "value": {"n": "bigint"}}}


_NAMES = {"names": {"topic": "names_by_key"}}
_COUNTS = {"counts": {"type": "key_value", "key": {"k": "string"}, "value": {"n": "bigint"}}}

_ALL = (
    Workload("keyed_count", "count and sum by key", 4, (_summed(),)),
    Workload(
        "filtered_count",
        "the same behind a filter and a projection",
        3,
        ({"filter": "v >= 10"}, {"with_columns": {"v": "v * 2 + 1"}}, _summed()),
    ),
    Workload(
        "sum_double",
        "count, and sum of doubles, by key",
        3,
        ({"aggregate": {"values": {"n": "count(*)", "total": "sum(d)"}}},),
        kind="double",
        compared="Headwater adds the numbers of a key in the order of its records, so that a sum has the same bits "
        "every time; Spark in any order.",
    ),
    Workload(
        "each_update",
        "count and sum by key, with each update written",
        1.5,
        (_summed(emit="each_update"),),
        compared="Headwater writes a row for each record, a million an epoch; Spark one for each key of the batch, "
        "100,000: it has no such mode.",
    ),
    Workload(
        "window_count",
        "count by key and hour, ten minutes' grace",
        3,
        _counted_in(tumbling="1h", grace="10m"),
        compared="Spark's watermark of ten minutes advances from batch to batch, Headwater's stream time from record "
        "to record.",
    ),
    Workload(
        "hopping_count",
        "count by key in four windows a record, ten minutes' grace",
        2,
        _counted_in(hopping="1h", advance="15m", grace="10m"),
        compared="As for `window_count`.",
    ),
    Workload(
        "suppress_count",
        "count by key and quarter of an hour, given once when the window is closed",
        2,
        (*_counted_in(tumbling="15m", grace="10m"), {"suppress": {"until": "window_closes"}}),
        compared="Each epoch closes the window of the one before, and gives 100,000 rows. Headwater keeps them twice "
        "until then, in the table of counts and in the buffer of `suppress`; Spark once, in append mode. Its watermark "
        "advances from batch to batch, so that it gives a window one batch later.",
        behind=1,
    ),
    Workload(
        "session_count",
        "count by key and session, given once when the session is closed",
        2,
        ({"window": {"session": "59999ms", "grace": "5m"}}, {"aggregate": {"values": _COUNT, "emit": "on_close"}}),
        kind="visits",
        compared="Each epoch's records come within the first five minutes of a quarter of an hour, ten of a key, so "
        "that each epoch closes the sessions of the one before. Spark's is `session_window`, which has append mode "
        "only. A session of Spark's ends before a minute is over, one of Headwater's with its gap: hence the odd one.",
        behind=1,
    ),
    Workload(
        "sliding_count",
        "count by key in all windows of a minute that a record is in, ten minutes' grace",
        2,
        _counted_in(sliding="1m", grace="10m"),
        compared="5,000 records an epoch. Spark has no such windows: its side is `transformWithStateInPandas` with "
        "a processor written for it, which keeps the times of a key's last minute, counts with NumPy, and expects no "
        "late records. Headwater takes those, too.",
        fewer=200,
        fewer_keys=200,
    ),
    Workload(
        "table_join",
        "join with a table of 100,000 rows",
        3,
        ({"join": {"table": "names", "values": {"name": "names.name"}}},),
        tables=_NAMES,
        compared="Headwater looks rows up in a durable table that changes as its topic does. Spark joins a data frame "
        "that never changes and that it holds in memory (cached, and broadcast): a join of a stream with a table that "
        "changes is not among its joins.",
    ),
    Workload(
        "stream_join",
        "join of two streams, records that are at most ten minutes apart: 50,000 records, 8,300 pairs an epoch",
        2,
        (
            {"filter": "v % 2 = 0"},
            {"join": {"stream": "odd", "within": "10m", "grace": "10m", "values": {"w": "odd.v"}}},
        ),
        flows={"odd": {"from": "records", "steps": [{"filter": "v % 2 = 1"}]}},
        compared="An inner join. Both streams are of one topic, which a filter divides: Spark reads its files once for "
        "each. It keeps records as long as Headwater does, by a watermark of ten minutes, which advances from batch to "
        "batch.",
        fewer=20,
    ),
    Workload(
        "process_rows",
        "count by key in Python, one record after another, with each update written",
        1,
        (_processed("Rows"),),
        stores=_COUNTS,
        compared="5,000 records an epoch, as the peer takes long. Spark's is `transformWithState`, whose processor "
        "gets the rows of one key after the other.",
        fewer=200,
        fewer_keys=200,
    ),
    Workload(
        "process_batch",
        "count by key in Python, an epoch's records at once",
        2,
        (_processed("Batches"),),
        stores=_COUNTS,
        compared="5,000 records an epoch, as the peer takes long. Spark's is `transformWithStateInPandas`, whose "
        "processor gets a data frame for each key.",
        fewer=200,
        fewer_keys=200,
    ),
    Workload(
        "rekey_count",
        "count and sum by another key",
        1.5,
        ({"key_by": {"other": "other"}}, _summed()),
        kind="keyed",
        epochs=2,
        compared="Headwater writes the records to a repartition topic, durably, and reads them again in a second "
        "epoch; from the start of the one to the commit of the other. Spark shuffles, as for each of these counts.",
    ),
    Workload(
        "json_count",
        "count and sum by key of JSON values of 43 bytes",
        3,
        ({"select": {"v": "from_json(value, 'v BIGINT, city STRING').v"}}, _summed()),
        kind="json",
        compared="Both sides get the values as texts, and read one of their three fields with `from_json`.",
    ),
)

WORKLOADS: Mapping[str, Workload] = {each.name: each for each in _ALL}

_ALONE = (
    Workload(
        "table_join_updates",
        "updates of a table of 100,000 rows that is joined with another one, each written",
        0,
        ({"to_table": {"emit": "each_update"}}, {"join": {"table": "names", "values": {"name": "names.name"}}}),
        tables=_NAMES,
        compared="Each of the two tables looks into the other; here one of them changes. Spark has no join of two "
        "tables that change, so there is no peer in it.",
    ),
    Workload(
        "foreign_key_join",
        "updates of a table that is joined with one of 100,000 rows by a foreign key, each written: 200,000 an epoch",
        0,
        (
            {"to_table": {"emit": "each_update"}},
            {"join": {"table": "names", "by": {"k": "other"}, "values": {"name": "names.name"}}},
        ),
        kind="foreign",
        tables=_NAMES,
        epochs=3,
        compared="Each update goes to the other table's partition, durably, and its answer back, so that three epochs "
        "take it; from the start of the first to the commit of the last. Ten rows have one foreign key. Spark has no "
        "such join, so there is no peer in it. The bare loop moves rows the same two ways.",
        fewer=5,
    ),
)

ALONE: Mapping[str, Workload] = {each.name: each for each in _ALONE}
"""What has no peer: beside the bare loop alone."""

SMALL = Workload("small_epoch", "count and sum by key of 1,000 records an epoch", 5, (_summed(),))
