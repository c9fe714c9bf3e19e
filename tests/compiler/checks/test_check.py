"""What the projects in tests/diagnostics do not show: places in Jinja and blocks, silence after errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.diagnostics import Severity
from headwater.compiler.pipeline import CheckedProject, compile_project

Compile = Callable[..., CheckedProject]

TOPICS = """
clicks: {partitions: 2, key: {user: string}, value: {url: string, seconds: int, at: timestamp, tags: array<string>}}
users: {partitions: 2, key: {user: string}, value: {name: string, age: int}}
"""


def found(project: CheckedProject) -> list[tuple[str, int, int]]:
    return [(d.code, d.position.line, d.position.column) for d in project.diagnostics]


def pointed_at(project: CheckedProject) -> str:
    """The text that the only finding points at."""
    (diagnostic,) = project.diagnostics
    place = diagnostic.position
    line = project.loaded.sources[place.file].splitlines()[place.line - 1]
    return line[place.column - 1 : (place.end_column or place.column + 1) - 1]


def test_error_inside_a_block_scalar_is_shown_on_its_line(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - filter: >
                  seconds > 3
                  and secnds < 5
            to: out
        """,
    )
    (diagnostic,) = project.diagnostics
    assert pointed_at(project) == "secnds"
    assert (
        project.loaded.sources["topologies/t.yml"].splitlines()[diagnostic.position.line - 1].strip()
        == "and secnds < 5"
    )


def test_error_behind_jinja_is_shown_where_it_is_written(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - filter: seconds > {{ var('unset_for_sure', '100000') }} and secnds < 5
            to: out
        """,
    )
    assert pointed_at(project) == "secnds"


def test_all_errors_of_a_project_are_found_at_once(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clickz
            to: out
          others:
            from: clicks
            steps:
              - filter: secnds > 3
              - join: {table: nobody}
              - aggregate:
                  store: nothing
                  values: {n: count(*)}
            to: out_of_others
        """,
    )
    assert [code for code, _, _ in found(project)] == ["HW302", "HW403", "HW303", "HW304"]


def test_flow_behind_an_unknown_source_is_left_alone(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clickz
            steps:
              - filter: whatever > 3
              - key_by: {url: url}
              - window: {tumbling: 1h}
              - aggregate:
                  values: {n: sum(whatever)}
            to: users
          readers:
            from: visits
            steps:
              - select: {m: n * 2}
            to: out
        """,
    )
    assert [code for code, _, _ in found(project)] == ["HW302"]


def test_unknown_column_of_a_select_does_not_spread_to_its_readers(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - select: {page: ulr, long: seconds > 60}
              - filter: long and page is not null
            to: out
        """,
    )
    assert [code for code, _, _ in found(project)] == ["HW403"]


def test_refusal_of_the_analyzer_points_into_the_expression(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - with_columns: {x: "size(tags + value.url)"}
            to: out
        """,
    )
    (diagnostic,) = project.diagnostics
    assert diagnostic.code == "HW411"
    assert pointed_at(project) == "tags + value.url"


def test_parse_leaves_types_alone_that_only_spark_knows(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - with_columns: {x: "value.url + tags"}
              - filter: crc32(url)
            to: out
        """,
        parse=True,
    )
    assert not list(project.diagnostics)
    assert project.topologies == ()
    assert [left.sql for left in project.left_to_spark] == ["value.url + tags", "crc32(url)"]


def test_parse_leaves_out_a_topology_with_a_route_of_unknown_type(compiled: Compile) -> None:
    topology = "flows:\n  visits:\n    from: clicks\n    to: {{route: {}, topics: [visits_of_a]}}\n"
    known, unknown = (compiled(TOPICS, topology.format(sql), parse=True) for sql in ("lower(url)", "soundex(url)"))
    assert not [*known.diagnostics, *unknown.diagnostics]
    assert [left.sql for left in unknown.left_to_spark] == ["soundex(url)"]
    assert [len(project.topologies) for project in (known, unknown)] == [1, 0]


