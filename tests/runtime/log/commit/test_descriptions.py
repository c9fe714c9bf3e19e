"""What a generation record says of an application, and that logs of earlier versions are read."""

from __future__ import annotations

import json

from headwater.runtime.dataclass_json import from_plain, to_json
from headwater.runtime.ir.topology import Agg, GlobalTable, Store
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.commit.descriptions import (
    AggregateDescription,
    ExternalTopic,
    StoreDescription,
    SubtopologyDescription,
    TopologyDescription,
    UsedTopic,
)
from headwater.tests.runtime.driver.commits import part, topic, topology

RAW = topic("raw")
CLEAN = topic("clean", writer="p-cleaning")
TOTALS = Store(
    "totals",
    2,
    "k string",
    "v bigint",
    type="window",
    window=Window(10, 5, 1),
    aggregates=(Agg("v", "sum", "x", "double"),),
    changelog=False,
)


def test_description_of_an_application_says_as_json_who_reads_and_writes_what() -> None:
    found = TopologyDescription.from_topology(
        topology("t", part("reads", (RAW,), (CLEAN,), (TOTALS,))), {"raw": 3}, "cafe"
    )

    plain = json.loads(to_json(found))
    assert from_plain(TopologyDescription, plain) == found
    assert (plain["name"], plain["incarnation"]) == ("t", "cafe")
    assert plain["subtopologies"] == {
        "reads": {"partitions": 2, "sources": ["raw"], "sinks": ["clean"], "stores": ["totals"]}
    }
    shape = {"partitions": 2, "key": "k string", "value": "v bigint", "windowed": False}
    assert plain["topics"] == {
        "raw": {**shape, "writer": None, "global": False, "since": 3},
        "clean": {**shape, "writer": "p-cleaning", "global": False, "since": None},
    }
    assert plain["stores"]["totals"] == {
        "partitions": 2,
        "type": "window",
        "key": "k string",
        "value": "v bigint",
        "aggregates": [["v", "sum", "double", []]],
        "shown": ["v: sum(x)"],
        "window": [10, 5],
        "changelog": False,
        "settings": {"backend": "lmdb", "grace": "1ms", "retention": "11ms"},
    }


def test_topic_of_a_global_table_is_among_those_read() -> None:
    table = GlobalTable("names", topic("raw_names"), Store("names", 2, "k string", "v bigint"))
    found = TopologyDescription.from_topology(topology("t", part("reads", (RAW,), (CLEAN,), tables=(table,))))
    assert found.subtopologies["reads"].sources == ("raw",)
    assert {name: each.global_ for name, each in found.topics.items()} == {
        "raw": False,
        "clean": False,
        "raw_names": True,
    }


def test_fields_that_an_older_log_lacks_have_defaults() -> None:
    plain = {
        "subtopologies": {"reads": {"partitions": 2, "sources": ["raw"], "sinks": []}},
        "topics": {"raw": {"partitions": 2, "key": "k string", "value": "v int"}},
        "stores": {
            "n": {"partitions": 2, "type": "key_value", "key": "k", "value": "v", "aggregates": [["n", "count"]]}
        },
    }
    assert from_plain(TopologyDescription, plain) == TopologyDescription(
        subtopologies={"reads": SubtopologyDescription(2, ("raw",), ())},
        topics={"raw": UsedTopic(partitions=2, key="k string", value="v int")},
        stores={"n": StoreDescription(2, "key_value", "k", "v", (AggregateDescription("n", "count"),))},
    )


def test_changes_of_a_topic_are_told_by_field() -> None:
    declared = ExternalTopic(name="raw", partitions=3, key="k string", value="v bigint", since=7)
    assert declared.changes(RAW) == ({"partitions": 3}, {"partitions": 2})
    assert ExternalTopic.from_topic(RAW).changes(RAW) == ({}, {})
