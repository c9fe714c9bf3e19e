"""Each function that tasks compute gives what Spark gives, for all values at the edges of its types and random ones."""

import math
import random
import struct
from decimal import Context, Decimal
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import settings

from headwater.tests.runtime.expressions.beside_spark import Asked, compare

pytestmark = pytest.mark.spark

WHOLE = {"t": 8, "h": 16, "i": 32, "l": 64}
DECIMALS = {"m": (10, 2), "n": (5, 0), "k": (18, 6), "q": (38, 18), "x": (4, 4)}
MORE_DIGITS = Context(prec=50)
PIECES = (
    *("", "a", "b", "A", "x", "ab", " ", "  ", "\t", "\0", "\x1f", "\x7f", "-", "--", ".", ",", "%", "_", "!", "+"),
    *(
        "\n",
        "\r",
        "\r\n",
        "\x85",
        "\u2028",
        "\u00a0",
        "\u3000",
        "é",
        "e\u0301",
        "ß",
        "ﬁ",
        "İ",
        "Σ",
        "\uffff",
        "😀",
        "𝒳",
    ),
    *("0", "1", "9", "007", "65", "\u0661"),
)
WORDS = (
    *("0", "-0", "+5", "--5", "+", "-", "", "1.", ".5", ".", "1e3", "1e", "1E+5", "1e-400", "1e400", "-1e400", "0x1F"),
    *("0x1.8p3", "0X.8P-2", "0x1p5000", "-0x1p5000", "0x1p", "1d", "1D", "1f", "1.5F", "d", "1e5d", "1dd", "1_0"),
    *("inf", "-inf", "+Inf", "Infinity", "-infinity", "+INFINITY", "nan", "NaN", "+NaN", "-NaN", "+nan", "NaNd"),
    *("infd", "t", "T", "true", "TRUE", "tru", "y", "yes", "Yes", "1", "f", "false", "n", "NO", "on", "null", "\u0661"),
    *("127", "128", "-128", "-129", "32767", "32768", "-32768", "2147483647", "2147483648", "-2147483648"),
    *("-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0" * 30 + "1", "9" * 40),
    *("4.9e-324", "2.4703282292062327e-324", "1.7976931348623159e308", "9007199254740993", "0.1", "1" * 800),
)
BLANKS = ("", "", "", " ", "\t", "\n", "\0", "\x7f", "\x1c", "\u00a0", "\x85")


def doubles(chance, count):
    """At the edges, halves, and any bits."""
    fixed = [0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 1e300, 2.0**31, 2.0**31 - 0.5, 2.0**52 + 0.5, 2.0**53, 2.0**63]
    fixed += [math.nextafter(2.0**63, 0), 2.0**64, 5e-324, math.inf, math.nan, 127.9, 128.0, 32768.0, 3e9]
    some = [struct.unpack("<d", chance.randbytes(8))[0] for _ in range(count)]
    some += [chance.randrange(-200, 200) / 4 for _ in range(count)]
    return [*fixed, *(-each for each in fixed), *some]