def test_parse_reports_a_type_that_is_known_without_spark(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - filter: length(url)
            to: out
        """,
        parse=True,
    )
    assert [found.message for found in project.diagnostics] == ["This must be a boolean; it is of type int."]


def test_verdicts_are_asked_for_once(compiled: Compile, analyzer) -> None:
    topology = """
        flows:
          visits:
            from: clicks
            steps:
              - filter: crc32(url) > 3
            to: out
        """
    compiled(TOPICS, topology)
    asked = len(analyzer.asked)
    compiled(TOPICS, topology)
    assert asked == len(analyzer.asked) == 1


def test_parse_uses_the_verdicts_of_an_earlier_compile(compiled: Compile) -> None:
    topology = """
        flows:
          visits:
            from: clicks
            steps:
              - filter: length(url) > 3
            to: out
        """
    compiled(TOPICS, topology)
    assert [graph.name for graph in compiled(TOPICS, topology, parse=True).topologies] == ["t"]


def test_broken_cache_is_an_empty_one(compiled: Compile, tmp_path) -> None:
    cache = tmp_path / "target" / ".cache" / "expressions.json"
    cache.parent.mkdir(parents=True)
    cache.write_text("{")
    project = compiled(TOPICS, "flows:\n  visits: {from: clicks, steps: [{filter: crc32(url) > 3}], to: out}\n")
    assert not list(project.diagnostics)
    assert cache.read_text() != "{"


def test_undeclared_topic_of_another_topology_can_be_read(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        "flows:\n  again: {from: long_visits, steps: [{filter: seconds > 90}], to: longer}\n",
        "flows:\n  long: {from: clicks, steps: [{filter: seconds > 60}], to: long_visits}\n",
    )
    assert not list(project.diagnostics)
    assert [graph.name for graph in project.topologies] == ["t1", "t"]
    assert project.topics["long_visits"].writer == "shop-t1"


def test_circle_of_three_flows_names_the_way(compiled: Compile) -> None:
    project = compiled(TOPICS, "flows:\n  a: {from: c}\n  b: {from: a}\n  c: {from: b, to: out}\n")
    (diagnostic,) = project.diagnostics
    assert diagnostic.message == "Flows read one another in a cycle: a reads c reads b reads a."


def test_topic_written_in_two_topologies_is_found(compiled: Compile) -> None:
    flow = "flows:\n  {}: {{from: clicks, to: out}}\n"
    project = compiled(TOPICS, flow.format("a"), flow.format("b"))
    assert [(d.code, d.position.file) for d in project.diagnostics] == [("HW308", "topologies/t1.yml")]


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        ("[{explode: {t: tags}}]", ["HW501"]),
        ("[{window: {tumbling: 1h}}, {aggregate: {values: {n: count(*)}}}]", ["HW501"]),
        ("[{repartition: {partitions: 3}}]", ["HW501"]),
        ("[to_table]", ["HW501"]),
        ("[{join: {table: people}}]", []),
        ("[{key_by: {url: url}}, {filter: seconds > 3}, {aggregate: {values: {n: count(*)}}}]", ["HW501"]),
        ("[{filter: seconds > 3}, {select: {url: url}}, {with_columns: {n: length(url)}}, {drop: [n]}]", []),
        ("[{key_by: {url: url}}, {aggregate: {values: {n: count(*), s: sum(seconds), a: avg(seconds)}}}]", []),
        ("[{aggregate: {values: {s: sum(seconds), m: max(seconds)}}}]", ["HW511"]),
        ("[{aggregate: {values: {s: sum(seconds), m: count_if(seconds > 3)}}}]", []),
        ("[to_stream, {explode: {t: tags}}]", []),
    ],
)
def test_table_allows_what_the_language_says(compiled: Compile, steps: str, codes: list[str]) -> None:
    topology = (
        "tables:\n  people: {topic: users}\nflows:\n  latest: {from: clicks, steps: [to_table]}\n"
        f"  visits: {{from: latest, steps: {steps}, to: out}}\n"
    )
    assert [code for code, _, _ in found(compiled(TOPICS, topology))] == codes


HOURLY = "  hourly: {from: clicks, steps: [{window: {tumbling: 1h}}, {aggregate: {values: {n: count(*)}}}]}\n"
CLOSED = HOURLY.replace("values", "emit: on_close, values")
DAILY = HOURLY.replace("hourly", "visits_of_a_day").replace("1h", "1d")
SESSIONS = HOURLY.replace("hourly", "sessions").replace("tumbling: 1h", "session: 1m")
SLIDING = HOURLY.replace("hourly", "sliding").replace("tumbling", "sliding")
OF_TABLES = "tables:\n  people: {topic: users}\nflows:\n  latest: {from: clicks, steps: [to_table]}\n"


@pytest.mark.parametrize(
    ("source", "table", "flows", "message"),
    [
        ("latest", "hourly", HOURLY, "HW525 The table 'hourly' has windows"),
        ("hourly", "people", HOURLY, "HW525 The flow has windows"),
        (
            "hourly",
            "visits_of_a_day",
            HOURLY + DAILY,
            "HW525 The flow has windows of 1h, the table 'visits_of_a_day' win",
        ),
        (
            "hourly",
            "sessions",
            HOURLY + SESSIONS,
            "HW525 The flow has windows of 1h, the table 'sessions' sessions: the",
        ),
        (
            "sessions",
            "sliding",
            SESSIONS + SLIDING,
            "HW525 The flow has sessions, the table 'sliding' sliding windows of",
        ),
        ("latest", "hourly", CLOSED, "HW303 'hourly' is a stream; a join looks up rows of a table."),
        ("latest", "as_they_come", "  as_they_come: {from: clicks}\n", "HW303 'as_they_come' is a stream"),
        ("latest", "users", "", "HW303 There is no table 'users'."),
        ("latest", "visits", "", "HW307 Flows read one another in a cycle"),
    ],
)
def test_join_of_what_cannot_be_joined_is_refused_at_its_place(
    compiled: Compile, source: str, table: str, flows: str, message: str
) -> None:
    join = f"{{join: {{table: {table}, values: {{x: '1'}}}}}}"
    visits = f"  visits:\n    from: {source}\n    steps: [{join}]\n    to: out\n"
    diagnostics = compiled(TOPICS, OF_TABLES + flows + visits).diagnostics
    (only,) = (each for each in diagnostics if each.severity is Severity.ERROR)
    assert f"{only.code} {only.message}".startswith(message)
    assert only.code == "HW307" or (only.hint and only.position.column > 10)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("{join: {table: hourly}}", ""),
        ("{filter: m > 1}, {join: {table: hourly}}, {join: {table: people_by_hour, type: outer}}", ""),
        ("{join: {table: hourly}}, {select: {n: n}}, {suppress: {until: window_closes}}", ""),
        ("{join: {table: hourly}}, to_stream, {filter: n > 1}", ""),
        ("{join: {table: hourly}}, {filter: n > 1}, {join: {table: people_by_hour}}", ""),
        ("{join: {table: hourly}}, {suppress: {for: 1m}}, {filter: m > 1}", ""),
        ("{join: {table: hourly, by: {user: user}}}", "HW525 The table 'hourly' has windows, so its rows expire"),
        ("{join: {table: people, type: left, by: {user: user}}}, {filter: m > 1}, {suppress: {for: 1m}}", ""),
        (
            "{join: {table: people, by: {user: user}}}, {join: {table: people, by: {user: user}, values: {a: '1'}}}",
            "HW525 The flow is the result of a join by a foreign key in windows",
        ),
        (
            "{join: {table: people, by: {user: user}}}, {join: {table: hourly, values: {a: '1'}}}",
            "HW525 The flow is the result of a join by a foreign key in windows",
        ),
        (
            "{join: {table: people, by: {user: user}}}, {suppress: {until: window_closes}}",
            "HW501 A join by a foreign key may emit a row after its window has closed",
        ),
        ("to_stream, {key_by: {user: user}}, {join: {table: people, type: left}}", ""),
        (
            "to_stream, {key_by: {user: user, hour: window_start}}, {to_table: {store: kept}}, "
            "{join: {table: people, type: left, by: {user: user}}}",
            "",
        ),
    ],
)
def test_tables_in_the_same_windows_are_joined(compiled: Compile, steps: str, found: str) -> None:
    window = "{window: {hopping: 1h, advance: 30m, grace: 5m}}"
    aggregate = "{aggregate: {values: {%s: count(*)}}}"
    by_hour = f"  people_by_hour: {{from: users, steps: [{window}, {aggregate % 'p'}]}}\n"
    visits = f"  visits: {{from: users, steps: [{window}, {aggregate % 'm'}, {steps}], to: out}}\n"
    flows = f"stores:\n  kept: {{}}\ntables:\n  people: {{topic: users}}\nflows:\n{HOURLY}{by_hour}{visits}"
    diagnostics = compiled(TOPICS, flows).diagnostics
    errors = (each for each in diagnostics if each.severity is Severity.ERROR)
    assert [f"{each.code} {each.message}"[: len(found)] for each in errors] == ([found] if found else [])


def test_stores_of_two_sides_of_a_flow_need_names_of_their_own(compiled: Compile) -> None:
    def joins(name: str) -> str:
        first, second = (f"join: {{table: people, values: {{{column}: '1'}}}}" for column in "ab")
        steps = f"[{{filter: seconds > 1}}, {{{first}}}, {{filter: seconds > 2}}, {{{name}{second}}}]"
        return f"{OF_TABLES}  visits: {{from: latest, steps: {steps}, to: out}}\n"

    (only,) = compiled(TOPICS, joins("")).diagnostics
    message = "The store 'visits-people', of this side of the join, exists already."
    assert (only.code, only.message) == ("HW309", message)
    assert not compiled(TOPICS, joins("name: again, ")).diagnostics


@pytest.mark.parametrize(
    ("steps", "stores", "hint"),
    [
        ("{aggregate: {store: totals, values: {n: count(*)}}}", "[totals]", "Only processors share stores."),
        ("{filter: age > 1}", "[totals, totals]", "A store belongs to one step: declare another one."),
    ],
)
def test_store_is_shared_by_processors_alone(compiled: Compile, steps: str, stores: str, hint: str) -> None:
    topology = (
        "topology: site\nstores:\n  totals: {type: key_value, key: {user: string}, value: {n: bigint}}\nflows:\n"
        f"  visits: {{from: users, steps: [{steps}], to: out}}\n"
        f"  seen: {{from: users, steps: [{{process: {{function: functions.f:F, stores: {stores}}}}}], to: found}}\n"
    )
    found = [each for each in compiled(TOPICS, topology).diagnostics if each.code == "HW309"]
    assert [(each.position.line, str(each.hint).startswith(hint)) for each in found] == [(7, True)]


SESSIONS = "{window: {session: 5m}}, {aggregate: {emit: on_close, values: {n: count(*)}}}"
BY = "{join: {table: others, by: {user: others.name}, values: {n: others.name}}}"
WAYS_OUT = [
    (
        "stores: {s: {type: window}}",
        f"from: clicks, steps: [{SESSIONS}]".replace("emit: on_close", "store: s"),
        "HW506",
        "Write `type: session` at 's', or name another store.",
    ),
    (
        "",
        "from: users, steps: [{join: {stream: users, within: 1m, values: {older: age}}}]",
        "HW404",
        "Write this.age or other.age.",
    ),
    (
        "tables: {people: {topic: users}, others: {topic: users}}",
        f"from: people, steps: [{BY}]",
        "HW403",
        "Write an expression over the flow's columns: user, name, age.",
    ),
    (
        "",
        f"from: clicks, steps: [{SESSIONS}, {{select: {{s: window_end - window_start}}}}]",
        "HW411",
        "For milliseconds write `unix_millis(a) - unix_millis(b)`; or cast it, to a string for example.",
    ),
    (
        "",
        "from: clicks, steps: [{join: {stream: users, within: 1m, values: {then: users._timestamp}}}]",
        "HW403",
        "Copy it into a column before, with `with_columns`.",
    ),
    (
        "",
        f"from: clicks, steps: [{SESSIONS}, {{suppress: {{until: window_closes}}}}]",
        "HW501",
        "Put it right behind the aggregate; or remove it, if the aggregate has `emit: on_close`.",
    ),
    (
        "",
        "from: users, steps: [{process: {function: functions.f:F, stores: [s]}}]",
        "HW304",
        "Declare it under `stores:`, with its `type`, `key` and `value`.",
    ),
]


@pytest.mark.parametrize(("others", "flow", "code", "hint"), WAYS_OUT, ids=lambda each: each if "HW" in each else "")
def test_hint_is_a_way_out_of_this_very_mistake(
    compiled: Compile, others: str, flow: str, code: str, hint: str
) -> None:
    project = compiled(
        TOPICS,
        f"{others}\nflows:\n  f: {{{flow}, to: out}}\n",
        functions__f="class F:\n    def process(self, record): ...\n",
    )
    assert [(each.code, each.hint) for each in project.diagnostics] == [(code, hint)]


def test_table_with_windows_is_joined_by_a_stream_as_its_hint_says(compiled: Compile) -> None:
    windows = "  s: {from: clicks, steps: [{window: {session: 5m}}, {aggregate: {values: {n: count(*)}}}]}\n"
    (only,) = compiled(
        TOPICS, f"flows:\n{windows}  f: {{from: users, steps: [{{join: {{table: s}}}}], to: out}}"
    ).diagnostics
    assert (only.code, "`to_stream`, `key_by` without the window and `to_table`" in str(only.hint)) == ("HW503", True)
    last = "  l: {from: s, steps: [to_stream, {key_by: {user: user}}, to_table]}\n"
    joined = "  f: {from: users, steps: [{join: {table: l}}], to: out}"
    assert not compiled(TOPICS, f"flows:\n{windows}{last}{joined}").diagnostics


def test_merge_of_unequal_partitions_is_repartitioned_before_state(compiled: Compile) -> None:
    topics = TOPICS + "moves: {partitions: 3, key: {user: string}, value: {name: string, age: int}}\n"
    steps = "[{aggregate: {values: {n: count(*)}}}]"
    project = compiled(topics, f"flows:\n  all: {{from: [users, moves], steps: {steps}, to: out}}\n")
    assert not list(project.diagnostics)
    (graph,) = project.topologies
    assert [(topic.name, topic.partitions) for topic in graph.topics if "repartition" in topic.name] == [
        ("shop-t-all-repartition", 3)
    ]


def test_named_re_keys_have_topics_of_their_own(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - key_by: {url: url}
                name: by_url
              - aggregate:
                  values: {n: count(*)}
              - to_stream
              - key_by: {n: n}
                name: by_n
              - repartition
            to: out
        """,
    )
    assert not list(project.diagnostics)
    assert project.topologies[0].repartition_topics == (
        "shop-t-visits-by_url-repartition",
        "shop-t-visits-by_n-repartition",
    )


