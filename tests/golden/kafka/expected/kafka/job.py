"""Topology kafka of project shop 1.0.

Copies topics from Kafka: those with `kafka:` that no flow writes.

Made by `headwater compile` from topics/orders.yml: change that file, not this one.
"""

from headwater.runtime import (
    Decode,
    Pipe,
    PluginRef,
    Sink,
    Source,
    Topic,
    Topology,
    raw_topic,
    subtopology,
)

FILE = "topics/orders.yml"

ORDERS = Topic(
    "orders",
    partitions=4,
    key="customer string",
    value="product string, quantity int, ordered timestamp",
    writer="shop-kafka",
    on_error="dead_letter",
    timestamp="ordered",
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
PRODUCTS = Topic(
    "products",
    partitions=4,
    key="product string",
    value="name string, price decimal(10,2)",
    writer="shop-kafka",
    cleanup="compact",
)
OPS_ORDERS_V2_IN_KAFKA = raw_topic("ops.orders.v2", on_error="dead_letter")
PRODUCTS_IN_KAFKA = raw_topic("products", "partners", headers=False)


@subtopology(0, "orders", file=FILE)
def orders(rows: Pipe) -> Pipe:
    """A task for each partition in Kafka: ops.orders.v2 in Kafka -> orders,
    kafka_orders_dead_letter.
    """
    return rows.process(
        Source(
            OPS_ORDERS_V2_IN_KAFKA,
            "orders",
            dead_letter=KAFKA_ORDERS_DEAD_LETTER,
            start="latest",
            at=8,
        ),
        Decode(
            "orders",
            OPS_ORDERS_V2_IN_KAFKA,
            ORDERS,
            key=PluginRef("string"),
            value=PluginRef("json"),
            at=8,
        ),
        Sink("orders", ORDERS, at=8),
    )


@subtopology(1, "products", file=FILE)
def products(rows: Pipe) -> Pipe:
    """A task for each partition in Kafka: products in Kafka -> products."""
    return rows.process(
        Source(PRODUCTS_IN_KAFKA, "products", start="group old-shop", at=19),
        Decode(
            "products",
            PRODUCTS_IN_KAFKA,
            PRODUCTS,
            key=PluginRef("json"),
            value=PluginRef("json"),
            at=19,
        ),
        Sink("products", PRODUCTS, at=19),
    )


TOPOLOGY = Topology(
    project="shop",
    name="kafka",
    version="1.0",
    content_hash="407c340994fe5a51453527588085bb51edea3bc08eb36b653d2ff2ceae178c7b",
    subtopologies=(orders, products),
)
