"""An application that joins a table with another one by a foreign key."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headwater.runtime import (
    Agg,
    Aggregate,
    Answer,
    ForeignKeyJoin,
    Forget,
    Fork,
    Settle,
    Sink,
    Source,
    Store,
    Subscribe,
    Table,
    Topic,
    Window,
)
from headwater.runtime.records.keys import encode_keys, partition_of
from headwater.runtime.records.schema import key_columns
from headwater.tests.runtime.local.local_application import APPLICATION, part

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


WINDOWED_ORDERS = Store(
    "orders",
    LEFT,
    "o bigint",
    "c string, n bigint",
    type="window",
    window=Window(10, 10, 5),
    aggregates=(Agg("c", "last", "c", of="string", type="string"), Agg("n", "count")),
)
_KEY = "o bigint, window_start timestamp, window_end timestamp"
ASKED_BY_WINDOWS = replace(ASKED, value=f"{_KEY}, _hash binary, _subscribe boolean, _answer boolean")
ANSWERS_TO_WINDOWS, WINDOWED_OUT = (replace(topic, windowed=True) for topic in (ANSWERS, OUT))
ASKING_WINDOWS = replace(SUBSCRIPTIONS, key=f"c string, {_KEY}")
EXPIRED = Store("expired", LEFT, _KEY, WINDOWED_ORDERS.value)
JOINED_WINDOWS = replace(JOINED, key=_KEY)


def parts_in_windows(how):
    """The last customer of an order in each window, joined with the customers."""
    by = {"c": "c"}
    left = (
        Source(ORDERS, "f"),
        Source(ANSWERS_TO_WINDOWS, "f.answers"),
        Aggregate("f", WINDOWED_ORDERS, old=True),
        Fork("f", ("f.rows", "f.asked")),
        Subscribe("f.asked", WINDOWED_ORDERS, how, by, EXPIRED, at="join"),
        Sink("f.asked", ASKED_BY_WINDOWS, "repartition", keep_null_keys=True, at="join"),
        ForeignKeyJoin(
            "f.answers",
            "f.rows",
            WINDOWED_ORDERS,
            how,
            "f",
            asks_by=by,
            expired=EXPIRED,
            ended="f.last_answers",
            at="join",
        ),
        Table("f", JOINED_WINDOWS, old=True),
        Forget("f.last_answers", JOINED_WINDOWS),
        Settle("f"),
        Sink("f", WINDOWED_OUT, "each_update"),
    )
    right = (
        Source(CUSTOMERS, "c"),
        Source(ASKED_BY_WINDOWS, "f.asked"),
        Table("c", NAMES, at="customers"),
        Answer("f.asked", "c", ASKING_WINDOWS, NAMES, ("o", "window_start", "window_end"), {"name": "name"}, at="join"),
        Sink("f.asked", ANSWERS_TO_WINDOWS, "repartition", at="join"),
    )
    return (
        part("left", LEFT, ((left, {}, {}),), (WINDOWED_ORDERS, EXPIRED, JOINED_WINDOWS)),
        part("right", RIGHT, ((right, {}, {}),), (NAMES, ASKING_WINDOWS)),
    )


def feed(app, topic, records):
    """Append (key, value, timestamp), each to the partition of its key."""
    kind = next(iter(key_columns(topic).values()))
    placed = partition_of(encode_keys([pa.array([key[0] for key, _, _ in records], kind)]), topic.partitions)
    for partition in range(topic.partitions):
        app.append(topic, [each for each, of in zip(records, placed, strict=True) if of == partition], partition)