def test_window_of_a_topic_must_be_declared(compiled: Compile) -> None:
    topics = TOPICS + "out: {partitions: 2, key: {user: string}, value: {n: bigint}}\n"
    steps = "[{window: {tumbling: 1h}}, {aggregate: {values: {n: count(*)}}}]"
    project = compiled(topics, f"flows:\n  visits: {{from: clicks, steps: {steps}, to: out}}\n")
    (diagnostic,) = project.diagnostics
    assert diagnostic.message == "The key of the flow has a window, the key of the topic 'out' has none."


def test_merge_of_streams_whose_keys_have_another_order_is_refused(compiled: Compile) -> None:
    project = compiled(
        """
        ab: {partitions: 2, key: {a: int, b: int}, value: {x: int, y: int}}
        ba: {partitions: 2, key: {b: int, a: int}, value: {y: int, x: int}}
        """,
        """
        flows:
          both:
            from: [ab, ba]
            steps:
              - to_table
            to: out
        """,
    )
    (diagnostic,) = project.diagnostics
    assert diagnostic.code == "HW512"
    assert "a different order" in diagnostic.message


@pytest.mark.parametrize(
    "module",
    [
        "rows: object = None",
        "rows, other = None, None",
        "if True:\n    def rows(): ...",
        "try:\n    from fast import rows\nexcept ImportError:\n    rows = None",
        "from other import *",
        "# coding: latin-1\ndef rows(): ...",
    ],
)
def test_function_may_be_defined_in_any_way(compiled: Compile, module: str) -> None:
    topics = "clicks: {partitions: 2, value: {a: int}, seed: {function: functions.seeds:rows}}"
    assert not found(compiled(topics, functions__seeds=module))


