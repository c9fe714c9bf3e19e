from __future__ import annotations

import pytest

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.reading.source import SourceFile
from headwater.compiler.reading.validate import validate
from headwater.compiler.reading.yaml_loader import read_yaml

TOPIC = "topics:\n  t:\n    partitions: 1\n    value: {a: int}\n"
STEPS = "topology: x\nflows:\n  f:\n    from: t\n    steps:\n"


def check(text: str, schema: str) -> list[tuple[str, int, int, str, str | None]]:
    diagnostics = Diagnostics()
    node = read_yaml(SourceFile("f.yml", text), diagnostics)
    assert node is not None
    validate(node, schema, diagnostics)
    return [(item.code, item.position.line, item.position.column, item.message, item.hint) for item in diagnostics]


def check_step(step: str) -> list[tuple[str, int, str]]:
    """(code, column in the step, message) of a step written in flow style."""
    return [
        (code, column - 8, message) for code, _, column, message, _ in check(f"{STEPS}      - {step}\n", "topology")
    ]


WHOLE_LANGUAGE = """
topology: everything
description: Each word of the language.
tags: [all]
meta: {owner: me, deep: {er: [1]}}
tables:
  airlines: {topic: airlines_raw, store: names, global: true, emit: each_update, tags: [x]}
  airports: {}
stores:
  names:
    type: key_value
    backend: {name: mine, options: {cache: 1}}
  totals: {type: window, backend: lmdb, retention: 2d, changelog: {enabled: true, cleanup: "compact,delete"}}
  visits: {type: session}
flows:
  late:
    from: flights
    description: text
    steps:
      - filter: dep_delay > 15
        name: only_late
        description: text
        tags: [x]
        meta: {a: 1}
      - filter: true
      - select: {minutes: dep_delay, one: 1}
      - with_columns: {hours: dep_delay / 60}
      - drop: [tailnum]
      - explode: {tag: "split(tags, ',')"}
      - key_by: {airline: airline}
      - repartition: {partitions: 8}
      - repartition:
      - repartition
      - join: {table: airlines, type: left, values: {airline: airlines.name}}
      - join: {table: airports, by: {faa: dest}}
      - join: {stream: clicks, within: 10m, grace: 1m}
      - join: {stream: clicks, type: outer, within: {before: 5m, after: 10m}}
      - window: {tumbling: 1h, grace: 10m}
      - window: {hopping: 1h, advance: 10m}
      - window: {sliding: 1h}
      - window: {session: 1h, grace: 0ms}
      - aggregate: {store: totals, emit: per_epoch, values: {flights: count(*)}}
      - aggregate: {emit: on_close, values: {flights: count(*)}}
      - to_table: {store: latest, emit: per_epoch}
      - to_table
      - to_table:
      - to_stream
      - to_stream:
      - process: {function: functions.dedupe:Dedupe, options: {a: 1}}
      - suppress: {until: window_closes}
      - branch:
          - {flow: very_late, when: dep_delay > 120}
          - flow: on_time
    to: hourly
  merged: {from: [late, later]}
assignment:
  assignor: high_availability
  standby_replicas: 1
  max_warmup_replicas: 2
  acceptable_recovery_lag: 10000
  probing_rebalance_interval: 10m
  rack_aware: {strategy: min_traffic, tags: [zone], traffic_cost: 10, non_overlap_cost: 1}
restore: {strategy: {name: mine, options: {}}}
"""


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("topology", WHOLE_LANGUAGE),
        ("topology", "topology: x\nflows: {f: {from: t}}\n"),
        (
            "topics",
            "topics:\n  t:\n    partitions: 4\n    key: {a: string}\n"
            "    value: {b: 'decimal(10,2)', c: 'array<struct<x:int>>'}\n    windowed: true\n    timestamp: b\n"
            "    cleanup: compact,delete\n    retention: 2d\n    on_error: skip\n    description: x\n"
            "    seed: {path: seeds/t.csv, format: csv, order: file}\n"
            "  u: {partitions: 1, value: {}, seed: {function: 'functions.seeds:u'}}\n",
        ),
        ("project", 'name: x\nversion: "1"\nprofile: my-profile\nvars: {a: 1, b: [2]}\nplugins: [plugins.mine]\n'),
        (
            "profiles",
            "x:\n  target: a-b\n  targets:\n    a-b:\n"
            "      spark: {master: 'local[2]', executor.memory: 2g, spark.sql.x: 1, meta: {a: 1}}\n"
            "      log: {type: embedded, path: .log}\n      state_dir: .state\n      clients: 2\n"
            "      epoch: {interval: 500ms, max_records: 1000, deadline: 45s}\n"
            "    b: {log: kafka}\n    c: {log: {name: kafka, options: {servers: x}}}\n"
            "    d: {log: {type: kafka, options: {servers: x}}}\n    e: {}\n"
            "    f: {racks: {host-1.lan: a, 10.0.0.2: b}, client_tags: {host-1.lan: {zone: z, cluster: k}}}\n"
            "    g: {racks: {script: bin/rack, description: x}}\n",
        ),
    ],
)
def test_everything_that_the_language_has_is_valid(schema, text):
    assert check(text, schema) == []


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ("fliter: a", ("HW201", 1, "There is no step 'fliter' here.")),
        ("{filter: a, nmae: x}", ("HW201", 13, "There is no key 'nmae' here.")),
        ("{filter: a, drop: [b]}", ("HW206", 13, "'drop' is not allowed beside 'filter'.")),
        ("name: x", ("HW206", 1, "This step has no action.")),
        ("to_straem", ("HW206", 1, "There is no step 'to_straem'.")),
        ("7", ("HW203", 1, "This item must be a mapping, not the number 7.")),
        ("filter:", ("HW203", 8, "'filter' is empty; it must be a Spark SQL expression.")),
        ("filter: [a]", ("HW203", 9, "'filter' must be a Spark SQL expression, not a list.")),
        ("filter: ''", ("HW208", 9, "'filter' must not be an empty text.")),
        ("select: {}", ("HW208", 1, "'select' must not be empty.")),
        ("select: {a.b: c}", ("HW209", 10, "'a.b' is not a column's name.")),
        ("drop: a", ("HW203", 7, "'drop' must be a list, not the text 'a'.")),
        ("drop: [a, a]", ("HW208", 1, "'drop' has an item twice.")),
        ("explode: {a: b, c: d}", ("HW208", 1, "'explode' takes only 1 entry.")),
        ("repartition: {partitions: 0}", ("HW208", 27, "'partitions' must be at least 1.")),
        ("repartition: {partitions: 1.5}", ("HW203", 27, "'partitions' must be a whole number, not the number 1.5.")),
        ("repartition: {partitions: 4.0}", ("HW203", 27, "'partitions' must be a whole number, not the number 4.0.")),
        ("join: {type: left}", ("HW210", 1, "'join' needs one of several keys.")),
        ("join: {table: a, stream: b, within: 1m}", ("HW210", 18, "'stream' is not allowed beside 'table'.")),
        ("join: {table: a, by: {x: y}, type: outer}", ("HW204", 36, "'type' must be inner or left, not 'outer'.")),
        ("join: {table: a, within: 1m}", ("HW210", 18, "'within' needs 'stream' beside it.")),
        (
            "join: {stream: a, within: 10}",
            (
                "HW203",
                27,
                "'within' must be a duration such as 10m, or a mapping with before and after, not the number 10.",
            ),
        ),
        ("window: {grace: 1m}", ("HW210", 1, "'window' needs one of several keys.")),
        ("window: {tumbling: 1h, session: 1h}", ("HW210", 24, "'session' is not allowed beside 'tumbling'.")),
        ("window: {tumbling: 1h, advance: 1m}", ("HW210", 24, "'advance' needs 'hopping' beside it.")),
        ("window: {tumbling: 3600}", ("HW203", 20, "'tumbling' must be a duration such as 10m, not the number 3600.")),
        ("window: {tumbling: 1 h}", ("HW205", 20, "'1 h' is not a duration.")),
        ("window: {tumbling: -1h}", ("HW205", 20, "'-1h' is not a duration.")),
        ("window: {tumbling: 10000000d}", ("HW205", 20, "'10000000d' is not a duration.")),
        ("aggregate: {store: a}", ("HW202", 1, "'aggregate' needs the key 'values'.")),
        ("branch: [{when: a}]", ("HW202", 10, "This item needs the key 'flow'.")),
        ("process: {function: dedupe}", ("HW209", 21, "'dedupe' is not a function such as functions.seeds:flights.")),
    ],
)
def test_step_that_is_wrong_is_reported_once_at_its_place(step, found):
    assert check_step(step) == [found]


