"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Fork,
    JoinWindow,
    KeyBy,
    Pipe,
    Sink,
    Source,
    Store,
    StreamJoin,
    Topic,
    Topology,
    parse_duration,
    subtopology,
)

FILE = "topologies/site.yml"

REFUNDS = Topic(
    "refunds",
    partitions=4,
    key="refund string",
    value="order_id string, refunded bigint",
)
BY_ORDER_REPARTITION = Topic(
    "site-site-by_order-repartition",
    partitions=2,
    key="order_id string",
    value="order_id string, refunded bigint",
    writer="site-site",
)
ORDERS = Topic("orders", partitions=2, key="id string", value="amount bigint, status string")
PAYMENTS = Topic(
    "payments",
    partitions=2,
    key="order_id string",
    value="paid bigint, status string",
)
PAID_TWICE = Topic(
    "paid_twice",
    partitions=2,
    key="order_id string",
    value="paid bigint, status string, again bigint",
    writer="site-site",
)
PAID_ORDERS = Topic(
    "paid_orders",
    partitions=2,
    key="id string",
    value="amount bigint, status string, paid bigint, missing bigint",
    writer="site-site",
)
REFUNDED_ORDERS = Topic(
    "refunded_orders",
    partitions=2,
    key="id string",
    value="amount bigint, status string, paid bigint, missing bigint, refunded bigint",
    writer="site-site",
)

ORDERS_SEEN = Store(
    "orders_seen",
    partitions=2,
    key="id string",
    value="amount bigint, status string",
    type="window",
    window=JoinWindow.of("5s", "10s", grace="5s"),
)
PAYMENTS_SEEN = Store(
    "payments_seen",
    partitions=2,
    key="order_id string",
    value="paid bigint, status string",
    type="window",
    window=JoinWindow.of("5s", "10s", grace="5s"),
    retention_ms=parse_duration("2m"),
)
ORDERS_SEEN_UNMATCHED = Store(
    "orders_seen_unmatched",
    partitions=2,
    key="of_this boolean, record_time timestamp, id string, record_number bigint",
    value="amount bigint, status string, `payments.paid` bigint, `payments.status` string",
)
TWICE_THIS = Store(
    "twice_this",
    partitions=2,
    key="order_id string",
    value="paid bigint, status string",
    type="window",
    window=JoinWindow.of("1m", "1m", grace="0s"),
)
TWICE_OTHER = Store(
    "twice_other",
    partitions=2,
    key="order_id string",
    value="paid bigint, status string",
    type="window",
    window=JoinWindow.of("1m", "1m", grace="0s"),
)
REFUNDED_THIS = Store(
    "refunded_this",
    partitions=2,
    key="id string",
    value="amount bigint, status string, paid bigint, missing bigint",
    type="window",
    window=JoinWindow.of("1h", "1h", grace="0s"),
)
REFUNDED_OTHER = Store(
    "refunded_other",
    partitions=2,
    key="order_id string",
    value="order_id string, refunded bigint",
    type="window",
    window=JoinWindow.of("1h", "1h", grace="0s"),
)
REFUNDED_THIS_UNMATCHED = Store(
    "refunded_this_unmatched",
    partitions=2,
    key="of_this boolean, record_time timestamp, id string, record_number bigint",
    value="amount bigint, status string, paid bigint, missing bigint",
)


@subtopology(0, "by_order", file=FILE)
def by_order(rows: Pipe) -> Pipe:
    """4 tasks: refunds -> site-site-by_order-repartition."""
    return rows.process(
        Source(REFUNDS, "by_order", at=23),
        KeyBy("by_order", {"order_id": "order_id"}, at=26),
        Sink("by_order", BY_ORDER_REPARTITION, mode="repartition", keep_null_keys=True, at=30),
    )


@subtopology(1, "paid", file=FILE)
def paid(rows: Pipe) -> Pipe:
    """2 tasks: orders, payments, site-site-by_order-repartition -> paid_twice, paid_orders,
    refunded_orders.

    Stores: orders_seen, payments_seen, orders_seen_unmatched, twice_this, twice_other,
    refunded_this, refunded_other, refunded_this_unmatched.
    """
    rows = rows.process(
        Source(ORDERS, "paid", at=10),
        Source(PAYMENTS, ("paid.payments", "twice", "twice.payments"), at=13),
        StreamJoin(
            "paid",
            "paid.payments",
            ORDERS_SEEN,
            PAYMENTS_SEEN,
            how="outer",
            values={"paid": "paid", "payments.paid": "paid"},
            unmatched=ORDERS_SEEN_UNMATCHED,
            at=13,
        ),
        Source(BY_ORDER_REPARTITION, "refunded.by_order", at=30),
        StreamJoin(
            "twice",
            "twice.payments",
            TWICE_THIS,
            TWICE_OTHER,
            how="inner",
            values={"again": "paid"},
            at=39,
        ),
        Sink("twice", PAID_TWICE, at=43),
    )
    rows = rows.select(
        "paid",
        {"missing bigint": "amount - coalesce(`payments.paid`, 0)"},
        keep=("amount", "status", "paid"),
        at=13,
    )
    return rows.process(
        Fork("paid", into=("paid", "refunded"), at=10),
        Sink("paid", PAID_ORDERS, at=22),
        StreamJoin(
            "refunded",
            "refunded.by_order",
            REFUNDED_THIS,
            REFUNDED_OTHER,
            how="left",
            values={"refunded": "refunded"},
            unmatched=REFUNDED_THIS_UNMATCHED,
            at=30,
        ),
        Sink("refunded", REFUNDED_ORDERS, at=35),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="6ad556172b14b0fa013177c99f31d65e2ece82687edd30b90be3fd85631ea7ef",
    subtopologies=(by_order, paid),
)
