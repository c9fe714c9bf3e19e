"""Topology sales of project shop 1.0.

Orders by hour.

Made by `headwater compile` from topologies/sales.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    KeyBy,
    Pipe,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Window,
    subtopology,
)

FILE = "topologies/sales.yml"

ORDERS = Topic(
    "orders",
    partitions=4,
    key="customer string",
    value="product string, quantity int, ordered timestamp",
    writer="shop-kafka",
    on_error="dead_letter",
    timestamp="ordered",
)
SALES_ORDERS_DEAD_LETTER = Topic(
    "sales_orders_dead_letter",
    partitions=4,
    key="",
    value=(
        "topic string, partition int, offset bigint, timestamp timestamp, key string, "
        "value string, headers string, step string, error string"
    ),
    writer="shop-sales",
)
HOURLY_REPARTITION = Topic(
    "shop-sales-hourly-repartition",
    partitions=4,
    key="product string",
    value="",
    writer="shop-sales",
    on_error="dead_letter",
)
SALES_HOURLY_REPARTITION_DEAD_LETTER = Topic(
    "sales_hourly-repartition_dead_letter",
    partitions=4,
    key="",
    value=(
        "topic string, partition int, offset bigint, timestamp timestamp, key string, "
        "value string, headers string, step string, error string"
    ),
    writer="shop-sales",
)
HOURLY_ORDERS = Topic(
    "hourly_orders",
    partitions=4,
    key="product string",
    value="orders bigint",
    windowed=True,
    writer="shop-sales",
    cleanup="compact",
    on_error="dead_letter",
    readers=("shop-kafka-out",),
)
KAFKA_ORDERS_DEAD_LETTER = Topic(
    "kafka_orders_dead_letter",
    partitions=4,
    key="",
    value=(
        "topic string, partition int, offset bigint, timestamp timestamp, key string, "
        "value string, headers string, step string, error string"
    ),
    writer="shop-kafka",
)
FAILED_ORDERS = Topic(
    "failed_orders",
    partitions=4,
    key="",
    value=(
        "topic string, partition int, offset bigint, timestamp timestamp, key string, "
        "value string, headers string, step string, error string"
    ),
    writer="shop-sales",
)

HOURLY = Store(
    "hourly",
    partitions=4,
    key="product string",
    value="orders bigint",
    type="window",
    window=Window.tumbling("1h", grace="10m"),
    aggregates=(Agg("orders", "count"),),
)


@subtopology(0, "hourly", file=FILE)
def hourly(rows: Pipe) -> Pipe:
    """4 tasks: orders -> shop-sales-hourly-repartition, sales_orders_dead_letter."""
    return rows.process(
        Source(ORDERS, "hourly", columns=("product",), dead_letter=SALES_ORDERS_DEAD_LETTER, at=5),
        KeyBy("hourly", {"product": "product"}, at=8),
        Sink("hourly", HOURLY_REPARTITION, mode="repartition", at=10),
    )


@subtopology(1, "hourly_rekeyed", file=FILE)
def hourly_rekeyed(rows: Pipe) -> Pipe:
    """4 tasks: shop-sales-hourly-repartition -> hourly_orders,
    sales_hourly-repartition_dead_letter.

    Stores: hourly.
    """
    return rows.process(
        Source(
            HOURLY_REPARTITION,
            "hourly",
            dead_letter=SALES_HOURLY_REPARTITION_DEAD_LETTER,
            at=10,
        ),
        Aggregate("hourly", HOURLY, emit="per_epoch", at=10),
        Sink("hourly", HOURLY_ORDERS, mode="per_epoch", at=11),
    )


@subtopology(2, "failed", file=FILE)
def failed(rows: Pipe) -> Pipe:
    """4 tasks: kafka_orders_dead_letter -> failed_orders."""
    rows = rows.process(Source(KAFKA_ORDERS_DEAD_LETTER, "failed", at=12))
    rows = rows.where("failed", "step is not null", at=15)
    return rows.process(Sink("failed", FAILED_ORDERS, at=16))


TOPOLOGY = Topology(
    project="shop",
    name="sales",
    version="1.0",
    content_hash="124ed5779fad688bf0577e566bf3aed5594770dcc5e3bdd1e71ec25d2f43924e",
    subtopologies=(hourly, hourly_rekeyed, failed),
)