def test_name_inside_of_a_function_is_not_the_modules(compiled: Compile) -> None:
    topics = "clicks: {partitions: 2, value: {a: int}, seed: {function: functions.seeds:rows}}"
    project = compiled(topics, functions__seeds="def f():\n    rows = 1\n")
    assert [code for code, _, _ in found(project)] == ["HW305"]


def test_retention_of_a_store_that_keeps_everything_is_refused(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        tables:
          people: {topic: users, store: names}
        stores:
          names: {type: key_value, retention: 1d}
        flows:
          copy: {from: people, to: out}
        """,
    )
    assert [code for code, _, _ in found(project)] == ["HW210"]
    assert pointed_at(project) == "1d"


def test_topology_cannot_commit_where_seeds_do(tmp_path: Path, compiled: Compile) -> None:
    compiled(TOPICS, "flows:\n  copy: {from: users, to: out}\n")
    (tmp_path / "topologies" / "t.yml").write_text("topology: seed\nflows:\n  copy: {from: users, to: out}\n")
    project = compile_project(tmp_path)
    assert [code for code, _, _ in found(project)] == ["HW209"]
    assert pointed_at(project) == "seed"


def test_hop_that_puts_a_record_into_millions_of_windows_is_refused(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - window: {hopping: 30d, advance: 1ms}
              - aggregate:
                  values:
                    visits: count(*)
            to: out
        """,
    )
    assert [code for code, _, _ in found(project)] == ["HW515"]
    assert pointed_at(project) == "1ms"


