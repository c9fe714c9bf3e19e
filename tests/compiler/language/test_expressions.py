from __future__ import annotations

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.language.aggregates import AggregateValue, read_aggregate
from headwater.compiler.language.expressions import Expression, Scope
from headwater.compiler.language.udfs import read
from headwater.compiler.reading.source import ScalarNode

SCOPE = Scope(
    key={"user": "string", "both": "int"},
    value={"seconds": "int", "both": "int", "at": "timestamp", "tags": "array<string>", "place": "struct<city:string>"},
    table="people",
    table_key={"user": "string"},
    table_value={"name": "string"},
)


class Characters:
    """An origin that shows an offset as the column."""

    def position(self, offset: int, end: int | None = None) -> Position:
        return Position("t.yml", 1, offset, end)


def scalar(text: str) -> ScalarNode:
    return ScalarNode(text, text, Position("t.yml"), Characters())


def expression(text: str, scope: Scope = SCOPE) -> tuple[Expression | None, Diagnostics]:
    found = Diagnostics()
    return read(scalar(text), scope, found), found


def aggregate(text: str) -> tuple[AggregateValue | None, Diagnostics]:
    found = Diagnostics()
    return read_aggregate(scalar("x"), scalar(text), SCOPE, found), found


def refs(text: str) -> list[tuple[str, str]]:
    found, diagnostics = expression(text)
    assert found is not None, list(diagnostics)
    return [(ref.role, ref.name) for ref in found.refs]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seconds > 3", [("value", "seconds")]),
        ("SECONDS > 3", [("value", "seconds")]),
        ("key.both + value.both", [("key", "both"), ("value", "both")]),
        ("people.name", [("table", "name")]),
        ("name", [("table", "name")]),
        ("place.city", [("value", "place")]),
        ("value.place.city", [("value", "place")]),
        ("`seconds` + 1", [("value", "seconds")]),
        ("_timestamp > at", [("meta", "_timestamp"), ("value", "at")]),
        ("at < current_timestamp()", [("value", "at"), ("meta", "_now")]),
        ("at < current_timestamp", [("value", "at"), ("meta", "_now")]),
        ("exists(tags, t -> t = user)", [("value", "tags"), ("key", "user")]),
        ("extract(hour from at) + date_part('day', at)", [("value", "at"), ("value", "at")]),
        ("cast(seconds as decimal(10, 2))", [("value", "seconds")]),
        ("case when seconds > 3 then 'a' else user end", [("value", "seconds"), ("key", "user")]),
    ],
)
def test_column_is_resolved_by_its_role(text: str, expected: list[tuple[str, str]]) -> None:
    assert refs(text) == expected


