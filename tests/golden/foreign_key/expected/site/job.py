"""Topology site of project site 1.0.

Made by `headwater compile` from topologies/site.yml: change that file, not this one.
"""

from headwater.runtime import (
    Answer,
    ForeignKeyJoin,
    Fork,
    Pipe,
    Settle,
    Sink,
    Source,
    Store,
    Subscribe,
    Table,
    Topic,
    Topology,
    ToStream,
    subtopology,
)

FILE = "topologies/site.yml"

EMPLOYEES = Topic("employees", partitions=2, key="id bigint", value="name string, boss bigint")
BOSSES_SUBSCRIPTION_REPARTITION = Topic(
    "site-site-bosses-subscription-repartition",
    partitions=2,
    key="id bigint",
    value="id bigint, _hash binary, _subscribe boolean, _answer boolean",
    writer="site-site",
)
BOSSES_RESPONSE_REPARTITION = Topic(
    "site-site-bosses-response-repartition",
    partitions=2,
    key="id bigint",
    value="_hash binary, _found boolean, boss_name string",
    writer="site-site",
)
PEOPLE_WITH_BOSSES = Topic(
    "people_with_bosses",
    partitions=2,
    key="id bigint",
    value="name string, boss bigint, boss_name string",
    writer="site-site",
)
ORDERS = Topic(
    "orders",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double",
)
NAMED_ORDERS_RESPONSE_REPARTITION = Topic(
    "site-site-named_orders-response-repartition",
    partitions=3,
    key="order_id bigint",
    value="_hash binary, _found boolean, `clients.name` string",
    writer="site-site",
)
NAMED_ORDERS_TITLED_RESPONSE_REPARTITION = Topic(
    "site-site-named_orders-titled-response-repartition",
    partitions=3,
    key="order_id bigint",
    value="_hash binary, _found boolean, title string",
    writer="site-site",
)
NAMED_ORDERS_SUBSCRIPTION_REPARTITION = Topic(
    "site-site-named_orders-subscription-repartition",
    partitions=2,
    key="customer_id string",
    value="order_id bigint, _hash binary, _subscribe boolean, _answer boolean",
    writer="site-site",
)
NAMED_ORDERS_TITLED_SUBSCRIPTION_REPARTITION = Topic(
    "site-site-named_orders-titled-subscription-repartition",
    partitions=1,
    key="product_id int",
    value="order_id bigint, _hash binary, _subscribe boolean, _answer boolean",
    writer="site-site",
)
ORDERS_WITH_NAMES = Topic(
    "orders_with_names",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double, client string, title string",
    writer="site-site",
)
CUSTOMERS = Topic(
    "customers",
    partitions=2,
    key="customer_id string",
    value="name string, city string",
)
PRODUCTS = Topic("products", partitions=1, key="product_id int", value="title string")

PEOPLE = Store("people", partitions=2, key="id bigint", value="name string, boss bigint")
BOSSES_SUBSCRIPTIONS = Store(
    "bosses-subscriptions",
    partitions=2,
    key="id bigint, `id (subscriber)` bigint",
    value="_hash binary",
)
BOSSES_JOINED = Store(
    "bosses-joined",
    partitions=2,
    key="id bigint",
    value="name string, boss bigint, boss_name string",
)
BOUGHT = Store(
    "bought",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double",
)
NAMED_ORDERS_ROWS = Store(
    "named_orders-rows",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double, `upper(customer)` string",
)
NAMED_ORDERS_JOINED = Store(
    "named_orders-joined",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double, client string",
)
NAMED_ORDERS_TITLED_JOINED = Store(
    "named_orders-titled-joined",
    partitions=3,
    key="order_id bigint",
    value="customer string, product_id int, amount double, client string, title string",
)
CLIENTS = Store("clients", partitions=2, key="customer_id string", value="name string, city string")
NAMED_ORDERS_SUBSCRIPTIONS = Store(
    "named_orders-subscriptions",
    partitions=2,
    key="customer_id string, order_id bigint",
    value="_hash binary",
)
GOODS = Store("goods", partitions=1, key="product_id int", value="title string")
NAMED_ORDERS_TITLED_SUBSCRIPTIONS = Store(
    "named_orders-titled-subscriptions",
    partitions=1,
    key="product_id int, order_id bigint",
    value="_hash binary",
)