@pytest.mark.parametrize(
    ("schema", "text", "found"),
    [
        ("topics", "a: 1\n", [("HW201", 1, 1), ("HW202", 1, 1)]),
        ("topics", "[a]\n", [("HW203", 1, 1)]),
        ("topics", TOPIC.replace("partitions", "partition"), [("HW201", 3, 5)]),
        ("topics", TOPIC.replace("  t:", "  t 1:"), [("HW209", 2, 3)]),
        ("topics", TOPIC.replace("int", "intt"), [("HW207", 4, 16)]),
        ("topics", TOPIC.replace("int", "1"), [("HW203", 4, 16)]),
        ("topics", TOPIC.replace("int", "array<" * 3_000), [("HW207", 4, 16)]),
        ("topics", TOPIC + "    seed: {}\n", [("HW210", 5, 5)]),
        ("topics", TOPIC + "    seed: {function: 'f.s:x', format: csv}\n", [("HW210", 5, 31)]),
        ("project", "name: x\n", [("HW202", 1, 1)]),
        ("project", 'name: "x\\n"\nversion: a\n', [("HW209", 1, 7)]),
        ("project", "name: x\nversion: a\nplugins: [../x]\n", [("HW209", 3, 11)]),
        ("profiles", "x: {targets: {}}\n", [("HW202", 1, 1), ("HW208", 1, 5)]),
        ("profiles", "x: {target: a, targets: {a: {log: {path: x}}}}\n", [("HW202", 1, 30)]),
        ("profiles", "x: {target: a, targets: {a: {log: {type: k, path: x}}}}\n", [("HW201", 1, 45)]),
        ("profiles", "x: {target: a, targets: {a: {log: {name: k, path: x}}}}\n", [("HW201", 1, 45)]),
        ("profiles", "x: {target: a, targets: {a: {spark: {conf: {a: 1}}}}}\n", [("HW203", 1, 44)]),
        ("topology", "topology: x\nflows: {f: {from: 5}}\n", [("HW203", 2, 19)]),
        ("topology", "topology: x\nflows: {f: {from: []}}\n", [("HW208", 2, 13)]),
        ("topology", "topology: x\nflows: {f: {from: [a, [b]]}}\n", [("HW203", 2, 23)]),
        ("topology", "topology: x\nflows: {f: {from: a}}\nrestore: changelog\n", [("HW203", 3, 10)]),
        ("topology", "topology: x\nflows: {f: {from: a}}\nassignment: {assignor: {}}\n", [("HW202", 3, 14)]),
        ("topology", "topology: x\nflows: {f: {from: a}}\nstores: {s: {type: [a]}}\n", [("HW203", 3, 20)]),
    ],
)
def test_file_that_is_wrong_is_reported_at_its_place(schema, text, found):
    assert [item[:3] for item in check(text, schema)] == found


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (TOPIC.replace("1", "'1'"), "Remove the quotes."),
        (TOPIC + "    windowed: 'true'\n", "Remove the quotes."),
        (TOPIC + "    timestamp: 1\n", 'Put it in quotes: "1".'),
        (TOPIC + "    retention: 5\n", "Add a unit: 5ms, 5s, 5m, 5h or 5d."),
        (TOPIC + "    tags: a\n", "Write each item on its own line, after a dash."),
        (TOPIC + "    seed: [path]\n", "Write `key: value` lines without dashes."),
        (TOPIC + "    retenion: 5d\n", "Did you mean 'retention'?"),
        (TOPIC + "    on_error: skp\n", "Did you mean 'skip'?"),
    ],
)
def test_likely_mistake_has_a_hint_that_mends_it(text, hint):
    assert [item[4] for item in check(text, "topics")] == [hint]


def test_broken_value_is_not_reported_again():
    text = TOPIC.replace("partitions: 1", "partitions: {{ x }}") + "    retention: 2013-01-01\n"
    assert [item[0] for item in check(text, "topics")] == ["HW024", "HW015"]


def test_thousands_of_mistakes_are_reported_up_to_a_limit():
    many = "".join(f"  t{number}: {{x: 1}}\n" for number in range(2_000))
    found = check(f"topics:\n{many}", "topics")
    assert 100 < len(found) <= 400