@pytest.mark.parametrize(
    ("value", "of_a_table", "shown"),
    [
        ("max_by(url, seconds)", True, "'max_by' cannot subtract"),
        ("every(seconds > 3)", True, "'every' cannot subtract"),
        ("count_if(seconds)", False, "'count_if' takes booleans; this has type int"),
        ("min_by(url, seconds, 3)", False, "'min_by' has too many arguments: it takes at most 2"),
        ("bool_or(seconds > 3, true)", False, "the function has 2 arguments and takes at most 1"),
        ("max_by(url, at) + seconds", False, "'seconds' is outside of an aggregate"),
        ("max_by(url + tags, at)", False, 'Cannot resolve "(url + tags)"'),
        (
            "max_by(url, seconds) + collect_list(url)",
            False,
            'Cannot resolve "(max_by(url, seconds) + collect_list(url))"',
        ),
    ],
)
def test_message_about_an_aggregate_speaks_of_it_as_it_is_written(
    compiled: Compile, value: str, of_a_table: bool, shown: str
) -> None:
    step = "to_table" if of_a_table else "{filter: seconds > 0}"
    project = compiled(
        TOPICS,
        f"""
        flows:
          first: {{from: clicks, steps: [{step}]}}
          visits:
            from: first
            steps:
              - key_by: {{u: url}}
              - aggregate:
                  values:
                    found: {value}
            to: out
        """,
    )
    (diagnostic,) = project.diagnostics
    assert shown in diagnostic.message
    assert "IF(" not in f"{diagnostic.message}{diagnostic.hint}"
    assert pointed_at(project) in value