@subtopology(0, "bosses", file=FILE)
def bosses(rows: Pipe) -> Pipe:
    """2 tasks: employees, site-site-bosses-subscription-repartition,
    site-site-bosses-response-repartition -> site-site-bosses-subscription-repartition,
    site-site-bosses-response-repartition, people_with_bosses.

    Stores: people, bosses-subscriptions, bosses-joined.
    """
    return rows.process(
        Source(EMPLOYEES, "people", at=9),
        Table("people", PEOPLE, old=True, at=9),
        Fork("people", into=("people", "bosses"), at=9),
        Fork("bosses", into=("bosses.rows", "bosses.asking"), at=31),
        Subscribe("bosses.asking", PEOPLE, how="left", key={"id": "boss"}, at=31),
        Sink(
            "bosses.asking",
            BOSSES_SUBSCRIPTION_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            of="table",
            at=31,
        ),
        Source(BOSSES_SUBSCRIPTION_REPARTITION, "bosses.asked.rekeyed", at=31),
        Answer(
            "bosses.asked.rekeyed",
            "people",
            BOSSES_SUBSCRIPTIONS,
            rows=PEOPLE,
            key=("id",),
            values={"boss_name": "name"},
            at=31,
        ),
        Sink(
            "bosses.asked.rekeyed",
            BOSSES_RESPONSE_REPARTITION,
            mode="repartition",
            of="table",
            at=31,
        ),
        Source(BOSSES_RESPONSE_REPARTITION, "bosses.answers.rekeyed", at=31),
        ForeignKeyJoin(
            "bosses.answers.rekeyed",
            "bosses.rows",
            PEOPLE,
            how="left",
            into="bosses",
            at=31,
        ),
        Table("bosses", BOSSES_JOINED, emit="per_epoch", old=True, at=31),
        Settle("bosses", at=31),
        Sink("bosses", PEOPLE_WITH_BOSSES, mode="per_epoch", at=38),
    )


@subtopology(1, "named_orders", file=FILE)
def named_orders(rows: Pipe) -> Pipe:
    """3 tasks: orders, site-site-named_orders-response-repartition,
    site-site-named_orders-titled-response-repartition ->
    site-site-named_orders-subscription-repartition,
    site-site-named_orders-titled-subscription-repartition, orders_with_names.

    Stores: bought, named_orders-rows, named_orders-joined, named_orders-titled-joined.
    """
    rows = rows.process(
        Source(ORDERS, "bought", at=3),
        Table("bought", BOUGHT, at=3),
        Source(NAMED_ORDERS_RESPONSE_REPARTITION, "named_orders.answers", at=15),
        Source(NAMED_ORDERS_TITLED_RESPONSE_REPARTITION, "named_orders.titled.answers", at=22),
    )
    rows = rows.select(
        "bought",
        {"`upper(customer)` string": "upper(customer)"},
        keep=("customer", "product_id", "amount"),
        at=15,
    )
    rows = rows.process(
        ToStream("bought", at=15),
        Table("bought", NAMED_ORDERS_ROWS, old=True, at=15),
        Fork("bought", into=("named_orders.rows", "named_orders.asking"), at=15),
        Subscribe(
            "named_orders.asking",
            NAMED_ORDERS_ROWS,
            how="left",
            key={"customer_id": "upper(customer)"},
            at=15,
        ),
        Sink(
            "named_orders.asking",
            NAMED_ORDERS_SUBSCRIPTION_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            of="table",
            at=15,
        ),
        ForeignKeyJoin(
            "named_orders.answers",
            "named_orders.rows",
            NAMED_ORDERS_ROWS,
            how="left",
            into="named_orders",
            at=15,
        ),
        keep={"named_orders": ("customer", "product_id", "amount", "clients.name")},
    )
    rows = rows.select(
        "named_orders",
        {"client string": "coalesce(`clients.name`, 'somebody')"},
        keep=("customer", "product_id", "amount"),
        at=15,
    )
    return rows.process(
        Table("named_orders", NAMED_ORDERS_JOINED, old=True, at=15),
        Settle("named_orders", at=15),
        Fork(
            "named_orders",
            into=("named_orders.titled.rows", "named_orders.titled.asking"),
            at=22,
        ),
        Subscribe(
            "named_orders.titled.asking",
            NAMED_ORDERS_JOINED,
            how="inner",
            key={"product_id": "product_id"},
            at=22,
        ),
        Sink(
            "named_orders.titled.asking",
            NAMED_ORDERS_TITLED_SUBSCRIPTION_REPARTITION,
            mode="repartition",
            keep_null_keys=True,
            of="table",
            at=22,
        ),
        ForeignKeyJoin(
            "named_orders.titled.answers",
            "named_orders.titled.rows",
            NAMED_ORDERS_JOINED,
            how="inner",
            into="named_orders",
            at=22,
        ),
        Table("named_orders", NAMED_ORDERS_TITLED_JOINED, emit="per_epoch", old=True, at=22),
        Settle("named_orders", at=22),
        Sink("named_orders", ORDERS_WITH_NAMES, mode="per_epoch", at=27),
    )


