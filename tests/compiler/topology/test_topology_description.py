from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from headwater.compiler.pipeline import CheckedProject
from headwater.compiler.topology.description import describe, mermaid

TOPICS = """
clicks: {partitions: 2, key: {user: string}, value: {url: string, seconds: int}}
users: {partitions: 2, key: {user: string}, value: {name: string}}
pages: {partitions: 1, key: {url: string}, value: {title: string}}
"""
TOPOLOGY = """
    tables:
      people: {topic: users}
      titles: {topic: pages, global: true}
    flows:
      named:
        from: clicks
        steps:
          - filter: seconds > 3
          - join: {table: people, type: left}
          - join: {table: titles, by: {url: url}}
      counted:
        from: named
        steps:
          - key_by: {title: title}
          - aggregate:
              values: {n: count(*)}
        to: out
"""
EXPECTED = """\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000004 (topics: [clicks])
      --> KSTREAM-FILTER-0000000005
    Processor: KSTREAM-FILTER-0000000005 (stores: [])
      --> KSTREAM-LEFTJOIN-0000000006
      <-- KSTREAM-SOURCE-0000000004
    Processor: KSTREAM-LEFTJOIN-0000000006 (stores: [people])
      --> KSTREAM-JOIN-0000000007
      <-- KSTREAM-FILTER-0000000005
    Processor: KSTREAM-JOIN-0000000007 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000008
      <-- KSTREAM-LEFTJOIN-0000000006
    Processor: KSTREAM-KEY-SELECT-0000000008 (stores: [])
      --> KSTREAM-FILTER-0000000009
      <-- KSTREAM-JOIN-0000000007
    Processor: KSTREAM-FILTER-0000000009 (stores: [])
      --> KSTREAM-SINK-0000000010
      <-- KSTREAM-KEY-SELECT-0000000008
    Source: KSTREAM-SOURCE-0000000000 (topics: [users])
      --> KTABLE-SOURCE-0000000001
    Sink: KSTREAM-SINK-0000000010 (topic: shop-t-counted-repartition)
      <-- KSTREAM-FILTER-0000000009
    Processor: KTABLE-SOURCE-0000000001 (stores: [people])
      --> none
      <-- KSTREAM-SOURCE-0000000000

  Sub-topology: 1 for global store (will not generate tasks)
    Source: KSTREAM-SOURCE-0000000002 (topics: [pages])
      --> KTABLE-SOURCE-0000000003
    Processor: KTABLE-SOURCE-0000000003 (stores: [titles])
      --> none
      <-- KSTREAM-SOURCE-0000000002

  Sub-topology: 2
    Source: KSTREAM-SOURCE-0000000011 (topics: [shop-t-counted-repartition])
      --> KSTREAM-AGGREGATE-0000000012
    Processor: KSTREAM-AGGREGATE-0000000012 (stores: [counted])
      --> KTABLE-TOSTREAM-0000000013
      <-- KSTREAM-SOURCE-0000000011
    Processor: KTABLE-TOSTREAM-0000000013 (stores: [])
      --> KSTREAM-SINK-0000000014
      <-- KSTREAM-AGGREGATE-0000000012
    Sink: KSTREAM-SINK-0000000014 (topic: out)
      <-- KTABLE-TOSTREAM-0000000013

"""


def test_topology_is_described_as_kafka_streams_does(compiled: Callable[..., CheckedProject]) -> None:
    shown = describe(compiled(TOPICS, TOPOLOGY).topologies[0])

    lines = [line for line in shown.splitlines(keepends=True) if not line.strip().startswith("#")]
    assert "".join(lines) == EXPECTED


def test_each_node_is_told_with_its_flow_its_step_and_its_line(compiled: Callable[..., CheckedProject]) -> None:
    lines = describe(compiled(TOPICS, TOPOLOGY).topologies[0]).splitlines()

    told = {line.split()[1].rpartition("-")[0]: after.strip() for line, after in pairwise(lines) if "#" in after}
    file = "topologies/t.yml"
    assert f"      # named: filter seconds > 3, {file}:" in "\n".join(lines)
    assert told["KSTREAM-LEFTJOIN"].startswith(f"# named: left join people, {file}:")
    assert told["KSTREAM-JOIN"].startswith(f"# named: inner join titles, {file}:")
    assert told["KSTREAM-KEY-SELECT"].startswith(f"# counted: key_by title, {file}:")
    assert told["KSTREAM-AGGREGATE"].startswith(f"# counted: aggregate into counted, {file}:")
    assert told["KTABLE-SOURCE"].startswith(("# people: ", "# titles: "))


def test_mermaid_has_a_box_for_each_subtopology_and_an_arrow_through_each_topic(
    compiled: Callable[..., CheckedProject],
) -> None:
    lines = mermaid(compiled(TOPICS, TOPOLOGY).topologies[0]).splitlines()
    assert lines[0] == "flowchart TD"
    assert [line.strip() for line in lines if "subgraph" in line] == [
        'subgraph subtopology_0["0: named"]',
        'subgraph subtopology_2["2: counted"]',
    ]
    topic = "topic_shop_t_counted_repartition"
    assert any(line.endswith(f"--> {topic}") for line in lines)
    assert any(line.strip().startswith(f"{topic} -->") for line in lines)


OF_TABLES = """
    tables:
      people: {topic: users}
    flows:
      named: {from: people, steps: [{filter: name is not null}]}
      short:
        from: people
        steps:
          - filter: length(name) < 5
          - select: {nick: name}
          - join: {table: named}
          - join: {table: titles, type: left, by: {url: nick}}
        to: out
      titles: {from: pages, steps: [to_table, {filter: title > 'a'}]}
"""


def test_store_that_a_join_needs_is_shown_at_the_step_that_makes_its_rows(
    compiled: Callable[..., CheckedProject],
) -> None:
    topology = compiled(TOPICS, OF_TABLES).topologies[0]

    nodes = [node for part in topology.subtopologies for node in part.nodes]
    kept = {store: node.name.rpartition("-")[0] for node in nodes for store in node.stores if "JOIN" not in node.name}
    assert kept == {
        "people": "KTABLE-SOURCE",
        "named": "KTABLE-FILTER",
        "short-named": "KTABLE-MAPVALUES",
        "short-rows": "KTABLE-MERGE",
        "titles": "KSTREAM-TOTABLE",
        "titles-result": "KTABLE-FILTER",
    }
    # What is left of both is written so: `to_table`, and the result as records of a topic.
    shown = describe(topology)
    assert [line.split(":")[1].strip() for line in shown.splitlines() if "TOTABLE" in line and "Proc" in line] == [
        next(node.name for node in nodes if "TOTABLE" in node.name) + " (stores"
    ]
    assert shown.count("Processor: KTABLE-TOSTREAM") == 1
    assert "MATERIALIZED" not in shown
