"""Topology kafka-out of project shop 1.0.

Copies topics to Kafka: those with `kafka:` that a flow writes.

Made by `headwater compile` from topics/results.yml: change that file, not this one.
"""

from headwater.runtime import (
    KafkaTopic,
    Pipe,
    PluginRef,
    Produce,
    Source,
    Topic,
    Topology,
    subtopology,
)

FILE = "topics/results.yml"

KAFKA_OUT_HOURLY_ORDERS_DEAD_LETTER = Topic(
    "kafka-out_hourly_orders_dead_letter",
    partitions=4,
    key="",
    value=(
        "topic string, partition int, offset bigint, timestamp timestamp, key string, "
        "value string, headers string, step string, error string"
    ),
    writer="shop-kafka-out",
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


@subtopology(0, "hourly_orders", file=FILE)
def hourly_orders(rows: Pipe) -> Pipe:
    """4 tasks: hourly_orders -> hourly_orders in Kafka, kafka-out_hourly_orders_dead_letter."""
    return rows.process(
        Source(
            HOURLY_ORDERS,
            "hourly_orders",
            dead_letter=KAFKA_OUT_HOURLY_ORDERS_DEAD_LETTER,
            at=9,
        ),
        Produce(
            "hourly_orders",
            HOURLY_ORDERS,
            KafkaTopic("hourly_orders"),
            key=PluginRef("json", {"windows": "fields"}),
            value=PluginRef("json"),
            at=9,
        ),
    )


TOPOLOGY = Topology(
    project="shop",
    name="kafka-out",
    version="1.0",
    content_hash="73641359da9823f68d8ded758472275ae3ff63b3c491b5e4c8301f7515267cdf",
    subtopologies=(hourly_orders,),
)
