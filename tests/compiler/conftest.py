"""Projects written in a test, and an analyzer that needs no Spark."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlglot import exp, parse_one
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify_columns import qualify_columns
from sqlglot.schema import MappingSchema

from headwater.compiler.language.judge import Refusal, Request, Verdict
from headwater.compiler.pipeline import CheckedProject, compile_project

PROJECT = "name: shop\nversion: '1.0'\nprofile: shop\n"
PROFILES = """
shop:
  target: local
  targets:
    local:
      spark:
        master: local[2]
      log:
        type: embedded
        path: .headwater/log
      state_dir: .headwater/state
"""


class SqlglotAnalyzer:
    """Types by sqlglot's inference: near enough to Spark's for these tests."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def analyze(self, requests: Sequence[Request]) -> list[Verdict]:
        self.asked += requests
        return [_verdict(sql, ddl) for sql, ddl in requests]


def _verdict(sql: str, ddl: str) -> Verdict:
    table = parse_one(f"CREATE TABLE t ({ddl})", dialect="spark") if ddl else None
    columns = {"_": "int"}
    for column in table.find_all(exp.ColumnDef) if table else ():
        columns[column.name] = column.args["kind"].sql("spark")
    query = parse_one(f"SELECT {sql} AS x FROM t", dialect="spark")
    schema = MappingSchema({"t": columns}, dialect="spark")
    typed = annotate_types(qualify_columns(query, schema), schema, dialect="spark").selects[0]
    for node in typed.find_all(exp.Add, exp.Sub, exp.Mul):
        if {node.left.type.sql("spark"), node.right.type.sql("spark")} == {"STRING", "ARRAY<STRING>"}:
            return Refusal("A text and an array cannot be added.", sql.index("+"))
    found = typed.type.sql("spark")
    if isinstance(typed.unalias(), (exp.Div, exp.Avg)):
        found = "double"
    if isinstance(typed.unalias(), exp.Sum):
        found = "bigint" if typed.unalias().this.type.sql("spark") in ("INT", "BIGINT") else "double"
    return _spelled(sql, found)


def _spelled(sql: str, found: str) -> str:
    special = {"size(": "int", "collect_list(": "array<string>", "hour(": "int", "split(": "array<string>"}
    for start, type_ in special.items():
        if sql.startswith(start):
            return type_
    return "string" if found in ("UNKNOWN", "NULL", "VARCHAR", "TEXT") else found.lower().replace(" ", "")


@pytest.fixture
def analyzer() -> SqlglotAnalyzer:
    return SqlglotAnalyzer()


@pytest.fixture
def compiled(tmp_path: Path, analyzer: SqlglotAnalyzer) -> Callable[..., CheckedProject]:
    """Compile a project of one topics file and topologies by name; `parse=True` leaves the analyzer out."""

    def run(topics: str, *topologies: str, parse: bool = False, **files: str) -> CheckedProject:
        write(tmp_path, topics, *topologies, **files)
        return compile_project(tmp_path, analyzer=None if parse else analyzer)

    return run


def write(root: Path, topics: str, *topologies: str, **files: str) -> None:
    """Write the files of a project; of `files` the names have `__` for `/`, and `.py` is added."""
    (root / "topics").mkdir(exist_ok=True)
    (root / "topologies").mkdir(exist_ok=True)
    (root / "headwater.yml").write_text(PROJECT)
    (root / "profiles.yml").write_text(PROFILES)
    (root / "topics" / "topics.yml").write_text(
        "topics:\n" + textwrap.indent(textwrap.dedent(topics).strip("\n"), "  ")
    )
    for number, text in enumerate(topologies):
        name = f"t{number}" if number else "t"
        (root / "topologies" / f"{name}.yml").write_text(f"topology: {name}\n" + textwrap.dedent(text))
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