@pytest.mark.parametrize(
    ("text", "code", "start", "end"),
    [
        ("seconds > secnds", "HW403", 10, 16),
        ("1 + both", "HW404", 4, 8),
        ("key.seconds", "HW403", 4, 11),
        ("people.user", "HW403", 7, 11),
        ("_offset > 3", "HW403", 0, 7),
        ("seconds > lenght(user)", "HW405", 10, 16),
        ("seconds > rand()", "HW406", 10, 14),
        ("at > current_date", "HW406", 5, 17),
        ("seconds > unix_timestamp()", "HW406", 10, 24),
        ("user = session_user", "HW406", 7, 19),
        ("`rand`() > 0.5", "HW406", 0, 6),
        ("system.builtin.`rand`() > 0.5", "HW406", 15, 21),
        ("`reflect`('java.lang.System', 'exit') is null", "HW418", 0, 9),
        ("identifier('reflect')('java.lang.System', 'exit') is null", "HW401", None, None),
        ("xpath_string(user, 'a')", "HW418", 0, 12),
        ("from_avro(user, '{}')", "HW418", 0, 9),
        ("theta_union(user, user)", "HW405", 0, 11),
        ("`current_timestamp`()", "HW406", 0, 19),
        ("at > timestamp 'now'", "HW417", 15, 20),
        ("at > timestamp ' NOW UTC '", "HW417", 15, 26),
        ('at > timestamp_ntz"now"', "HW417", 18, 23),
        ("at > timestamp r'now'", "HW401", 15, 21),
        ("at > timestamp '\\u006eow'", "HW417", 15, 25),
        ("at > date 'to' 'day'", "HW401", 10, 14),
        ("at > date 'epoch'", "HW417", 10, 17),
        ("from_xml(user, 'a int', map('ROWValidationXSDPath', '/x'))", "HW419", 28, 50),
        ("from_json(user, 'a int', map('mode', user))", "HW419", 25, 42),
        ("to_csv(struct(seconds), map_from_arrays(array('sep'), array(';')))", "HW419", 24, 65),
        ("abs(" * 301 + "1" + ")" * 301, "HW420", 0, 301 * 5 + 1),
        ("not " * 5000 + "true", "HW420", 0, 5000 * 4 + 4),
        ("+".join(["seconds"] * 400), "HW420", 0, 400 * 8 - 1),
        ("`not there`() > 1", "HW405", 0, 11),
        ("json_tuple(user, 'a')", "HW407", 0, 10),
        ("explode(tags)", "HW407", 0, 7),
        ("max(seconds)", "HW408", 0, 3),
        ("seconds +", "HW401", 8, 9),
        ("seconds, both", "HW401", 0, 13),
        ("select 1", "HW401", None, None),
        ("seconds from t", "HW401", 0, 14),
        ("'open", "HW401", None, None),
    ],
)
def test_wrong_word_is_shown_at_its_own_place(text: str, code: str, start: int | None, end: int | None) -> None:
    found, diagnostics = expression(text)
    assert found is None
    (diagnostic,) = diagnostics
    assert diagnostic.code == code, diagnostic
    if start is not None:
        assert (diagnostic.position.column, diagnostic.position.end_column) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "at > timestamp '2024-05-01 12:00:00'",
        "at > date ' 2024-05-01'",
        "at > timestamp '-0044-03-15 00:00:00'",
        "user = 'now'",
        "date(at) > date(at)",
        "from_json(user, 'a int', map('Mode', 'FAILFAST', 'allowComments', 'true'))",
        "from_csv(user, 'a int', map())",
        "to_json(struct(seconds))",
        " or ".join(f"seconds = {number}" for number in range(2_000)),
        f"seconds in ({', '.join(map(str, range(2_000)))})",
        "+".join(["seconds"] * 299),
    ],
)
def test_expression_that_looks_like_a_refused_one_is_taken(text: str) -> None:
    found, diagnostics = expression(text)
    assert found is not None, list(diagnostics)


def test_comment_and_line_break_keep_the_places_behind_them() -> None:
    found, diagnostics = expression("seconds > 3 -- long\n  and\n  secnds < 5")
    (diagnostic,) = diagnostics
    assert found is None
    assert diagnostic.position.column == 28


def test_expression_of_several_lines_is_rendered_on_one() -> None:
    found, _ = expression("seconds > 3 -- long\n  and /* or */ seconds < 5")
    assert found is not None
    assert found.render(lambda ref: ref.name) == "seconds > 3 and seconds < 5"


@pytest.mark.parametrize(
    "text", ["seconds > 10L", "seconds > 0.5D + 1", "seconds > 1.5BD", "seconds > 1e-2", "seconds > .5"]
)
def test_number_is_rendered_as_it_is_written(text: str) -> None:
    found, diagnostics = expression(text)
    assert found is not None, list(diagnostics)
    assert found.render(lambda ref: ref.name) == text


@pytest.mark.parametrize(
    "text", ["user like any ('a%', 'b%')", "user not ilike some ('a%')", "user like all ('a%', '%b')"]
)
def test_list_of_patterns_is_no_aggregate(text: str) -> None:
    found, diagnostics = expression(text)
    assert found is not None, list(diagnostics)


def test_qualifiers_become_physical_names() -> None:
    found, _ = expression("key.both + value.both + people.name")
    assert found is not None
    assert found.render(lambda ref: f"<{ref.role}>") == "<key> + <value> + <table>"


