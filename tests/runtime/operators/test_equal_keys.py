"""Keys that are equal look the same wherever they come out, whatever they were made of and wherever epochs end."""

from __future__ import annotations

import pytest

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.stateless import KeyBy, Select
from headwater.runtime.engine.operators.tables import Table
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Store, Topic
from headwater.tests.runtime.local.local_application import part

APP = "test-app"
COLUMNS = "k double, l array<float>, s struct<x:double>"
FACTS = Topic("facts", 1, COLUMNS, "v double")
BY_V = Topic("by_v", 1, "v double", "", writer=APP)
COUNTS = Topic("counts", 1, COLUMNS, "n bigint", writer=APP)
NUMBERS = Store("numbers", 1, COLUMNS, "n bigint", aggregates=(Agg("n", "count"),))
ROWS = Store("rows", 1, COLUMNS, "v double")
COPIES = Topic("copies", 1, COLUMNS, "v double", writer=APP)


def as_text(key):
    return repr([key["key.k"], key["key.l"], key["key.s"]])


@pytest.mark.parametrize("max_records", [1, 2, 10**9])
def test_zeros_of_either_sign_are_one_key_in_every_topic(application, max_records):
    counting = (
        Source(FACTS, ("f", "t", "r")),
        Aggregate("f", NUMBERS),
        Sink("f", COUNTS, "each_update"),
        Table("t", ROWS),
        Sink("t", COPIES, "each_update"),
        KeyBy("r", {"v": "v"}),
        Select("r"),
        Sink("r", BY_V, "append"),
    )
    app = application(part("counting", 1, ((counting, {}, {}),), (NUMBERS, ROWS)))
    # Written past `append`, as earlier versions did: what is in a log is read as it should have been written.
    zeros = [(-0.0, [-0.0], {"x": 0.0}), (0.0, [0.0], {"x": -0.0}), (-0.0, [0.0], {"x": -0.0})]
    app.append(FACTS, [(key, (-0.0,), number) for number, key in enumerate(zeros)])
    app.run(max_records)
    one = repr([0.0, [0.0], {"x": 0.0}])
    for topic in (COUNTS, COPIES):
        found = app.read(topic)
        assert len(found) == 3
        assert {as_text(record) for record in found} == {one}
    assert [record["value.n"] for record in app.read(COUNTS)] == [1, 2, 3]
    assert {repr(record["value.v"]) for record in app.read(COPIES)} == {"-0.0"}
    assert {repr(record["key.v"]) for record in app.read(BY_V)} == {"0.0"}