def whole_numbers(chance, bits, count):
    """At the edges, near 0, and any."""
    edge = 2 ** (bits - 1)
    fixed = [-edge, 1 - edge, edge - 1, edge // 2, -1, 0, 1, 2, 3, -3]
    some = [chance.randrange(-edge, edge) for _ in range(count)]
    return [*fixed, *some, *(chance.randrange(-9, 9) for _ in range(count))]


def decimals(chance, digits, scale, count):
    """At the edges, near 0, halves of what is left when digits are cut off, and any."""
    edge = 10**digits - 1
    some = [0, 1, 5, 15, 25, 49, 50, 51, edge, edge - 1, edge // 2, 10 ** (digits - 1), 5 * 10 ** max(scale - 1, 0)]
    some += [chance.randrange(edge) for _ in range(count)] + [chance.randrange(10**3) for _ in range(count)]
    return [Decimal(sign * each).scaleb(-scale, MORE_DIGITS) for each in some if each <= edge for sign in (1, -1)]


def rows(chance, count):
    """A table of the values at the edges of each type, and random ones; the columns are independent of each other."""
    texts = [*PIECES, *map("".join, product(PIECES, ("a", "b", " ", "\n"))), *map("".join, product("ab", PIECES))]
    texts += ["aaa", "aaaa", "ababa", "aa--aa", "-aa-aba-ababa", "é-é-"]
    texts += ["".join(chance.choices(PIECES, k=chance.randrange(8))) for _ in range(400)]
    words = [f"{chance.choice(BLANKS)}{each}{chance.choice(BLANKS)}" for each in WORDS * 4]
    words += ["".join(chance.choices("0123456789+-.eEdx nNaAfF", k=chance.randrange(6))) for _ in range(400)]
    of_types = {"b": (pa.bool_(), [True, False])}
    for name, bits in WHOLE.items():
        of_types[name] = (pa.from_numpy_dtype(f"int{bits}"), whole_numbers(chance, bits, 40))
    of_types |= {"d": (pa.float64(), doubles(chance, 100)), "s": (pa.string(), texts), "w": (pa.string(), words)}
    for name, (digits, scale) in DECIMALS.items():
        of_types[name] = (pa.decimal128(digits, scale), decimals(chance, digits, scale, 40))
    columns = {}
    for name, (data_type, values) in of_types.items():
        for column in (name, f"{name}2"):
            some = [*values, None][:count]
            some += [chance.choice([*values, None]) for _ in range(count - len(some))]
            chance.shuffle(some)
            columns[column] = pa.array(some, data_type)
    return pa.table({**columns, "_ts": pa.array(range(1, count + 1), pa.int64())})


TEXTS = [
    *(
        f"{name}(s)"
        for name in ("trim", "ltrim", "rtrim", "btrim", "reverse", "upper", "lower", "length", "char_length", "len")
    ),
    *(f"trim({side} 'a ' from s)" for side in ("both", "leading", "trailing", "")),
    *("btrim(s, 'ab')", "ltrim('a', s)", "rtrim('éß', s)", "trim('', s)", "trim(both from s)", "character_length(s)"),
    *(f"substring(s, {start}, {size})" for start in (-7, -3, -2, -1, 0, 1, 2, 5) for size in (-1, 0, 1, 2, 3, 9)),
    *(f"substr(s, {start})" for start in (-2147483647, -3, -1, 0, 1, 2, 2147483647)),
    *("substring(s, 2, 2147483647)", "substring(s, -2, 2147483647)", "substring(s from 2 for 1)"),
    *(f"{side}(s, {size})" for side in ("left", "right") for size in (-1, 0, 1, 2, 7)),
    *(f"{pad}(s, {size}, '{text}')" for pad in ("lpad", "rpad") for size in (0, 1, 3, 9) for text in ("é", "😀")),
    *("lpad(s, 4)", "rpad(s, 4)", "repeat(s, -1)", "repeat(s, 0)", "repeat(s, 1)", "repeat(s, 3)"),
    *(f"replace(s, '{old}', '{new}')" for old in ("a", "ab", "é", "", "😀", ".") for new in ("", "b", "aa", "😀")),
    *("replace(s, 'a')", "concat(s, s2)", "s || s2 || 'a'", "concat_ws('-', s, s2)", "concat_ws('', s, s2, w)"),
    *("concat_ws('é', s)", "concat_ws('-', s, 'a', s2)", "concat_ws('-', 'a', s)"),
    *(
        f"{name}(s, '{text}')"
        for name in ("startswith", "endswith", "contains", "instr")
        for text in ("", "a", "é", "😀")
    ),
    *("locate('b', s)", "position('b', s)", "position('ab' in s)"),
    *(f"split_part(s, '{by}', {at})" for by in ("a", "--", "é") for at in (-3, -2, -1, 1, 2, 3, 9)),
    *(
        f"substring_index(s, '{by}', {at})"
        for by in ("a", "-", "😀", "--", "aa", "aba", "é-")
        for at in (-3, -2, -1, 1, 2, 3, 9)
    ),
]
PATTERNS = (
    "",
    "%",
    "%%",
    "_",
    "__",
    "a",
    "a%",
    "%a",
    "%a%",
    "a%b",
    "a_b",
    "_a%",
    "%_a",
    "%é_",
    "a%b%",
    "%a%b",
    "%_%",
    ".%",
)
EXPRESSIONS = (
    "a",
    "^a",
    "a$",
    "^a$",
    "^$",
    "$",
    "",
    "^",
    "a.b",
    "^.$",
    "[ab]+",
    "^[a-zA-Z ]*$",
    "[0-9]{1,2}",
    "^[0-9]{2}$",
    "a|b$",
)
SEARCHES = [
    *(f"s like '{pattern}'" for pattern in PATTERNS),
    *(f"s not like '{pattern}'" for pattern in PATTERNS[:4]),
    *(f"s like '{pattern}' escape '!'" for pattern in ("!%", "a!_%", "!!%", "%!%%", "%!_", "_!!_")),
    "s like 'a/%%' escape '/'",
    *(f"s rlike '{pattern}'" for pattern in EXPRESSIONS),
    *("regexp_like(s, 'a-b')", "s not rlike '^ +'", "s regexp 'x?a*.{2}$'"),
]
NUMBERS = [
    *(f"{name}({column})" for name in ("floor", "ceil", "ceiling", "round", "bround") for column in "thild"),
    *(f"{name}({column})" for name in ("sign", "signum", "sqrt", "positive", "negative") for column in "thild"),
    *("round(i, 2)", "round(d, 0)", "bround(l, 1)", "bround(d, 0)"),
    *(f"{name}({a}, {a}2)" for name in ("pmod", "mod", "greatest", "least") for a in "thild"),
    *("pmod(i, l)", "pmod(t, 7)", "pmod(i, -7)", "pmod(l, d)", "mod(d, 0.5D)", "pmod(d, i)"),
    *(f"{a} {word} {a}2" for word in "&|^" for a in "thil"),
    *("~t", "~h", "~i", "~l", "t & 3", "i | l", "(i & 7) ^ 2"),
    *(f"try_{word}({a}, {a}2)" for word in ("add", "subtract", "multiply", "divide") for a in "thild"),
    *(
        "try_add(i, 1)",
        "5L + i",
        "3Y + t",
        "0.5D + i",
        "try_divide(1, i)",
        "try_multiply(l, 2)",
        "try_subtract(i, l)",
        "isnan(d)",
        "nanvl(d, d2)",
    ),
    *("nanvl(d, i)", "nanvl(d, 0)", "greatest(d, d2, i, 0)", "least(d, d2, 1.5)"),
]
CHOICES = [
    *(f"{name}({a}, {a}2)" for name in ("greatest", "least", "nullif") for a in "bsd"),
    *("nullif(i, 0)", "nullif(d, 0)", "nullif(s, '')", "nullif(i, l)", "nvl2(s, i, i2)", "nvl2(i, 'a', null)"),
    *(
        "isnull(s)",
        "isnotnull(s)",
        "isnull(d)",
        "b is true",
        "b is not true",
        "b is false",
        "b is not false",
        "b is unknown",
    ),
    *("nvl(s, 'x')", "ifnull(i, 7)", "least(s, s2, 'b')", "greatest(b, true)"),
]
TO = ("boolean", "tinyint", "smallint", "int", "bigint", "double", "string")
CASTS = [f"{cast}({column} as {to})" for cast in ("cast", "try_cast") for column in "bthildw" for to in TO] + [
    "int(w)",
    "double(w)",
]

OF_DECIMALS = [
    *(f"{a} {word} {b}" for word in ("=", "<", ">=", "<=>") for a, b in ("mm", "mn", "kx", "qi", "md", "lk", "tx")),
    *(f"{a} {word} {b}2" for word in "+-*/" for a in "mnkx" for b in "mnktil"),
    *(f"{a} {word} m" for word in "+-*/" for a in "thild"),
    *(f"m {word} {literal}" for word in "+-*/<=" for literal in ("0", "2", "-5", "100", "1.5", "-0.05", "1.0", "2e0")),
    *(f"{literal} {word} m" for word in "+-*/" for literal in ("7", "-0.25", "3.000", "1D")),
    *("i * 1.5", "i / 0.3", "l + 0.01", "1.5 * 2 + i", "(m + n) * 2 - k", "m * n / 3", "m / (n - n2)", "d * 1.25 + m"),
    *(f"{name}({a})" for name in ("-", "abs", "negative", "isnull") for a in DECIMALS),
    *(
        "m in (1.5, 2, 0.05)",
        "m between 0 and 10.5",
        "m between n and k",
        "m is null",
        "nullif(m, 0)",
        "m = 1e0",
    ),
    *("coalesce(m, 0)", "coalesce(m, n, 1.125)", "if(b, m, k)", "case when b then m else 0.5 end", "nvl(x, i)"),
    *("greatest(m, k, 3)", "least(m, n)", "coalesce(m, d)", "nvl2(m, m, n)", "try_add(m, n)", "try_divide(m, n)"),
    *("try_multiply(m, 2)", "try_divide(m, 0)", "m / 0", "1.5", "-2.50", "1.1 + 2", "cast(1.5 as decimal(5, 2)) + m"),
]
INTO = [f"decimal({each})" for each in ("10,2", "5,0", "3,1", "38,18", "20,6", "38,0", "2,2")]
OF_DECIMALS += [f"{cast}({a} as {to})" for cast in ("cast", "try_cast") for a in "mnkqxthil" for to in INTO]
OF_DECIMALS += [f"{cast}({a} as {to})" for cast in ("cast", "try_cast") for a in "mnkqx" for to in TO[1:]]
OF_DECIMALS += [f"{each}(cast(q as decimal(34, 14)))" for each in ("-", "abs", "negative")]
OF_DECIMALS += [f"cast(q as decimal({digits})) {word}" for digits, word in (("30, 8", "+ m"), ("36, 16", "- k2"))]
OF_DECIMALS += ["cast(q as decimal(30, 9)) * n", "cast(q as decimal(33, 13)) * x", "cast(q as decimal(36, 16)) = q2"]


FAMILIES = {"texts": TEXTS, "searches": SEARCHES, "numbers": NUMBERS, "choices": CHOICES, "casts": CASTS}
LEFT = {"k * l2", "l / m", "k / m2", "k / i2", *(f"{a} / {b}2" for a in "mnkx" for b in "kl")}
LEFT |= {"-(q)", "abs(q)", "negative(q)"}
LEFT |= {f"{cast}({what} as string)" for cast in ("cast", "try_cast") for what in "dq"}
"""What is left to Spark: too many digits, or digits of doubles."""


@pytest.mark.parametrize("family", [*FAMILIES, "decimals"])
def test_a_function_gives_what_spark_gives_for_each_row(spark_session, family):
    seed = 0 if settings.default.derandomize else random.randrange(2**32)
    forms = OF_DECIMALS if family == "decimals" else FAMILIES[family]
    count = 1000 if family in ("texts", "searches", "casts") else 300  # more than a type has fixed and random values
    proven = compare(Asked(spark_session), rows(random.Random(seed), count), forms)
    left = {each for each in forms if each not in proven}
    assert left <= LEFT, left - LEFT


ASSIGNED = (range(0x20000), range(0xE0000, 0xE0200))
"""Code points beyond are ideographs, private or not assigned: some of them are enough."""


@pytest.mark.parametrize(
    "codes",
    [(*ASSIGNED, range(0x20000, 0x110000, 61)), pytest.param([range(0x110000)], marks=pytest.mark.soak)],
    ids=["assigned", "all"],
)
def test_letters_change_as_in_spark_in_every_version_of_python(spark_session, codes):
    characters = [chr(code) for some in codes for code in some if not 0xD800 <= code < 0xE000 and code != 10]
    around = ("{}", "A{}Σ", "{}Σ", "AΣ{}", "AΣ{}A")
    lines = [each.format(one) for each in around for one in characters]
    texts = ["\n".join(lines[at : at + 2000]) for at in range(0, len(lines), 2000)]
    table = pa.table({"s": texts, "_ts": pa.array([1] * len(texts), pa.int64())})
    assert len(compare(Asked(spark_session), table, ["upper(s)", "lower(s)"])) == 2
