"""The types that are known without Spark are Spark's own, and Spark refuses nothing of what has one."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater.compiler.language.type_checker import SPARK, UntypedAnalyzer
from headwater.runtime.expressions.terms import USE_OTHERS, UntypedError
from headwater.runtime.expressions.typed import type_of
from headwater.runtime.expressions.types import canonical, ddl
from headwater.runtime.records.names import UNKNOWN_TYPES
from headwater.runtime.records.types import split_columns
from headwater.tests.compiler.verdicts import recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "b": "boolean",
    "t": "tinyint",
    "h": "smallint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "m": "decimal(12,2)",
    "m2": "decimal(38,10)",
    "s": "string",
    "s2": "string",
    "day": "date",
    "at": "timestamp",
    "at2": "timestamp_ntz",
    "bin": "binary",
    "a": "array<string>",
    "ai": "array<int>",
    "mp": "map<string,int>",
    "st": "struct<x:int,y:string>",
    "_ts": "bigint",
}
LEAVES = {
    "b": ["b", "true", "false", "b", "b"],
    "n": [*"thilfd", "m", "m2", "0", "1", "-2", "60", "2147483648", "-2147483648", "1.5", "0.05", "-3.25", "100.00"],
    "s": ["s", "s2", "s", "''", "'a'", "'it''s'", "'2024-01-31'", "'12:30'", "'5'"],
    "d": ["day", "day", "date '2024-02-29'", "'2024-01-31'", "'2024-02-30'"],
    "m": ["at", "timestamp_millis(_ts)", "'2024-01-31 12:30:00'", "'2024-01-31'", "'today'", "at2"],
    "a": ["a", "ai", "array('a', s)"],
    "x": ["bin", "mp", "st", "null"],
}
"""Kind of value -> SQL. Some of it is left to Spark."""

FORMS = {
    "b": [
        *(f"{{{kind}}} {word} {{{kind}}}" for kind in "nsdmb" for word in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
        *(f"{{{kind}}} is null" for kind in "nsdmabx"),
        *(f"{{{kind}}} is not null" for kind in "nx"),
        *(f"{{{kind}}} between {{{kind}}} and {{{kind}}}" for kind in "nsdm"),
        *(f"{{{kind}}} in ({{{kind}}}, {{{kind}}})" for kind in "nsdm"),
        "{n} not in (1, null)",
        "{b} and {b}",
        "{b} or {b}",
        "not {b}",
        "{b} is true",
        "{s} like '%x_'",
        "{s} not like {s}",
        "{s} rlike 'a+'",
        "startswith({s}, {s})",
        "contains({s}, {s})",
        "array_contains({a}, {s})",
        "array_contains({a}, {n})",
        "isnull({n})",
        "cast({n} as boolean)",
        "cast({s} as boolean)",
        "map_contains_key(mp, {s})",
        "isnan({n})",
    ],
    "n": [
        *(f"{{n}} {word} {{n}}" for word in ("+", "-", "*", "/", "%", "div")),
        "- {n}",
        "+{n}",
        *(f"cast({{n}} as {type_})" for type_ in ("int", "bigint", "double", "float", "decimal(10,3)", "tinyint")),
        *(f"cast({{s}} as {type_})" for type_ in ("int", "bigint", "double", "decimal(10,3)")),
        *(f"cast({{{kind}}} as int)" for kind in "bdmx"),
        "{n}::int",
        "try_cast({s} as bigint)",
        "int({s})",
        *(f"{name}({{n}})" for name in ("abs", "round", "ceil", "floor", "sqrt", "ln", "exp")),
        "round({n}, 2)",
        "pow({n}, {n})",
        "length({s})",
        "instr({s}, {s})",
        "size({a})",
        "size({x})",
        *(f"{name}({{{kind}}})" for name in ("year", "month", "day", "dayofweek", "quarter") for kind in "dm"),
        *(f"{name}({{m}})" for name in ("hour", "minute", "unix_seconds", "unix_millis")),
        "datediff({d}, {m})",
        "unix_date({d})",
        "greatest({n}, {n})",
        "least({n}, {n}, {n})",
        "pmod({n}, {n})",
        *(f"{name}({{n}})" for name in ("positive", "bround", "sign")),
        "bround({n}, 1)",
        *(f"{name}({{m}})" for name in ("unix_timestamp", "to_unix_timestamp", "dayofyear", "weekofyear", "weekday")),
        "date_diff({d}, {d})",
        *(f"{name}({{{kind}}})" for name in ("cardinality", "array_size", "array_max") for kind in "ax"),
        "get(ai, {n})",
        "element_at(ai, {n})",
        "element_at(ai, 0)",
        "element_at(mp, {s})",
        "try_element_at(ai, 5)",
        "ai[{n}]",
        "mp[{s}]",
        "nvl2({s}, {n}, {n})",
        "nanvl({n}, {n})",
        "negative({n})",
    ],
    "s": [
        "from_json({s}, 'a string, b struct<c double>').A",
        "from_json({s}, 'a string, b struct<c string>').b.c",
        *(f"cast({{{kind}}} as string)" for kind in "nbdms"),
        "{s} || {s}",
        "{s} || {n}",
        "concat({s}, {n}, {m})",
        "concat_ws('-', {s}, {s})",
        *(f"{name}({{s}})" for name in ("upper", "lower", "trim", "ltrim", "reverse")),
        "left({s}, 2)",
        "substring({s}, 2)",
        "substr({s}, 2, {n})",
        "replace({s}, {s}, {s})",
        "repeat({s}, 2)",
        "greatest({s}, {s})",
        "lpad({s}, {n}, {s})",
        "rpad({s}, 3)",
        "btrim({s})",
        "btrim({s}, {s})",
        "trim(both {s} from {s})",
        "split_part({s}, {s}, 0)",
        "substring_index({s}, '.', {n})",
        "array_join({a}, {s})",
    ],
    "d": [
        "cast({s} as date)",
        "cast({m} as date)",
        "to_date({m})",
        "to_date({s})",
        *(f"{name}({{d}}, {{n}})" for name in ("date_add", "dateadd", "date_sub", "add_months")),
        "last_day({d})",
        "make_date({n}, 13, 1)",
        "date_from_unix_date({n})",
        "trunc({d}, 'month')",
        "trunc({m}, 'x')",
    ],
    "m": [
        "cast({s} as timestamp)",
        "cast({d} as timestamp)",
        "date_trunc('hour', {m})",
        "date_trunc('x', {d})",
        "to_timestamp({s})",
    ],
    "a": [
        "split({s}, ',')",
        "array({n}, {n})",
        "array({s}, {s})",
        "array({m})",
        "slice({a}, 0, {n})",
        "map_keys({x})",
        "map_values(mp)",
    ],
    "x": [
        "from_json({s}, 'a int, B array<struct<`c`: string>>')",
        "from_json({s}, 'struct<a: decimal(5,1), b timestamp>')",
        "named_struct('by', {n}, 'value', {s})",
        "named_struct('by', {m}, 'v w', {a})",
    ],
}
ALIKE = (
    "coalesce({0}, {1})",
    "nvl({0}, {1})",
    "nullif({0}, {1})",
    "if({2}, {0}, {1})",
    "case when {2} then {0} when {2} then {1} end",
    "case when {2} then {0} else {1} end",
    "case {0} when {1} then {0} end",
)
AGGREGATES = (
    *("count", "sum", "avg", "min", "max", "first", "last", "any_value"),
    *("collect_list", "approx_count_distinct"),
)


def expressions(kind: str, depth: int) -> st.SearchStrategy[str]:
    """SQL of a kind of values, and now and then of another one."""
    return st.deferred(lambda: _expressions(kind, depth))


def _expressions(kind: str, depth: int) -> st.SearchStrategy[str]:
    leaves = st.sampled_from(LEAVES[kind])
    if depth == 0:
        return leaves

    def part(each: str) -> st.SearchStrategy[str]:
        below = expressions(each, depth - 1)
        other = st.sampled_from("bnsdmax").flatmap(lambda kind: expressions(kind, depth - 1))
        return st.integers(0, 29).flatmap(lambda n: other if n == 0 else below if n < 15 else below.map("({})".format))

    def of(form: str) -> st.SearchStrategy[str]:
        kinds = [each[0] for each in form.split("{")[1:]]
        empty = "".join("{" + each[1:] if number else each for number, each in enumerate(form.split("{")))
        return st.tuples(*map(part, kinds)).map(lambda parts: empty.format(*parts))

    alike = st.tuples(st.sampled_from(ALIKE), part(kind), part(kind), part("b"))
    return st.one_of(
        leaves,
        st.sampled_from(FORMS[kind]).flatmap(of),
        st.sampled_from(FORMS[kind]).flatmap(of),
        alike.map(lambda each: each[0].format(*each[1:])),
    )


ANY = st.sampled_from("bnsdmax").flatmap(lambda kind: expressions(kind, 2))
ASKED = ANY | st.builds("{}({})".format, st.sampled_from(AGGREGATES), ANY)


def claimed(sql: str, columns: dict[str, str]) -> str | None:
    try:
        return type_of(sql, columns)
    except UntypedError:
        return None


def test_types_of_recorded_expressions_are_those_that_spark_gave() -> None:
    said = {request: claimed(request[0], dict(split_columns(request[1]))) for request in recorded()}

    known = {request: type_ for request, type_ in said.items() if type_ is not None}
    assert known == {request: recorded()[request] for request in known}
    assert len(known) > len(said) * 0.9


def test_types_are_those_of_the_spark_that_is_installed() -> None:
    assert version("pyspark") == SPARK, "compare all types with it, then name it in `type_checker.py`"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("s + 1", "the type of `+` of string, int is only known to Spark"),
        ("1 / 0", "the result of `/` of literals is only known to Spark"),
        ("+s", "a plus in front of a value is only known to Spark"),
        ("i = d = l", "the order of comparisons without parentheses is only known to Spark"),
        ("at > '12:30'", "the type of `>` of timestamp, string is only known to Spark"),
        ("at > '2023-02-29'", "the type of `>` of timestamp, string is only known to Spark"),
        ("nvl2(s, b)", "the type of `nvl2` of string, boolean is only known to Spark"),
        ("array_size(mp)", "the type of `array_size` of map<string,int> is only known to Spark"),
        ("crc32(s)", "the type of `crc32` is only known to Spark"),
        ("date_format(at, 'q')", "the type of `date_format` is only known to Spark"),
        ("max(mp)", "the type of `max` of map<string,int> is only known to Spark"),
        ("sum(sum(i))", "the type of `sum` is only known to Spark"),
        ("null", "the type of `null` is only known to Spark"),
        ("'a\\'b'", "the meaning of a backslash is only known to Spark"),
        ("from_json(s, 'a int not null')", "the type 'a int not null' is only known to Spark"),
        ("from_json(s, 'a int, A int')", "only Spark knows which of two fields of struct<a:int,A:int> is meant"),
        ("from_json(s, 'a int').b", "the field `b` of struct<a:int> is only known to Spark"),
        ("(" * 70 + "i" + ")" * 70, "it is nested very deeply"),
    ],
)
def test_what_only_spark_knows_is_left_to_it_with_a_reason(sql: str, reason: str) -> None:
    with pytest.raises(UntypedError) as found:
        type_of(sql, COLUMNS)

    assert found.value.reason == reason


@pytest.mark.spark
def test_types_of_generated_expressions_are_those_that_spark_gives(spark_session: SparkSession) -> None:
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    analyzer = SparkAnalyzer({"master": "local[2]"})
    columns = ddl(COLUMNS)
    proven = []

    # Not shrunk: each try asks Spark, and what fails is one expression of a line.
    @settings(max_examples=settings.default.max_examples // 5, phases=[Phase.generate])
    @given(st.lists(ASKED, min_size=100, max_size=100))
    def check(cases: list[str]) -> None:
        said = {sql: type_ for sql in cases if (type_ := claimed(sql, COLUMNS)) is not None}
        given = analyzer.analyze([(sql, columns) for sql in said])
        found = [canonical(type_) if isinstance(type_, str) else type_ for type_ in given]
        assert said == dict(zip(said, found, strict=True))
        guessed = [sql for sql in cases if sql not in said]
        asked = [(sql, columns) for sql in guessed]
        for sql, guess, type_ in zip(guessed, UntypedAnalyzer().analyze(asked), analyzer.analyze(asked), strict=True):
            if isinstance(type_, str) and type_ != "void" and guess not in UNKNOWN_TYPES:
                assert (sql, guess) == (sql, canonical(type_))
        proven.extend(said)

    check()
    assert len(proven) > 100


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("s + 1", "cast(s as int) + 1"),
        ("coalesce(s, 0)", "coalesce(cast(s as int), 0)"),
        ("i = d = l", "(i = d) = (l = i)"),
        ("+i", "i"),
        ("cast(1 as bigint)", "1"),
        ("cast('5' as int)", "5"),
        ("null", "if(false, i, null)"),
        ("cast(null as int)", "if(false, i, null)"),
        ("s rlike 'a\\\\.b'", "s rlike 'a[.]b'"),
        ("d div i", "cast(d as bigint) div i"),
    ],
)
def test_what_is_said_to_write_instead_is_typed(sql: str, instead: str) -> None:
    with pytest.raises(UntypedError) as found:
        type_of(sql, COLUMNS)
    assert found.value.instead != USE_OTHERS
    assert type_of(instead, COLUMNS)
