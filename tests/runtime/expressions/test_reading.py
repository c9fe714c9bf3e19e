"""What is left to Spark SQL because it would be read in another way here, and what is not."""

import pyarrow as pa
import pytest
from sqlglot import exp

from headwater.runtime.expressions.forms import FORMS
from headwater.runtime.expressions.kernels import Batch
from headwater.runtime.expressions.promotion import UnprovenError
from headwater.runtime.expressions.reading import node_of
from headwater.runtime.expressions.typed_forms import OPERATORS
from headwater.runtime.expressions.typed_functions import CALLS

COLUMNS = {
    "b": pa.bool_(),
    "t": pa.int8(),
    "i": pa.int32(),
    "country_code": pa.int32(),
    "d": pa.float64(),
    "s": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "r": pa.list_(pa.int32()),
    "st": pa.struct([("x", pa.int32())]),
}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("b = b < b", "order of comparisons"),
        ("b <=> b < b", "order of comparisons"),
        ("b = b in (true)", "order of comparisons"),
        ("b between b and b = b", "order of comparisons"),
        ("b = b between b and b", "order of comparisons"),
        ("i - -2147483648 > 0", "the type of -2147483648"),
        ("t = -128Y", "the type of -128"),
        ("-128::tinyint = t", "the type of -128"),
        ("s = 'it''s'", "a quote in a text"),
        ("10 div i between 1 and 5", "`between`"),
        ("try_cast(10 div i as int) = 5", "which errors `try_cast` catches"),
        ("+s = 'a'", "a plus in front"),
        ("10 div i > 1 or (b or 1 = 1)", "a literal beside `or`"),
        ("1 div 0 = i", "an error of literals"),
        ("(i | 1 & 2) = 3", "operators of bits"),
        ("s like s", "`like` is only proven with literals"),
        ("s like 'a!b' escape '!'", "an escape in front"),
        ("s rlike '(a|b)*'", "the regular expression"),
        ("s rlike '[^a]$'", "the regular expression"),
        ("s rlike '[z-a]'", "the regular expression"),
        ("isnull(s, s)", "this form of `isnull`"),
        ("nvl2(s, b)", "without all its arguments"),
        ("b = s like 'a'", "order of comparisons"),
        ("round(d, 2) = 1", "only proven to whole numbers"),
        ("lpad(s, 5, 'ab') = s", "padded with 'ab'"),
        ("split_part(s, '', 1) = s", "`split_part` without"),
        ("upper(cast(10 div i as string)) = s", "`upper`"),
        ("lower(trim(upper(s))) = s", "omits the inner one"),
        ("-12345678901234567890123456789012345.5 < i", "more than 34 digits"),
        ("d > -0.0", "the decimal -0.0"),
        ("if(10 div i > 1, 5, 5) = 5", "a condition that may fail"),
        ("case 10 div i when 1 then b else b end", "a condition that may fail"),
        ("coalesce(10 div i, 0L) is null", "`is null`"),
        ("coalesce(10 div i, 0L) = coalesce(10 div i, 0L)", "two parts that are alike"),
        ("(b or s = '') and (b or 10 div i > 1)", "two parts that are alike"),
        ("b or (not b and 10 div i > 1)", "two parts that are alike"),
        ("i * 2 * 0 = 0", "two literals"),
        ("length(+ s) = 1", "a plus in front"),
        ("10 div i > 1 or (b or true)", "a literal beside `or`"),
        ("(b and false) and 10 div i > 1", "a literal beside `and`"),
        ("date_format(at, 'MMMM') = ''", "as a pattern of times"),
        ("date_format(at, 'yyyyyyyy') = ''", "as a pattern of times"),
        ("date_trunc('fortnight', at) = at", "the unit 'fortnight'"),
        ("trunc(at, 'day') is null", "the unit 'day'"),
        ("at > timestamp '2020-01-01 00:00:00+02:00'", "a cast from string to TIMESTAMP"),
        ("at > timestamp '2020-02-30 00:00:00'", "a cast from string to TIMESTAMP"),
        ("at + interval '1 02:00:00' day to second = at", "INTERVAL '1 02:00:00' DAY TO SECOND"),
        ("cast(cast(at as date) as timestamp) = at", "a cast from date to TIMESTAMP"),
        ("at + interval 1 day 2 hours = at", "`interval` is only proven"),
        ("extract(second from at) = 1", "the unit 'second'"),
        ("split(s, '.')[0] = ''", "a regular expression"),
        ("split(s, '')[0] = ''", "a regular expression"),
        ("from_json(s, 'a int', map('mode', 'FAILFAST')).a = 1", "this form of `from_json`"),
        ("from_json(s, 'map<string,int>') is null", "`from_json` of 'map<string,int>'"),
        ("from_json(s, 'a map<string,int>').a is null", "`from_json` of 'a map<string,int>'"),
        ("from_json(s, 'a timestamp').a is null", "`from_json` of 'a timestamp'"),
        ("from_json(s, 'a varchar(3)').a = ''", "`from_json` of 'a varchar(3)'"),
        ("from_json(s, 'a int, _corrupt_record string').a = 1", "`_corrupt_record`"),
        ("from_json(s, s).a = 1", "`from_json` of string, string"),
        ("st.X = 5", "which field"),
        ("st.z = 5", "which field"),
        ("struct(10 div i as x).x = 1", "when Spark SQL computes what it puts in struct"),
        ("array(10 div i, 1L)[0] = 1", "when Spark SQL computes what it puts in array"),
        ("element_at(r, i) = 1", "`element_at` of array<int>, int"),
        ("element_at(r, 0) = 1", "`element_at` of array<int>, int"),
        ("r[i] = 1", "an index that is null"),
        ("r[0] is null", "`is null`"),
        ("(" * 900 + "b" + ")" * 900, "nested very deeply"),
    ],
)
def test_what_spark_reads_in_another_way_is_left_to_it(sql, reason):
    with pytest.raises(UnprovenError) as left:
        node_of(sql, COLUMNS, pa.bool_())
    assert reason in left.value.reason


def test_table_of_sql_has_the_arguments_of_each_form_of_tasks():
    without = FORMS.keys() - OPERATORS.keys() - CALLS.keys()
    assert without == {exp.Paren, exp.Column, exp.Literal, exp.Boolean, exp.Null}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("(b = b) < b", False),
        ("not b is null", True),
        ("i <=> 5", True),
        ("not i in (1, 2)", True),
        ("country_code = 5", True),
        ("s = ''", True),
        ("i > -2147483647", True),
        ("i <> 0 and 10 div i > 1", True),
        ("if(i = 0, 0L, 10 div i) = 2", True),
        ("i * 2 * i = 50", True),
        ("(i) + 1 = 6", True),
        ("year(at) is null and size(r) = 2", True),
        ("st.x = r[0]", True),
        ("i in (2 + 3, 60 * 60)", True),
        ("(s || 'a b') not like '!%%' escape '!'", True),
    ],
)
def test_the_rest_is_computed(sql, expected):
    row = {"b": True, "t": 1, "i": 5, "country_code": 5, "d": None, "s": "", "at": None, "r": [7, 8], "st": {"x": 7}}
    columns = {name: pa.array([row[name]], data_type) for name, data_type in COLUMNS.items()}
    assert node_of(sql, COLUMNS, pa.bool_()).of(Batch(columns, 1)).array(1).to_pylist() == [expected]
