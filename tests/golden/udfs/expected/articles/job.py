"""Topology articles of project press 1.0.

Made by `headwater compile` from topologies/articles.yml: change that file, not this one.
"""

from headwater.runtime import (
    Call,
    KeyBy,
    Pipe,
    PythonCode,
    PythonFunction,
    Select,
    Sink,
    Source,
    Topic,
    Topology,
    Udf,
    subtopology,
)

FILE = "topologies/articles.yml"
FUNCTIONS = PythonCode.beside(__file__)

ARTICLES = Topic(
    "articles",
    partitions=2,
    key="id bigint",
    value="title string, words int, fee double",
)
SHORT_ARTICLES = Topic(
    "short_articles",
    partitions=2,
    key="slug string",
    value="title string, large string, small string",
    writer="press-articles",
)
ADDRESSES = Topic(
    "addresses",
    partitions=2,
    key="id bigint",
    value="title string, words int, fee double, address string, points decimal(10,2), tax double",
    writer="press-articles",
)
LONG_ARTICLES = Topic(
    "long_articles",
    partitions=2,
    key="slug string",
    value="title string, words int, fee double, part string",
    writer="press-articles",
)

SLUG = Udf("slug", PythonFunction("functions.text:slug", FUNCTIONS), {"title": "string"}, "string")
SCORE = Udf(
    "score",
    PythonFunction("functions.scores:score", FUNCTIONS),
    {"words": "bigint", "shares": "double"},
    "decimal(10,2)",
)
TAX = Udf(
    "tax",
    PythonFunction("functions.scores:tax", FUNCTIONS),
    {"amount": "double"},
    "double",
    arrow=True,
)
INITIAL = Udf(
    "initial",
    PythonFunction("functions.text:initial", FUNCTIONS),
    {"title": "string"},
    "string",
)


@subtopology(0, "named", file=FILE)
def named(rows: Pipe) -> Pipe:
    """2 tasks: articles -> short_articles, addresses, long_articles."""
    rows = rows.process(
        Source(ARTICLES, ("named", "by_address"), at=3),
        Call("named", "slug(title)", SLUG, ("title",), null_values=True, at=6),
        Call("by_address", "slug(title)", SLUG, ("title",), null_values=True, at=15),
        KeyBy("by_address", {"slug": "slug(title)"}, at=15),
        keep={"by_address": ("title", "words", "fee")},
    )
    rows = rows.where("named", "`slug(title)` is not null and words > 0", at=6)
    rows = rows.select(
        "by_address",
        {
            "`cast(words as bigint)` bigint": "cast(words as bigint)",
            "`cast(0.5 as double)` double": "cast(0.5 as double)",
        },
        keep=("title", "words", "fee"),
        null_values=True,
        at=16,
    )
    rows = rows.process(
        Select("named", keep=("title", "words", "fee"), at=6),
        Call("named", "slug(title)", SLUG, ("title",), at=7),
        Call(
            "by_address",
            "score(words, 0.5)",
            SCORE,
            ("cast(words as bigint)", "cast(0.5 as double)"),
            null_values=True,
            at=16,
        ),
        keep={"by_address": ("title", "words", "fee", "score(words, 0.5)")},
    )
    rows = rows.select(
        "named",
        {
            "`trim(title)` string": "trim(title)",
            "`cast(words as bigint)` bigint": "cast(words as bigint)",
            "`fee * 2` double": "fee * 2",
        },
        keep=("title", "words", "fee", "slug(title)"),
        at=7,
    )
    rows = rows.branch(
        "by_address",
        {"short": "`score(words, 0.5)` < 1", "long": None},
        keep=("title", "words", "fee"),
        at=16,
    )
    rows = rows.select(
        "short",
        {
            "`concat('To ', title) #9d0a8d39` string": "concat('To ', title)",
            "`concat('to ', title)` string": "concat('to ', title)",
        },
        keep=("title",),
        at=23,
    )
    rows = rows.process(
        Call("named", "slug(trim(title))", SLUG, ("trim(title)",), at=7),
        Call("named", "slug(slug(title))", SLUG, ("slug(title)",), at=7),
        Call("named", "score(words, fee * 2)", SCORE, ("cast(words as bigint)", "fee * 2"), at=7),
        Call("named", "tax(fee)", TAX, ("fee",), at=7),
        Call(
            "short",
            "initial(concat('To ', title)) #2f16177f",
            INITIAL,
            ("concat('To ', title) #9d0a8d39",),
            at=23,
        ),
        Call("short", "initial(concat('to ', title))", INITIAL, ("concat('to ', title)",), at=23),
        Select(
            "short",
            {
                "large": "initial(concat('To ', title)) #2f16177f",
                "small": "initial(concat('to ', title))",
            },
            keep=("title",),
            at=23,
        ),
        Sink("short", SHORT_ARTICLES, at=27),
        Call("long", "slug(title)", SLUG, ("title",), null_values=True, at=31),
        keep={
            "named": (
                "title",
                "words",
                "fee",
                "slug(trim(title))",
                "slug(slug(title))",
                "score(words, fee * 2)",
                "tax(fee)",
            ),
        },
    )
    rows = rows.select(
        "named",
        {
            "address string": "concat('/', `slug(trim(title))`, '/', `slug(slug(title))`)",
            "points decimal(10,2)": "`score(words, fee * 2)`",
            "tax double": "`tax(fee)`",
        },
        keep=("title", "words", "fee"),
        at=7,
    )
    rows = rows.explode(
        "long",
        {"part string": "split(`slug(title)`, '-')"},
        keep=("title", "words", "fee"),
        at=31,
    )
    return rows.process(
        Sink("named", ADDRESSES, at=11),
        Sink("long", LONG_ARTICLES, at=33),
    )


TOPOLOGY = Topology(
    project="press",
    name="articles",
    version="1.0",
    content_hash="49d8e99ace8347087b67873d374cd7ef904074866b2150d3181ea6aebd235300",
    subtopologies=(named,),
)
