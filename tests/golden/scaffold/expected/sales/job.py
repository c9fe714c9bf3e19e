"""Topology sales of project shop 1.0.

Orders and revenue of each product, day by day.

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
    parse_duration,
    subtopology,
)

FILE = "topologies/sales.yml"

ORDERS = Topic(
    "orders",
    partitions=2,
    key="order_id bigint",
    value="product string, quantity int, price double, ordered_at timestamp",
    timestamp="ordered_at",
)
SALES_REPARTITION = Topic(
    "shop-sales-sales-repartition",
    partitions=2,
    key="product string",
    value="quantity int, price double",
    writer="shop-sales",
)
DAILY_SALES = Topic(
    "daily_sales",
    partitions=2,
    key="product string",
    value="orders bigint, revenue double",
    windowed=True,
    writer="shop-sales",
)

SALES_BY_DAY = Store(
    "sales_by_day",
    partitions=2,
    key="product string",
    value="orders bigint, revenue double",
    type="window",
    window=Window.tumbling("1d", grace="1h"),
    retention_ms=parse_duration("30d"),
    aggregates=(
        Agg("orders", "count"),
        Agg("revenue", "sum", "quantity * price", of="double", type="double"),
    ),
)


@subtopology(0, "sales", file=FILE)
def sales(rows: Pipe) -> Pipe:
    """2 tasks: orders -> shop-sales-sales-repartition."""
    rows = rows.process(Source(ORDERS, "sales", columns=("product", "quantity", "price"), at=11))
    rows = rows.where("sales", "quantity >= 1", at=14)
    return rows.process(
        KeyBy("sales", {"product": "product"}, at=15),
        Sink("sales", SALES_REPARTITION, mode="repartition", at=20),
    )


@subtopology(1, "sales_rekeyed", file=FILE)
def sales_rekeyed(rows: Pipe) -> Pipe:
    """2 tasks: shop-sales-sales-repartition -> daily_sales.

    Stores: sales_by_day.
    """
    rows = rows.process(Source(SALES_REPARTITION, "sales", at=20))
    rows = rows.select(
        "sales",
        {"`quantity * price` double": "quantity * price"},
        null_values=True,
        at=20,
    )
    return rows.process(
        Aggregate("sales", SALES_BY_DAY, emit="per_epoch", at=20),
        Sink("sales", DAILY_SALES, mode="per_epoch", at=25),
    )


TOPOLOGY = Topology(
    project="shop",
    name="sales",
    version="1.0",
    content_hash="d4c497786aa7869b2fd5c68c56a6e81b61ff5ffb4d010e4ba093ab5fb8782b13",
    subtopologies=(sales, sales_rekeyed),
)
