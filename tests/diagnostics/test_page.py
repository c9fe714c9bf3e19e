"""`docs/diagnostics.md` is made from the table of codes and the cases here; `pytest --update-golden` renews it."""

from __future__ import annotations

from pathlib import Path

from headwater.compiler import codes
from headwater.compiler.codes import Code, Severity

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "diagnostics.md"

INTRODUCTION = """\
# Diagnostics

What `headwater parse` and `headwater compile` find wrong has a code, a place and, where there is one, a way out:

```text
file:line:column: error HW000: what is wrong
  | the line
  |     ^~~~
  hint: what to do
```

Each stage reports all it finds. Each value is reported once. An error stops the
build, a warning does not. A code keeps its meaning for ever. `--format json` prints the same for programs, and
`--format github` as annotations of a pull request. For an option of the command line, the option's name
stands in place of the file and its line: `--target: error HW009: ...`.

This page is made from the compiler's own table and from the projects in `tests/diagnostics/`, of which the examples
are the output.
"""

FAMILIES = (
    (
        "Files and YAML",
        codes.FILES,
        "A project is a folder of YAML files. They are read strictly: what two readers of YAML would understand "
        "differently is an error. JSON is YAML, too.",
    ),
    (
        "Jinja",
        codes.JINJA,
        "Values may hold `{{ var('name') }}`, `{{ env_var('NAME') }}` (both with a default, if you like: "
        "`var('name', 10)`), arithmetic and comparisons over them, `a if b else c`, and `{% if %}`. A value that is "
        "one expression and nothing else keeps its type: `\"{{ var('partitions') }}\"` is a number if the variable "
        "is. Filters: `abs first float int join last length lower replace string trim upper`. Tests: `boolean mapping "
        "none number sequence string`.",
    ),
    ("Schemas", codes.SCHEMA, "Each file has a JSON Schema, which [editors](editors.md) show and complete by."),
    ("References", codes.REFERENCES, "Names of topics, tables, stores, flows and functions."),
    ("Expressions", codes.EXPRESSIONS, "Expressions are Spark SQL."),
    ("Topologies", codes.TOPOLOGY, "What steps may be put together."),
    ("Plugins", codes.PLUGINS, "What plugins are asked for."),
    ("Records that fail", codes.FAILING_RECORDS, "Which records can be left out, and where they are kept."),
    ("Renames", codes.RENAMES, "What `was` says: [renaming](changing.md#renaming)."),
    ("Tests", codes.TESTS, "What `headwater test` finds wrong in [the files of tests](testing.md)."),
    ("Starts", codes.STARTS, "Where a new reader begins: [start](language/index.md#where-a-new-reader-begins)."),
    ("Kafka", codes.KAFKA, "Clusters of a target, and topics in [Kafka](kafka.md)."),
)


def page() -> str:
    parts = [INTRODUCTION]
    for title, table, text in FAMILIES:
        parts.append(f"## {title}\n\n{text}\n")
        parts += [section(name, code) for name, code in table.items()]
    return "\n".join(parts)


def section(name: str, code: Code) -> str:
    warning = " (warning)" if code.severity is Severity.WARNING else ""
    parts = [f"### {name}: {code.summary}{warning}\n", f"{code.meaning} {code.way_out}\n"]
    for case in sorted(HERE.glob(f"{name}-*"))[:1]:
        printed = (case / "expected.txt").read_text(encoding="utf-8").splitlines()
        parts.append("\n".join(["```text", *printed[:-1], "```\n"]))
    return "\n".join(parts)


def test_every_code_is_in_a_family() -> None:
    assert {name for _, table, _ in FAMILIES for name in table} == set(codes.CODES)


def test_every_code_is_explained() -> None:
    for name, code in codes.CODES.items():
        assert code.summary, name
        assert code.meaning.endswith("."), name
        assert code.way_out.endswith("."), name


def test_page_holds_what_the_table_and_the_cases_say(update_golden: bool) -> None:
    if update_golden:
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "renew it with pytest tests/diagnostics --update-golden"
