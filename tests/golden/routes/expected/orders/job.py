"""Topology orders of project shop 1.0.

Orders by their size, and by the tenant of their region.

Made by `headwater compile` from topologies/orders.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Call,
    Pipe,
    PythonCode,
    PythonFunction,
    RoutedSink,
    Sink,
    Source,
    Store,
    Topic,
    Topology,
    Udf,
    subtopology,
)

FILE = "topologies/orders.yml"
FUNCTIONS = PythonCode.beside(__file__)

ORDERS = Topic("orders", partitions=2, key="id bigint", value="region string, amount double")
LARGE_ORDERS = Topic(
    "large_orders",
    partitions=3,
    key="id bigint",
    value="region string, amount double",
    writer="shop-orders",
)
SMALL_ORDERS = Topic(
    "small_orders",
    partitions=2,
    key="id bigint",
    value="region string, amount double",
    writer="shop-orders",
)
OTHER_ORDERS = Topic(
    "other_orders",
    partitions=2,
    key="id bigint",
    value="region string, amount double",
    writer="shop-orders",
)
ORDERS_OF_EU = Topic(
    "orders_of_eu",
    partitions=2,
    key="id bigint",
    value="amount double, region string",
    writer="shop-orders",
)
ORDERS_OF_US = Topic(
    "orders_of_us",
    partitions=2,
    key="id bigint",
    value="amount double, region string",
    writer="shop-orders",
)
COUNTS_OF_LARGE_ORDERS = Topic(
    "counts_of_large_orders",
    partitions=3,
    key="id bigint",
    value="orders bigint",
    writer="shop-orders",
)

COUNTS = Store(
    "counts",
    partitions=3,
    key="id bigint",
    value="orders bigint",
    aggregates=(Agg("orders", "count"),),
)

TENANT_OF = Udf(
    "tenant_of",
    PythonFunction("functions.tenants:tenant_of", FUNCTIONS),
    {"region": "string"},
    "string",
)


@subtopology(0, "by_size", file=FILE)
def by_size(rows: Pipe) -> Pipe:
    """2 tasks: orders -> large_orders, small_orders, other_orders, orders_of_eu, orders_of_us."""
    rows = rows.process(
        # by_size: Readers of this flow get every order, whichever topic it goes to.
        Source(ORDERS, "by_size", at=11),
    )
    rows = rows.where("by_size", "amount is null or amount > 0", at=15)
    rows = rows.fork("by_size", into=("by_size", "by_tenant"), at=11)
    rows = rows.select(
        "by_size",
        {
            "topic string": (
                "case when amount > 100 then 'large_orders' when amount > 1 then 'small_orders' "
                "else 'other_orders' end"
            ),
        },
        keep=("region", "amount"),
        null_values=True,
        at=17,
    )
    rows = rows.process(
        RoutedSink("by_size", "topic", (LARGE_ORDERS, SMALL_ORDERS, OTHER_ORDERS), at=17),
        Call("by_tenant", "tenant_of(region)", TENANT_OF, ("region",), null_values=True, at=31),
    )
    rows = rows.select(
        "by_tenant",
        {"topic string": "concat('orders_of_', `tenant_of(region)`)"},
        keep=("amount", "region"),
        null_values=True,
        at=31,
    )
    return rows.process(RoutedSink("by_tenant", "topic", (ORDERS_OF_EU, ORDERS_OF_US), at=31))


@subtopology(1, "counts", file=FILE)
def counts(rows: Pipe) -> Pipe:
    """3 tasks: large_orders -> counts_of_large_orders.

    Stores: counts.
    """
    return rows.process(
        Source(LARGE_ORDERS, "counts", columns=(), at=4),
        Aggregate("counts", COUNTS, emit="per_epoch", at=7),
        Sink("counts", COUNTS_OF_LARGE_ORDERS, mode="per_epoch", at=10),
    )


TOPOLOGY = Topology(
    project="shop",
    name="orders",
    version="1.0",
    content_hash="36728028ea8dc4d31554dd5d59bc68be18c87de99c31f19ae82e0e3c2750c041",
    subtopologies=(by_size, counts),
)
