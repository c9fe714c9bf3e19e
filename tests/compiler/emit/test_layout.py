from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.compiler.emit.literals import (
    Code,
    Items,
    Sum,
    call,
    dict_of,
    laid_out,
    literal,
    one_a_line,
    quoted,
    statement,
    tuple_of,
)

RUFF = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))


def formatted(source: str) -> str:
    ruff = subprocess.run(
        [RUFF, "format", "--isolated", "--line-length", "100", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return ruff.stdout


words = st.text(st.sampled_from("abcxyz'\"\\ é\n\t{}%,()"), max_size=40)
sentences = st.lists(words, max_size=8).map(" ".join)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | sentences,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(words, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=25)
@given(st.lists(plain, min_size=20, max_size=20))
def test_any_data_is_laid_out_as_the_formatter_leaves_it(values: list[object]) -> None:
    source = "".join(statement(f"name_{n} = ", literal(value)) + "\n" for n, value in enumerate(values))

    assert formatted(source) == source


@given(plain)
def test_any_data_laid_out_is_read_back_as_itself(value: object) -> None:
    assert ast.literal_eval(laid_out(literal(value), indent=8)) == value


def test_long_call_is_broken_into_one_argument_on_each_line() -> None:
    text = statement("rows = ", call("process", Code("tasks"), *(literal("x" * 30) for _ in range(4))), indent=4)

    assert text.splitlines() == ["    rows = process(", "        tasks,", *([f'        "{"x" * 30}",'] * 4), "    )"]


def test_call_that_fits_stays_on_one_line() -> None:
    text = statement("rows = ", call("where", Code("rows"), literal("a > 1"), at=literal("x.yml:3")))

    assert text == 'rows = where(rows, "a > 1", at="x.yml:3")'


def test_call_asked_to_break_is_broken_though_it_fits() -> None:
    assert laid_out(one_a_line(call("f", Code("a")))) == "f(\n    a,\n)"


def test_long_sql_is_cut_at_spaces_and_line_ends() -> None:
    sql = "CASE WHEN dep_delay > 15\n  THEN " + "concat(origin, '-', dest), " * 6

    text = laid_out(dict_of({"route": literal(sql)}))

    assert text.splitlines()[2] == '        "CASE WHEN dep_delay > 15\\n"'
    assert max(map(len, text.splitlines())) <= 100
    assert ast.literal_eval(text) == {"route": sql}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ('say "x"', "'say \"x\"'"),
        ("it's", '"it\'s"'),
        ('it\'s "x"', "'it\\'s \"x\"'"),
        ("a\\b\n\x07\u200b", '"a\\\\b\\n\\x07\\u200b"'),
    ],
)
def test_string_is_quoted_with_the_fewest_escapes(text: str, expected: str) -> None:
    assert quoted(text) == expected


def test_numbers_from_ten_thousand_are_grouped() -> None:
    assert laid_out(literal([9999, 3_600_000, -20_000])) == "[9999, 3_600_000, -20_000]"


def test_tuple_of_one_keeps_its_comma() -> None:
    assert laid_out(tuple_of([Code("A")])) == "(A,)"


@pytest.mark.parametrize("terms", [("short", "text"), ("of" * 20, "some" * 13), ("of" * 30, "many" * 20, "parts")])
@pytest.mark.parametrize("laid", [lambda sum_: call("f", path=sum_), lambda sum_: dict_of({"path": sum_})])
def test_sum_is_laid_out_as_the_formatter_leaves_it(terms: tuple[str, ...], laid: Callable[[Sum], Items]) -> None:
    text = statement("value = ", laid(Sum(tuple(Code(quoted(term)) for term in terms)))) + "\n"

    assert formatted(text) == text
