"""Expressions over columns of every type: refused where Spark refuses or fails, and of Spark's type elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.language.expressions import Scope
from headwater.compiler.language.type_checker import TypeChecker, VerdictCache
from headwater.compiler.language.udfs import read
from headwater.compiler.reading.source import FixedOrigin, ScalarNode
from headwater.runtime.expressions.analyzer import Rejection
from headwater.runtime.records.cast_texts import never_casts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES = {
    "boolean": "true",
    "tinyint": "5Y",
    "smallint": "5S",
    "int": "5",
    "bigint": "5L",
    "float": "5F",
    "double": "5D",
    "decimal(10,2)": "cast(5 as decimal(10,2))",
    "string": "'five'",
    "binary": "X'05'",
    "date": "date '2024-05-05'",
    "timestamp": "timestamp '2024-05-05 05:05:05'",
    "timestamp_ntz": "timestamp_ntz '2024-05-05 05:05:05'",
    "array<int>": "array(5)",
    "array<string>": "array('five')",
    "map<string,int>": "map('a', 5)",
    "struct<a:int>": "named_struct('a', 5)",
}
"""A value of each type, as an expression of that type."""

FORMS = """
{} = 5
{} >= 1.5
{} < 'lots'
{} = '5'
{} > '2024-05-04'
{} = true
{} <=> date '2024-05-05'
{} > timestamp '2024-05-05 00:00:00'
{} in (1, 2)
{} in ('a', 'b')
{} between 1 and 9
coalesce({}, 0)
coalesce({}, 'none')
nvl({}, date '2024-05-05')
if(flag, {}, 0.5)
case when flag then {} else 0 end
case when flag then {} when not flag then 'x' end
case {} when 5 then 1 end
nullif({}, 0)
array({}, 1)
{} + 1
{} - 'x'
{} * 1.5
-{}
not {}
{} and flag
abs({})
round({}, 1)
upper({})
substring({}, 'x', 1)
year({})
date_add({}, 1)
date_format({}, 'yyyy')
greatest({}, 1)
concat({}, 'x')
{} || 1
sha2({}, 256)
cast({} as int)
try_cast({} as date)
int({})
"""

CONSTANTS = """
cast('abc' as int)
cast('5' as int)
cast('1.5' as int)
cast('300' as tinyint)
cast(' 7 ' as bigint)
cast('1e3' as double)
cast('0x1p3' as double)
cast('NaN' as float)
cast('x' as decimal(10,2))
cast('maybe' as boolean)
cast('no' as boolean)
cast('2024-02-30' as date)
cast('2024-2-3' as date)
cast('x' as timestamp)
'abc'::int
try_cast('abc' as int)
date '2024-01-31'
to_date('x')
1 / 0
try_divide(1, 0)
array(1)[3]
if(1 = 0, 1 / 0, 1)
"""


def scalar(sql: str) -> ScalarNode:
    at = Position("f.yml")
    return ScalarNode(sql, sql, at, FixedOrigin(at))


def findings(sql: str, types: dict[str, str], analyzer: Any) -> tuple[str | None, list[tuple[str, str, str | None]]]:
    """The type of an expression and what is reported of it."""
    diagnostics = Diagnostics()
    scope = Scope({}, types)
    expression = read(scalar(sql), scope, diagnostics)
    found = None
    if expression is not None:
        (found,) = TypeChecker(analyzer, VerdictCache(None), diagnostics).types([(expression, scope)])
    return found, [(each.code, each.message, each.hint) for each in diagnostics]


def outcome(spark: SparkSession, sql: str, value: str) -> str:
    """What Spark makes of an expression over a value and over a null: its type, or what goes wrong and when."""
    every = ", ".join(f"({each}, {flag})" for each in (value, "null") for flag in ("true", "false"))
    rows = spark.sql(f"select * from values {every} as t(c, flag)")
    try:
        frame = rows.selectExpr(sql)
    except Exception:
        return "refused"
    try:
        frame.collect()
    except Exception:
        return "fails"
    return str(frame._jdf.schema().apply(0).dataType().catalogString())


@pytest.mark.parametrize(
    ("part", "parts"), [(0, 9), *(pytest.param(part, 3, marks=pytest.mark.soak) for part in range(3))]
)
def test_each_form_over_each_type_is_refused_or_has_the_type_of_spark(
    spark_session: SparkSession, part: int, parts: int
) -> None:
    """All forms and all types are in each part."""
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    analyzer = SparkAnalyzer({"master": "local[2]"})
    wrong = []
    silent = 0
    for number, (type_, value) in enumerate(VALUES.items()):
        columns = {"c": type_, "flag": "boolean"}
        for form in FORMS.strip().splitlines()[(number + part) % parts :: parts]:
            sql = form.format("c")
            found, reported = findings(sql, columns, analyzer)
            codes = {code for code, _, _ in reported}
            spark = outcome(spark_session, sql, value)
            if spark == "fails" and codes == {"HW414"}:
                silent += 1
            elif spark == "fails" and sql in ("cast(c as int)", "int(c)"):
                assert type_ == "string"  # the cast is written: what is no number fails, as it says
                assert found == "int"
            elif spark == "refused" and "HW411" in codes:
                continue
            elif ({"HW415"} if spark == "fails" else set()) != codes or (not codes and found != spark):
                wrong.append((sql, type_, spark, found, reported))
            _, without_spark = findings(sql, columns, None)
            if not set(without_spark) <= set(reported):
                wrong.append((sql, type_, "parse says more than compile", without_spark, reported))
    assert not wrong, "\n".join(map(str, wrong))
    assert silent > 9 // parts


def test_constants_that_fail_are_refused_and_no_others(spark_session: SparkSession) -> None:
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    analyzer = SparkAnalyzer({"master": "local[2]"})
    for sql in CONSTANTS.strip().splitlines():
        _, reported = findings(sql, {}, analyzer)
        _, without_spark = findings(sql, {}, None)
        fails = outcome(spark_session, sql, "1") == "fails"
        assert bool(reported) == fails, sql
        assert {code for code, _, _ in reported} <= {"HW415"}
        assert set(without_spark) <= set(reported)


TEXTS = ["5", " 5 ", "+5", "-129", "5.", ".5", "1e3", "1E400", "5d", "0x5", "inf", "-Infinity", "nan", "x", "", "1_0"]
TEXTS += ["true", "T", "yes", "on", "2024", "2024-5", "2024-05-05", "2024-13-05", "2023-02-29", "2024-05-05T05"]
TEXTS += ["2024-05-05 05:05", "2024-05-05x", "24-05-05", "12:30", "T12:30", "now", "today", "99999999999999999999"]


@pytest.mark.parametrize("type_", [type_ for type_ in VALUES if type_ not in ("string", "binary") and "<" not in type_])
def test_text_that_never_casts_is_one_that_spark_cannot_cast(spark_session: SparkSession, type_: str) -> None:
    casts = ", ".join(f"try_cast('{text}' as {type_})" for text in TEXTS)
    (values,) = spark_session.sql(f"select {casts}").collect()
    cast = [text for text, value in zip(TEXTS, values, strict=True) if value is not None]
    assert [text for text in cast if never_casts(text, type_)] == []
    assert [text for text in ("x", "") if never_casts(text, type_)] == ["x", ""]


def test_all_mistakes_of_an_expression_are_found_in_the_order_of_its_text(spark_session: SparkSession) -> None:
    from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer

    sql = "number = flag and amount > 'lots' and coalesce(word, 0) = tags and tags - 3 > 0"
    columns = "number int, flag boolean, amount double, word string, tags map<string,int>"

    (refused,) = SparkAnalyzer({"master": "local[2]"}).analyze([(sql, columns)])

    assert isinstance(refused, Rejection)
    assert [(each.code, sql[each.offset : each.end]) for each in (refused, *refused.further)] == [
        ("HW411", "number = flag"),
        ("HW415", "'lots'"),
        ("HW411", "coalesce(word, 0) = tags"),
        ("HW414", "word"),
        ("HW411", "tags - 3"),
    ]


def test_several_mistakes_are_kept_in_the_cache(tmp_path: Any) -> None:
    cache = VerdictCache(tmp_path / "expressions.json")
    verdict = Rejection("One.", 1, "HW414", "Do.", 3, (Rejection("Two.", 5),))
    cache.put(("a", "b"), verdict)
    cache.save()
    assert VerdictCache(tmp_path / "expressions.json").get(("a", "b")) == verdict