def test_aggregate_that_stands_for_another_knows_how_it_was_written(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          visits:
            from: clicks
            steps:
              - aggregate:
                  values:
                    last: "max_by(url, at)"
                    long: count_if(seconds > 9) / count(*)
            to: out
        """,
    )
    (store,) = project.topologies[0].stores
    written = [aggregate.text for aggregate in store.aggregates]
    assert written == ["max_by(url, at)", "count_if(seconds > 9)", "count(*)"]


@pytest.mark.parametrize(
    ("source", "kept"), [("latest", {"clicks", "users"}), ("clicks", {"clicks"})], ids=["tables", "lookup"]
)
def test_dead_letters_are_those_of_both_joined_tables_but_not_of_a_table_to_look_up_rows_in(
    compiled: Compile, source: str, kept: set[str]
) -> None:
    join = "{join: {table: people, values: {n: cast(people.name as int)}}}"
    visits = f"  visits: {{from: {source}, on_error: dead_letter, steps: [{join}], to: out}}\n"
    project = compiled(TOPICS, OF_TABLES + visits)
    assert {name.removeprefix("t_").removesuffix("_dead_letter") for name in project.topics if "dead" in name} == kept


def test_dead_letters_are_a_topic_that_another_topology_may_read(compiled: Compile) -> None:
    project = compiled(
        TOPICS,
        """
        flows:
          seen:
            from: clicks
            on_error: dead_letter
            to: seen_clicks
          failed:
            from: t_clicks_dead_letter
            steps:
              - select: {topic: topic, error: error}
            to: errors
        """,
    )
    assert not found(project)
    topic = project.topics["t_clicks_dead_letter"]
    assert (topic.partitions, topic.key, topic.writer) == (project.topics["clicks"].partitions, "", "shop-t")
