"""What is computed in the task is what Spark SQL gives: for generated expressions, on generated rows."""

import math
from datetime import UTC
from functools import cache

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headwater.runtime.records.types import arrow_type
from headwater.tests.runtime.expressions.beside_spark import Asked, compare

pytestmark = pytest.mark.spark

COLUMNS = {
    "b": "boolean",
    "b2": "boolean",
    "t": "tinyint",
    "h": "smallint",
    "i": "int",
    "i2": "int",
    "l": "bigint",
    "l2": "bigint",
    "d": "double",
    "d2": "double",
    "s": "string",
    "s2": "string",
    "day": "date",
    "at": "timestamp",
    "m": "decimal(10,2)",
    "n": "decimal(5,1)",
}
WHOLE = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
NUMBERS = (*WHOLE, "double")
PATTERNS = ["a%", "%a", "_", "a", "A%b"]


def whole_numbers(bits):
    edges = [-(2**bits), 2**bits - 1, -1, 0, 1, 2]
    return st.sampled_from(edges) | st.integers(-(2**bits), 2**bits - 1) | st.integers(-3, 3)


VALUES = {
    "boolean": st.booleans(),
    **{name: whole_numbers(bits) for name, bits in WHOLE.items()},
    "double": st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 2.0**53 + 2, 2147483647.5, -2147483648.9])
    | st.floats(),
    "string": st.sampled_from(["", "a", "A", "12", " -7\t", "true", "1.5", "ab", "é", "z\u0301", "😀", "ß", "\n", "%"])
    | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
    "decimal(10,2)": st.decimals(-99999999, 99999999, places=2),
    "decimal(5,1)": st.decimals(-9999, 9999, places=1),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
}
LITERALS = {
    "boolean": ["true", "false"],
    "tinyint": ["cast(3 as tinyint)"],
    "smallint": ["cast(-7 as smallint)"],
    "int": ["0", "1", "-2", "2147483647", "60"],
    "bigint": ["2147483648", "5L", "-9000000000"],
    "double": ["1e0", "0.5D", "-2e10"],
    "string": ["'a'", "''", "'é'", "'-'"],
    "date": [],
    "timestamp": ["timestamp_millis(_ts)"],
}


def columns_of(data_type):
    return [name for name, each in COLUMNS.items() if each == data_type]


@cache
def expressions(data_type, depth):
    """SQL of a type: what is read in the task, and some that is not."""
    return st.deferred(lambda: _expressions(data_type, depth))


