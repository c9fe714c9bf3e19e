"""Expressions judged by Spark's analyzer: what changes from run to run is refused, however its text hides that."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater import Project
from headwater.cli.commands.init import command as init
from headwater.compiler.language import functions
from headwater.runtime.cluster.spark.analyzer import SparkAnalyzer
from headwater.runtime.cluster.spark.session import SessionError, SettingError, differences, settings_of
from headwater.runtime.expressions.analyzer import Rejection
from headwater.runtime.pinned_settings import LEGACY, PINNED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "at timestamp, day date, raw binary, text string, number int, list array<string>"

CLOCK = """
at < 'now'
day = ' Today '
at between '2020-01-01' and 'tomorrow'
at in ('2020-01-01', 'now')
coalesce(at, 'yesterday')
nullif(at, 'now')
decode(at, 'now', 1)
at - 'now'
'now'::timestamp_ntz
cast(concat('n', 'ow') as timestamp)
try_cast('now' as timestamp)
to_timestamp('now')
try_to_timestamp('now')
to_date('today')
timestamp('now')
hour('now')
date_add('today', number)
date_trunc('hour', 'now')
sequence('today', day)
transform(list, word -> cast('now' as timestamp))
max(if(at < 'yesterday', 1, 2))
"""
"""Each brings in Spark's clock by a text that becomes a time."""

CHANGING = """
`current_timestamp`()
now()
current_date
localtimestamp()
current_user()
if(number > 1, uuid(), text)
reflect('java.lang.System', 'getenv', 'HOME')
rand(1)
monotonically_increasing_id()
format_string('%s', raw)
printf('%s', list)
"""

SAME = {
    "text = 'now'": "boolean",
    "cast(text as timestamp)": "timestamp",
    "at > timestamp '2024-05-01 00:00:00'": "boolean",
    "at > '2024-05-01'": "boolean",
    "convert_timezone('Europe/Paris', timestamp_ntz '2024-05-01 00:00:00')": "timestamp_ntz",
    "format_string('%s %d %.2f', text, number, 0.5D)": "string",
    "from_json(text, 'at timestamp')": "struct<at:timestamp>",
    "sum(number) / count(*)": "double",
    "'${env:HOME}${system:user.home}${spark.app.id}'": "string",
}


@pytest.fixture(scope="module")
def analyzer(spark_session: SparkSession) -> SparkAnalyzer:
    return SparkAnalyzer({"master": "local[2]"})


def codes(analyzer: SparkAnalyzer, expressions: list[str]) -> dict[str, str]:
    found = analyzer.analyze([(each, COLUMNS) for each in expressions])
    pairs = zip(expressions, found, strict=True)
    return {each: verdict.code if isinstance(verdict, Rejection) else verdict for each, verdict in pairs}


def test_text_that_becomes_a_time_of_the_clock_is_refused(analyzer: SparkAnalyzer) -> None:
    expressions = CLOCK.strip().splitlines()
    assert codes(analyzer, expressions) == dict.fromkeys(expressions, "HW417")


def test_text_of_the_clock_is_shown_at_its_place(analyzer: SparkAnalyzer) -> None:
    (refused,) = analyzer.analyze([("at < 'now'", COLUMNS)])
    assert isinstance(refused, Rejection)
    assert refused.offset == 5


def test_expression_whose_answer_changes_is_refused(analyzer: SparkAnalyzer) -> None:
    expressions = CHANGING.strip().splitlines()
    assert codes(analyzer, expressions) == dict.fromkeys(expressions, "HW406")


def test_expression_that_only_looks_like_it_has_its_type(analyzer: SparkAnalyzer) -> None:
    assert codes(analyzer, list(SAME)) == SAME


def test_text_in_a_record_is_never_a_time_of_the_clock(spark_session: SparkSession) -> None:
    records = spark_session.createDataFrame([("now",), ("today",), ("2024-05-01",)], "text string")
    casts = ("try_cast(text as timestamp)", "try_to_date(text)", "from_csv(text, 'at date').at")
    taken = records.selectExpr(*casts)
    assert [[value is None for value in row] for row in taken.collect()] == [[True] * 3, [True] * 3, [False] * 3]


