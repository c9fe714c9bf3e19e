"""Cases: texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .case import I32, TEXT, Case, Form

_TWO = {"s": (TEXT, ["a", None, None]), "u": (TEXT, ["b", "c", None])}


def _in_python(function: Callable[[str], str]) -> Form:
    """Text by text: Arrow knows no letters that become two, and no final sigma."""
    return lambda s: pa.array([None if each is None else function(each) for each in s.to_pylist()], TEXT)


def _joined(s: Any, u: Any) -> Any:
    both = pc.binary_join_element_wise(s, u, "-")
    return pc.coalesce(both, s, u, "")


TEXTS = (
    Case("upper(s)", {"s": (TEXT, ["aß", "ı", "i", "ﬁ", "ǆ", "é"])}, pc.utf8_upper, _in_python(str.upper)),
    Case("lower(s)", {"s": (TEXT, ["AB", "İ", "ΑΣ", "I"])}, pc.utf8_lower, _in_python(str.lower)),
    Case(
        "substring(s, 2, 3)",
        {"s": (TEXT, ["abcdef", "a\U0001f600bc", "a"])},
        lambda s: pc.utf8_slice_codeunits(s, 1, 4),
    ),
    Case(
        "substring(s, 0, 2)",
        {"s": (TEXT, ["abc", ""])},
        lambda s: pc.utf8_slice_codeunits(s, -1, 1),
        lambda s: pc.utf8_slice_codeunits(s, 0, 2),
    ),
    Case(
        "substring(s, -4, 2)",
        {"s": (TEXT, ["abcdef", "abc", "ab"])},
        lambda s: pc.utf8_slice_codeunits(s, -4, -2),
    ),
    Case("length(s)", {"s": (TEXT, ["e\u0301", "\U0001f600", "a "])}, pc.utf8_length),
    Case(
        "trim(s)",
        {"s": (TEXT, [" a ", "\ta\n", "\u00a0a"])},
        pc.utf8_trim_whitespace,
        lambda s: pc.utf8_trim(s, " "),
        {"polars": "trim(both ' ' from s)", "duckdb": "trim(s, ' ')"},
    ),
    Case(
        "ltrim(s)",
        {"s": (TEXT, [" a ", "\ta"])},
        pc.utf8_ltrim_whitespace,
        lambda s: pc.utf8_ltrim(s, " "),
        {"polars": "ltrim(s, ' ')", "duckdb": "ltrim(s, ' ')"},
    ),
    Case("trim(both 'xy' from s)", {"s": (TEXT, ["xyaxy", "yax"])}, lambda s: pc.utf8_trim(s, "xy")),
    Case(
        "s like 'a_c%'",
        {"s": (TEXT, ["abc", "a\nc\nd", "a\U0001f600c", "ABC"])},
        lambda s: pc.match_like(s, "a_c%"),
    ),
    Case(
        r"s like '10\\%'",
        {"s": (TEXT, ["10%", "100"])},
        lambda s: pc.match_like(s, r"10\%"),
        texts={
            "datafusion": r"s like '10\%'",
            "polars": "regexp_like(s, '^10%$')",
            "duckdb": r"s like '10!%' escape '!'",
        },
    ),
    Case("s ilike 'Ab%'", {"s": (TEXT, ["aBc", "b"])}, lambda s: pc.match_like(s, "Ab%", ignore_case=True)),
    Case(
        r"s rlike '^\\d+$'",
        {"s": (TEXT, ["12", "12\n", "a", "\u0661"])},
        lambda s: pc.match_substring_regex(s, r"^\d+$"),
        texts={"datafusion": r"regexp_like(s, '^\d+$')", "polars": r"regexp_like(s, '^\d+$')"},
    ),
    Case(
        r"s rlike '(a)\\1'",
        {"s": (TEXT, ["aa", "ab"])},
        lambda s: pc.match_substring_regex(s, r"(a)\1"),
        texts={"datafusion": r"regexp_like(s, '(a)\1')", "polars": r"regexp_like(s, '(a)\1')"},
    ),
    Case(
        "regexp_replace(s, '(a)(b)', '$2$1')",
        {"s": (TEXT, ["abab", "ba"])},
        lambda s: pc.replace_substring_regex(s, "(a)(b)", r"\2\1"),
        texts={
            "datafusion": "regexp_replace(s, '(a)(b)', '$2$1', 'g')",
            "duckdb": r"regexp_replace(s, '(a)(b)', '\2\1', 'g')",
        },
    ),
    Case(
        "concat(s, u)",
        {"s": (TEXT, ["a", None]), "u": (TEXT, ["b", "c"])},
        lambda s, u: pc.binary_join_element_wise(s, u, ""),
        texts={"polars": "s || u"},
    ),
    Case("concat_ws('-', s, u)", _TWO, lambda s, u: pc.binary_join_element_wise(s, u, "-"), _joined),
    Case(
        "s || a",
        {"s": (TEXT, ["x"]), "a": (I32, [1])},
        lambda s, a: pc.binary_join_element_wise(s, a.cast(TEXT), ""),
    ),
    Case("replace(s, 'b', 'xx')", {"s": (TEXT, ["abb", ""])}, lambda s: pc.replace_substring(s, "b", "xx")),
    Case(
        "split(s, ',')",
        {"s": (TEXT, ["a,b,", "", "a"])},
        lambda s: pc.split_pattern(s, ","),
        texts={"datafusion": "string_to_array(s, ',')"},
    ),
    Case("lpad(s, 3, 'xy')", {"s": (TEXT, ["a", "abcd", ""])}, lambda s: pc.utf8_lpad(s, 3, "x")),
    Case(
        "instr(s, 'b')",
        {"s": (TEXT, ["\u00e9b", "a"])},
        lambda s: pc.add(pc.find_substring(s, "b"), 1),
        texts={"polars": "strpos(s, 'b')"},
    ),
    Case("initcap(s)", {"s": (TEXT, ["ab cd-ef", "O'NEIL"])}, pc.utf8_title),
)