def _expressions(data_type, depth):
    leaves = st.sampled_from([*columns_of(data_type) * 5, *LITERALS[data_type], "null"])
    if depth == 0:
        return leaves

    def of(each):
        return expressions(each, depth - 1)

    any_type = st.sampled_from(list(LITERALS))
    forms = [
        leaves,
        st.builds("if({}, {}, {})".format, of("boolean"), of(data_type), of(data_type)),
        st.builds("case when {} then {} when {} then {} end".format, *[of("boolean"), of(data_type)] * 2),
        st.builds("coalesce({}, {})".format, of(data_type), of(data_type)),
        st.builds("nullif({}, {})".format, of(data_type), of(data_type)),
        st.builds("nvl2({}, {}, {})".format, of("string"), of(data_type), of(data_type)),
        st.builds("{}({}, {})".format, st.sampled_from(["greatest", "least"]), of(data_type), of(data_type)),
    ]
    numbers = st.sampled_from(NUMBERS)
    if data_type == "boolean":
        words = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        compared = any_type.flatmap(lambda each: st.builds("({} {} {})".format, of(each), words, of(each)))
        mixed = st.tuples(numbers, numbers).flatmap(
            lambda both: st.builds("({} {} {})".format, of(both[0]), st.sampled_from(["=", "<", ">="]), of(both[1]))
        )
        forms += [
            compared,
            mixed,
            st.builds("({} and {})".format, of("boolean"), of("boolean")),
            st.builds("({} or {})".format, of("boolean"), of("boolean")),
            st.builds("(not {})".format, of("boolean")),
            st.builds(
                "({} {}like '{}')".format, of("string"), st.sampled_from(["", "not ", "r"]), st.sampled_from(PATTERNS)
            ),
            st.builds("contains({}, 'a')".format, of("string")),
            st.builds(
                "(m {} {})".format, st.sampled_from(["<", "=", ">="]), st.sampled_from(["n", "i", "d", "1.5", "7"])
            ),
            any_type.flatmap(lambda each: st.builds("({} is null)".format, of(each))),
            any_type.flatmap(lambda each: st.builds("({} is not null)".format, of(each))),
            numbers.flatmap(lambda each: st.builds("({} between {} and {})".format, of(each), of(each), of(each))),
            st.builds("({} in ({}, {}))".format, of("int"), st.sampled_from(LITERALS["int"]), st.just("5")),
            st.builds("({} not in ('a', null, {}))".format, of("string"), st.sampled_from(LITERALS["string"])),
            st.builds("({} in (1, 2147483648))".format, of("bigint")),
            st.builds("(d {} {})".format, st.sampled_from(["<", "=", ">="]), st.sampled_from(["1.5", "-0.25", "0.0"])),
        ]
    if data_type in NUMBERS:
        narrower = st.sampled_from(NUMBERS[: NUMBERS.index(data_type) + 1])
        forms += [
            narrower.flatmap(
                lambda each: st.builds("({} {} {})".format, of(data_type), st.sampled_from("+-*%"), of(each))
            ),
            st.builds("(- {})".format, of(data_type)),
            st.builds("pmod({}, {})".format, of(data_type), of(data_type)),
            st.builds("try_{}({}, {})".format, st.sampled_from(["add", "multiply"]), of(data_type), of(data_type)),
            st.builds(f"{{}}cast({{}} as {data_type})".format, st.sampled_from(["", "try_"]), of("string")),
            st.builds(
                f"cast((m {{}} {{}}) as {data_type})".format, st.sampled_from("+-*/"), st.sampled_from(["n", "i", "m"])
            ),
            st.builds("abs({})".format, of(data_type)),
            numbers.flatmap(lambda each: st.builds(f"cast({{}} as {data_type})".format, of(each))),
        ]
    if data_type == "double":
        forms.append(
            st.tuples(numbers, numbers).flatmap(lambda both: st.builds("({} / {})".format, of(both[0]), of(both[1])))
        )
        forms.append(st.builds("(d {} {})".format, st.sampled_from("+-*/"), st.sampled_from(["1.5", "60.0"])))
    if data_type == "bigint":
        forms.append(st.builds("{}({})".format, st.sampled_from(["floor", "ceil"]), of("double")))
        whole = st.sampled_from(list(WHOLE))
        forms.append(
            st.tuples(whole, whole).flatmap(lambda both: st.builds("({} div {})".format, of(both[0]), of(both[1])))
        )
    if data_type == "int":
        forms.append(st.builds("length({})".format, of("string")))
        forms.append(st.builds("instr({}, 'a')".format, of("string")))
    if data_type == "string":
        forms += [
            st.builds("concat({}, {}, {})".format, of("string"), of("string"), of("string")),
            st.builds("({} || {})".format, of("string"), of("string")),
            st.builds("{}({})".format, st.sampled_from(["upper", "lower", "trim", "reverse"]), of("string")),
            st.builds(
                "{}({}, {})".format, st.sampled_from(["left", "right", "substr"]), of("string"), st.sampled_from("0123")
            ),
            st.builds("concat_ws('-', {}, {})".format, of("string"), of("string")),
            st.sampled_from(list(WHOLE)).flatmap(lambda each: st.builds("cast({} as string)".format, of(each))),
        ]
    return st.one_of(forms)


ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | VALUES[each] for name, each in COLUMNS.items()}), min_size=12, max_size=12
)
CASES = st.sampled_from(list(LITERALS)).flatmap(
    lambda data_type: st.tuples(st.just(data_type), expressions(data_type, 3))
)


def test_generated_expressions_give_what_spark_gives(spark_session):
    asked = Asked(spark_session)
    proven = []

    # Not shrunk: each try asks Spark, and what fails is one expression of a line.
    @settings(max_examples=settings.default.max_examples // 5, phases=[Phase.generate])
    @given(st.lists(CASES, min_size=40, max_size=40), ROWS)
    def check(cases, records):
        schema = pa.schema([(name, arrow_type(each)) for name, each in COLUMNS.items()] + [("_ts", pa.int64())])
        table = pa.Table.from_pylist([{**each, "_ts": 1_600_000_000_123 + n} for n, each in enumerate(records)], schema)
        proven.extend(compare(asked, table, [sql for _, sql in cases]))

    check()
    assert len(proven) > 100
