"""Which records can still be left out behind a stage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.node import TaskEpoch
from headwater.runtime.engine.execution.rows import Rows
from headwater.runtime.engine.numbering import Numbering, TouchedRecordError, reject_touched
from headwater.runtime.engine.operators.joins import GlobalJoin
from headwater.runtime.engine.operators.stateless import Fork
from headwater.runtime.engine.operators.topics import Sink
from headwater.runtime.ir.topology import GlobalTable, Store, Topic

OUT = Topic("out", 1, "k string", "v bigint")
NAMES = GlobalTable("names", Topic("names", 1, "k string", "v bigint"), Store("names", 1, "k string", "v bigint"))


class NoRows:
    """A global table without rows."""

    position = 0

    def get_many(self, keys):
        return [None] * len(keys)


def rows(path):
    count = len(path)
    bare = Rows(
        (np.array(path),),
        np.ones(count, np.int8),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        None,
        {},
        (),
        (),
    )
    return bare.with_columns({"k": pa.repeat("a", count)}, {"v": pa.array(range(count))})


def numbers_behind(nodes, edges, numbering):
    epoch = TaskEpoch(0, 0, {}, lambda store: NoRows(), lambda table: NoRows())
    for node in nodes:
        numbering.run(node, edges, epoch)
    return numbering.numbers().tolist()


def test_record_that_a_sink_has_written_is_touched_on_all_edges():
    # The rows 1 and 2 are of the record 7, of which one is written.
    edges = {"f": rows([0, 2]), "g": rows([1])}

    behind = numbers_behind([Sink("g", OUT)], edges, Numbering(np.array([6, 7, 7])))

    assert behind == [6, -8, -8]


def test_record_that_was_touched_before_stays_so():
    behind = numbers_behind([Sink("g", OUT)], {"f": rows([0]), "g": rows([1])}, Numbering(np.array([-1, -3])))

    assert behind == [-1, -3]


@pytest.mark.parametrize(("how", "behind"), [("left", [0, 1]), ("inner", [-1, -2])])
def test_join_touches_the_records_that_it_drops(how, behind):
    join = GlobalJoin("f", NAMES, how, {"k": "k"}, {"w": "v"})

    assert numbers_behind([join], {"f": rows([0, 1])}, Numbering.of_taken(2)) == behind


def test_operator_that_only_moves_rows_touches_none():
    assert numbers_behind([Fork("f", ("g", "h"))], {"f": rows([0, 1])}, Numbering.of_taken(2)) == [0, 1]


def test_row_that_fails_of_a_touched_record_is_refused():
    reject_touched([3, 4])
    with pytest.raises(TouchedRecordError):
        reject_touched([3, -5])