@subtopology(2, "named_orders_subscription", file=FILE)
def named_orders_subscription(rows: Pipe) -> Pipe:
    """2 tasks: customers, site-site-named_orders-subscription-repartition ->
    site-site-named_orders-response-repartition.

    Stores: clients, named_orders-subscriptions.
    """
    return rows.process(
        Source(CUSTOMERS, "clients", at=5),
        Table("clients", CLIENTS, at=5),
        Source(NAMED_ORDERS_SUBSCRIPTION_REPARTITION, "named_orders.asked", at=15),
        Answer(
            "named_orders.asked",
            "clients",
            NAMED_ORDERS_SUBSCRIPTIONS,
            rows=CLIENTS,
            key=("order_id",),
            values={"clients.name": "name"},
            at=15,
        ),
        Sink(
            "named_orders.asked",
            NAMED_ORDERS_RESPONSE_REPARTITION,
            mode="repartition",
            of="table",
            at=15,
        ),
    )


@subtopology(3, "named_orders_titled_subscription", file=FILE)
def named_orders_titled_subscription(rows: Pipe) -> Pipe:
    """1 task: products, site-site-named_orders-titled-subscription-repartition ->
    site-site-named_orders-titled-response-repartition.

    Stores: goods, named_orders-titled-subscriptions.
    """
    return rows.process(
        Source(PRODUCTS, "goods", at=7),
        Table("goods", GOODS, at=7),
        Source(NAMED_ORDERS_TITLED_SUBSCRIPTION_REPARTITION, "named_orders.titled.asked", at=22),
        Answer(
            "named_orders.titled.asked",
            "goods",
            NAMED_ORDERS_TITLED_SUBSCRIPTIONS,
            rows=GOODS,
            key=("order_id",),
            values={"title": "title"},
            at=22,
        ),
        Sink(
            "named_orders.titled.asked",
            NAMED_ORDERS_TITLED_RESPONSE_REPARTITION,
            mode="repartition",
            of="table",
            at=22,
        ),
    )


TOPOLOGY = Topology(
    project="site",
    name="site",
    version="1.0",
    content_hash="61310af49ef2c87c04df8ee7af90920694b994d213c08144f86a396f96c3b618",
    subtopologies=(
        bosses,
        named_orders,
        named_orders_subscription,
        named_orders_titled_subscription,
    ),
)