def test_unknown_column_behind_an_error_is_not_reported_again() -> None:
    found, diagnostics = expression("anything > 3", Scope({}, {}, open=True))
    assert found is None
    assert not list(diagnostics)


def test_expression_over_aggregates_is_taken_apart() -> None:
    value, _ = aggregate("sum(seconds) / count(*)")
    assert value is not None
    assert [(call.name, call.argument.sql.text if call.argument else None) for call in value.calls] == [
        ("sum(seconds)", "seconds"),
        ("count(*)", None),
    ]
    assert value.result.render(lambda ref: f"[{ref.name}]") == "[sum(seconds)] / [count(*)]"


def test_computed_argument_keeps_its_columns() -> None:
    value, _ = aggregate("avg(seconds * value.both)")
    assert value is not None
    argument = value.calls[0].argument
    assert argument is not None
    assert argument.render(lambda ref: ref.name.upper()) == "SECONDS * BOTH"
    assert argument.as_column.name == "seconds * value.both"


@pytest.mark.parametrize(
    ("text", "name", "result"),
    [
        ("count_if(seconds > 3)", "count(IF(seconds > 3, 1, NULL))", "x"),
        ("count(seconds, at)", "count(IF((seconds) IS NOT NULL AND (at) IS NOT NULL, 1, NULL))", "x"),
        ("bool_or(seconds > 3)", "max(seconds > 3)", "x"),
        ("max_by(user, at)", "max(IF((at) IS NULL, NULL, named_struct('by', at, 'value', user)))", "x.value"),
    ],
)
def test_aggregate_is_written_by_a_simpler_one(text: str, name: str, result: str) -> None:
    value, diagnostics = aggregate(text)
    assert value is not None, list(diagnostics)
    assert value.calls[0].name == name
    assert value.result.render(lambda _: "x") == result


def test_literal_arguments_are_options() -> None:
    value, _ = aggregate("first(seconds, true)")
    assert value is not None
    assert value.calls[0].options == (True,)


@pytest.mark.parametrize(
    ("text", "deviation"), [("0.01", 0.01), ("1e-2", 0.01), (".05", 0.05), ("0.05D", 0.05), ("5E-1", 0.5)]
)
def test_number_is_read_however_sql_writes_it(text: str, deviation: float) -> None:
    value, diagnostics = aggregate(f"approx_count_distinct(user, {text})")
    assert value is not None, list(diagnostics)
    assert value.calls[0].options == (deviation,)


@pytest.mark.parametrize(
    ("text", "code", "start"),
    [
        ("approx_count_distinct(user, 0.0)", "HW409", 28),
        ("approx_count_distinct(user, -0.1)", "HW409", 28),
        ("approx_count_distinct(user, 'x')", "HW409", 28),
        ("count(*, seconds)", "HW409", 0),
        ("count(seconds, *)", "HW409", 0),
        ("count(all seconds)", "HW409", 6),
        ("max(`rand`())", "HW406", 4),
        ("sum(count(*))", "HW409", 0),
        ("count(distinct user)", "HW409", 0),
        ("sum(seconds) filter (where seconds > 3)", "HW409", 13),
        ("first(seconds, at)", "HW409", 15),
        ("max_by(seconds)", "HW409", 0),
        ("max(*)", "HW407", 4),
        ("seconds", "HW410", 0),
        ("max(seconds) - seconds", "HW410", 15),
        ("sum(seconds) over (order by at)", "HW407", None),
        ("max(secnds)", "HW403", 4),
    ],
)
def test_value_that_cannot_be_kept_up_is_refused(text: str, code: str, start: int | None) -> None:
    value, diagnostics = aggregate(text)
    assert value is None
    (diagnostic,) = diagnostics
    assert diagnostic.code == code, diagnostic
    assert start is None or diagnostic.position.column == start


def test_key_column_may_stand_beside_aggregates() -> None:
    value, _ = aggregate("concat(user, max(at))")
    assert value is not None
    assert [ref.role for ref in value.result.refs] == ["key", "aggregate"]