@pytest.mark.parametrize("bomb", ["(" * 2_000 + "1" + ")" * 2_000, "abs(" * 700 + "1" + ")" * 700, "1+" * 2_000 + "1"])
def test_expression_too_deep_for_sparks_parser_is_refused(analyzer: SparkAnalyzer, bomb: str) -> None:
    assert codes(analyzer, [bomb]) == {bomb: "HW420"}


def test_what_spark_has_no_message_for_is_refused_in_a_sentence(analyzer: SparkAnalyzer) -> None:
    (refused,) = analyzer.analyze([("x -> x", COLUMNS)])
    assert isinstance(refused, Rejection)
    assert refused.message.startswith("Spark cannot take it: ")
    assert "\n" not in refused.message


def test_every_function_of_spark_is_allowed_or_refused_for_a_reason(spark_session: SparkSession) -> None:
    """A Spark with another list of functions fails here: each new one is to be looked at, with its arguments."""
    spark = {row[0] for row in spark_session.sql("SHOW ALL FUNCTIONS").collect()}
    classes = [
        functions.SCALAR_FUNCTIONS,
        functions.SPARK_AGGREGATES,
        functions.GENERATORS,
        functions.WINDOW_FUNCTIONS,
        functions.OPERATORS,
        functions.FORBIDDEN.keys() - {"unix_timestamp()"},
        functions.UNSAFE.keys(),
        functions.NOT_OFFERED.keys(),
    ]
    classified = [name for names in classes for name in names]
    assert len(classified) == len(set(classified))
    syntax = {"timestampadd", "timestampdiff", "try_cast"}
    assert set(classified) - syntax == spark


def test_document_type_in_a_record_is_not_fetched(spark_session: SparkSession, silent_host: list[str]) -> None:
    (address,) = silent_host
    documents = [
        f'<!DOCTYPE a SYSTEM "http://{address}/x.dtd"><a><b>1</b></a>',
        f'<!DOCTYPE a [<!ENTITY e SYSTEM "http://{address}/e">]><a><b>&e;</b></a>',
        f'<!DOCTYPE a [<!ENTITY % p SYSTEM "http://{address}/p"> %p;]><a><b>1</b></a>',
        f'<a xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:noNamespaceSchemaLocation="http://{address}/s">1</a>',
        f'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="http://{address}/i"/><b>1</b></a>',
    ]
    records = spark_session.createDataFrame([(each,) for each in documents], "text string")
    read = records.selectExpr("from_xml(text, 'b string')", "from_xml(text, 'variant')")
    assert len(read.collect()) == len(documents)
    assert silent_host == [address]


@pytest.fixture
def silent_host() -> Iterator[list[str]]:
    """Its address; then whoever has connected. It never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = ["{}:{}".format(*server.getsockname())]

        def watch() -> None:
            kept = []  # an open connection is what hangs a reader
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                kept.append(connection)
                found.append(str(peer))

        threading.Thread(target=watch, daemon=True).start()
        yield found
        server.shutdown(socket.SHUT_RDWR)


def test_session_that_reads_expressions_otherwise_is_refused(tmp_path: Path, spark_session: SparkSession) -> None:
    init.main(["shop", "--project-dir", str(tmp_path / "shop")], standalone_mode=False)
    sales = tmp_path / "shop" / "topologies" / "sales.yml"
    sales.write_text(sales.read_text().replace("product: product", "product: hex(product)"))  # Spark is asked for it
    given = spark_session.newSession()
    given.conf.set("spark.sql.variable.substitute", "true")
    given.conf.set("spark.sql.legacy.timeParserPolicy", "LEGACY")

    with pytest.raises(SessionError) as refused, Project.load(tmp_path / "shop", session=given) as project:
        project.compile()

    assert refused.value.differences == {
        "spark.sql.variable.substitute": ("false", "true"),
        "spark.sql.legacy.timeParserPolicy": ("", "LEGACY"),
    }


def test_started_session_has_what_is_pinned_and_speaks_english(spark_session: SparkSession) -> None:
    assert differences(spark_session) == {}
    assert spark_session._jvm is not None
    assert str(spark_session._jvm.java.util.Locale.getDefault()) == "en_US"


@pytest.mark.parametrize("name", [*PINNED, f"{LEGACY}timeParserPolicy", "sql.variable.substitute"])
def test_profile_that_sets_what_is_pinned_is_refused(name: str) -> None:
    with pytest.raises(SettingError):
        settings_of({name: "otherwise"})
