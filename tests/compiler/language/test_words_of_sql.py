"""Columns called as words of SQL: read as columns in backticks, and told of without them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.language.expressions import Expression, Scope
from headwater.compiler.language.udfs import read
from headwater.compiler.reading.source import ScalarNode
from headwater.runtime.expressions.kernels import Batch
from headwater.runtime.expressions.misread import parse_expression
from headwater.runtime.expressions.reading import node_of
from headwater.runtime.records.names import SQL_WORDS, column_sql

FORMS = (
    *("{} + 7", "7 + {}", "{} > 1", "{}", "coalesce({}, 1)", "{} is null", "{} and {}", "not {}", "-{}", "{} / 2"),
    *("case when {} then {} else {} end", "c = {}", "c in ({}, 1)", "{} in (1)", "{} like 'a'", "cast({} as int)"),
    *("{} between {} and {}", "({})", "f({}, {})", "'a' = {}", "{} % 2", "{} * 2", "{}[0]"),
)
WORDS = sorted({word.lower() for word in Spark.Tokenizer.KEYWORDS if word.replace("_", "").isalpha()} | SQL_WORDS)


def columns(sql: str) -> list[str]:
    try:
        return [column.name for column in parse_expression(sql).find_all(exp.Column)]
    except SqlglotError:
        return []


@pytest.mark.parametrize("word", WORDS)
def test_word_is_a_column_of_every_form_as_generated_code_writes_it(word: str) -> None:
    name = column_sql(word)
    for form in FORMS:
        assert columns(form.format(*[name] * 3)).count(word) == form.count("{}"), form


@pytest.mark.spark
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_spark_reads_words_as_columns_as_generated_code_writes_them(spark_session, every: int) -> None:
    parser = spark_session._jsparkSession.sessionState().sqlParser()
    words = [row[0].lower() for row in spark_session.sql("select keyword from sql_keywords()").collect()]
    assert len(words) > 400
    forms = f"f({', '.join(FORMS)})"
    read = parser.parseExpression(forms.replace("{}", "no_word")).toString()
    for word in sorted({*words, *SQL_WORDS})[::every]:
        found = parser.parseExpression(forms.replace("{}", column_sql(word))).toString()
        assert found == read.replace("no_word", word), word


@pytest.mark.parametrize("word", ["partition", "timestamp", "cache", "show", "set", "true", "null", "from", "interval"])
def test_tasks_compute_with_a_column_called_as_a_word(word: str) -> None:
    batch = Batch({word: pa.array([5], pa.int32())}, 1)
    for sql in (f"{column_sql(word)} + 7", f"7 + {column_sql(word)}"):
        node = node_of(sql, {word: pa.int32()}, pa.int32())
        assert node.of(batch).array(1).to_pylist() == [12]


class Characters:
    """An origin that shows an offset as the column."""

    def position(self, offset: int, end: int | None = None) -> Position:
        return Position("t.yml", 1, offset, end)


def expression(text: str) -> tuple[Expression | None, Diagnostics]:
    found = Diagnostics()
    value = dict.fromkeys(("from", "true", "null", "interval", "array", "x"), "int")
    return read(ScalarNode(text, text, Position("t.yml"), Characters()), Scope({}, value), found), found


@pytest.mark.parametrize(
    ("text", "at", "cause", "column"),
    [
        ("from > 1", 5, "'>' is not expected here", "from"),
        ("coalesce(from, 1)", 13, "',' is not expected here", "from"),
        ("x > 1 from", 6, "'from' is not expected here", "from"),
        ("interval * 2", 0, "'interval' is a keyword of SQL", "interval"),
        ("interval / 2", 11, "something is missing here", "interval"),
        ("if > 1", 5, "something is missing here", "if"),
        ("x + and", 4, "something is missing here", "and"),
        ("value.null", 6, "'null' is a keyword of SQL", "null"),
        ("key.true", 4, "'true' is a keyword of SQL", "true"),
        ("value.false.x", 6, "'false' is a keyword of SQL", "false"),
        ("value.not", 6, "something is missing here", "not"),
        ("case > 1", 7, "something is missing here", "case"),
        ("not = 1", 6, "something is missing here", "not"),
        ("null = ", 5, "something is missing here", None),
        ("x + not", 4, "something is missing here", None),
        ("x between 1", 10, "something is missing here", None),
        ("case when x then 1", 17, "the `end` of a `case` is missing", None),
        ("cast(x int)", 7, "`as` and a type are missing in a `cast`", None),
        ("(x + 1", 5, "a ')' is missing", None),
        ("x[1", 2, "a ']' is missing", None),
    ],
)
def test_word_in_place_of_a_column_is_told_with_its_place_and_way_out(
    text: str, at: int, cause: str, column: str | None
) -> None:
    found, diagnostics = expression(text)
    assert found is None
    (diagnostic,) = diagnostics
    assert (diagnostic.code, diagnostic.position.column) == ("HW401", at)
    assert diagnostic.message == f"The expression does not parse: {cause}."
    assert diagnostic.hint == (column and f"Put a column of that name in backticks: `{column}`.")


@pytest.mark.parametrize("text", ["`true`", "value.`null`", "`from` > 1", "`interval` * 2", "array[0]", "`array`[0]"])
def test_quoted_word_is_a_column(text: str) -> None:
    found, diagnostics = expression(text)
    assert found is not None, list(diagnostics)
    assert [ref.name for ref in found.refs] == [text.replace("value.", "").strip("`").split("`")[0].split("[")[0]]
