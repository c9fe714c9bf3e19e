"""Topology sales of project shop 1.0.

Orders and revenue of each product, day by day.

Made by `headwater compile` from topologies/sales.yml: change that file, not this one.
Content: 1ddfbd34067b93748ece433c732dcf09e9f298a377875c065b4d3b897997ab2c
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Flow,
    Project,
    Sink,
    Source,
    Store,
    Subtopology,
    Topic,
    Window,
    process,
    select,
    where,
)
from pyspark.sql import DataFrame

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
    window=Window(size_ms=86_400_000, advance_ms=86_400_000, grace_ms=3_600_000),
    retention_ms=2_592_000_000,
    aggregates=(Agg("orders", "count"), Agg("revenue", "sum", column="quantity * price", of="double", type="double")),
)


def sales(tasks: DataFrame) -> DataFrame:
    """Subtopology 0, 2 tasks: orders -> shop-sales-sales-repartition."""
    rows = process(
        tasks,
        Source(
            ORDERS,
            into=("sales",),
            columns=Flow("order_id bigint", "product string, quantity int, price double"),
            rank=1,
            at="topologies/sales.yml:10",
        ),
        yields={"sales": Flow("order_id bigint", "product string, quantity int, price double")},
    )
    rows = where(rows, "quantity >= 1", at="topologies/sales.yml:13")
    return process(
        rows,
        Project("sales", key={"product": "product"}, at="topologies/sales.yml:14"),
        Sink("sales", SALES_REPARTITION, mode="repartition", at="topologies/sales.yml:19"),
        reads={"sales": Flow("order_id bigint", "product string, quantity int, price double")},
    )


def sales_rekeyed(tasks: DataFrame) -> DataFrame:
    """Subtopology 1, 2 tasks: shop-sales-sales-repartition -> daily_sales.

    Stores: sales_by_day.
    """
    rows = process(
        tasks,
        Source(SALES_REPARTITION, into=("sales",), rank=1, at="topologies/sales.yml:19"),
        yields={"sales": Flow("product string", "quantity int, price double")},
    )
    rows = select(
        rows,
        {"quantity * price": "quantity * price"},
        null_values=True,
        keep=("product",),
        at="topologies/sales.yml:19",
    )
    return process(
        rows,
        Aggregate("sales", SALES_BY_DAY, emit="collapsed", name="sales_by_day", at="topologies/sales.yml:19"),
        Sink("sales", DAILY_SALES, mode="per_epoch", at="topologies/sales.yml:24"),
        reads={"sales": Flow("product string", "`quantity * price` double")},
    )


SUBTOPOLOGIES = (
    Subtopology(0, "sales", partitions=2, build=sales, sources=(ORDERS,), sinks=(SALES_REPARTITION,)),
    Subtopology(
        1,
        "sales_rekeyed",
        partitions=2,
        build=sales_rekeyed,
        sources=(SALES_REPARTITION,),
        sinks=(DAILY_SALES,),
        stores=(SALES_BY_DAY,),
    ),
)
