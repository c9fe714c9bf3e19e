from __future__ import annotations

from headwater.compiler.emit.literals import Constants, function_names
from headwater.compiler.topology.graph import TopologyGraph
from headwater.runtime.ir.topology import Assignment, PluginRef, Store, Topic


def topic(name: str) -> Topic:
    return Topic(name, 1, "k string", "v string")


def store(name: str) -> Store:
    return Store(name, 1, "k string", "v string")


def graph(*declared: Topic | Store) -> TopologyGraph:
    topics = tuple(each for each in declared if isinstance(each, Topic))
    stores = tuple(each for each in declared if isinstance(each, Store))
    return TopologyGraph(
        "p", "t", "1.0", "", "topologies/t.yml", topics, stores, (), (), Assignment(), PluginRef("changelog")
    )


def test_repartition_topic_goes_without_its_application() -> None:
    repartition = topic("p-t-hourly-repartition")

    assert Constants(graph(repartition))[repartition] == "HOURLY_REPARTITION"


def test_store_named_like_a_topic_gets_a_suffix() -> None:
    constants = Constants(graph(topic("airlines"), store("airlines")))

    assert constants[topic("airlines")] == "AIRLINES"
    assert constants[store("airlines")] == "AIRLINES_STORE"


def test_names_that_come_to_the_same_constant_are_numbered() -> None:
    constants = Constants(graph(topic("a-b"), topic("a_b"), topic("a.b")))

    assert [constants[topic(name)] for name in ("a-b", "a_b", "a.b")] == ["A_B", "A_B_TOPIC", "A_B_TOPIC2"]


def test_topic_named_like_a_digit_or_a_word_of_the_job_gets_a_suffix() -> None:
    constants = Constants(graph(topic("o"), topic("topology"), topic("1st")))

    assert [constants[topic(name)] for name in ("o", "topology", "1st")] == ["O_TOPIC", "TOPOLOGY_TOPIC", "_1ST"]


def test_function_that_would_hide_something_gets_an_underscore() -> None:
    names = function_names(["late", "where", "filter", "class", "l", "Late"], ["where", "process"])

    assert names == ["late", "where_", "filter_", "class_", "l_", "late_"]
