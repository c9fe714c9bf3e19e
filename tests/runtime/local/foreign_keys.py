"""An application that joins a table with another one by a foreign key."""

from __future__ import annotations

import pyarrow as pa
from local_application import APPLICATION, part

from headwater.runtime import (
    Answer,
    ForeignKeyJoin,
    Fork,
    Settle,
    Sink,
    Source,
    Store,
    Subscribe,
    Table,
    Topic,
)
from headwater.runtime.records.keys.encoding import encode_keys, partition_of
from headwater.runtime.records.schema import key_columns

LEFT, RIGHT = 3, 2
ORDERS = Topic("orders", LEFT, "o bigint", "c string, n bigint")
CUSTOMERS = Topic("customers", RIGHT, "c string", "name string")
ASKED = Topic(
    "app-asked",
    RIGHT,
    "c string",
    "o bigint, _hash binary, _subscribe boolean, _answer boolean",
    writer=APPLICATION,
)
ANSWERS = Topic("app-answers", LEFT, "o bigint", "_hash binary, _found boolean, name string", writer=APPLICATION)
OUT = Topic("out", LEFT, "o bigint", "c string, n bigint, name string", writer=APPLICATION)
ROWS = Store("orders", LEFT, "o bigint", "c string, n bigint")
NAMES = Store("customers", RIGHT, "c string", "name string")
SUBSCRIPTIONS = Store("asked", RIGHT, "c string, o bigint", "_hash binary")
JOINED = Store("joined", LEFT, "o bigint", OUT.value)


def parts(how):
    """Orders, joined with the customers that they name: the side of orders and that of customers."""
    left = (
        Source(ORDERS, "f"),
        Source(ANSWERS, "f.answers"),
        Table("f", ROWS, old=True, at="orders"),
        Fork("f", ("f.rows", "f.asked")),
        Subscribe("f.asked", ROWS, how, {"c": "c"}, at="join"),
        Sink("f.asked", ASKED, "repartition", keep_null_keys=True, at="join"),
        ForeignKeyJoin("f.answers", "f.rows", ROWS, how, "f", at="join"),
        Table("f", JOINED, old=True),
        Settle("f"),
        Sink("f", OUT, "each_update"),
    )
    right = (
        Source(CUSTOMERS, "c"),
        Source(ASKED, "f.asked"),
        Table("c", NAMES, at="customers"),
        Answer("f.asked", "c", SUBSCRIPTIONS, NAMES, ("o",), {"name": "name"}, at="join"),
        Sink("f.asked", ANSWERS, "repartition", at="join"),
    )
    return (
        part("left", LEFT, ((left, {}, {}),), (ROWS, JOINED)),
        part("right", RIGHT, ((right, {}, {}),), (NAMES, SUBSCRIPTIONS)),
    )


def feed(app, topic, records):
    """Append (key, value, timestamp), each to the partition of its key."""
    kind = next(iter(key_columns(topic).values()))
    placed = partition_of(encode_keys([pa.array([key[0] for key, _, _ in records], kind)]), topic.partitions)
    for partition in range(topic.partitions):
        app.append(topic, [each for each, of in zip(records, placed, strict=True) if of == partition], partition)
