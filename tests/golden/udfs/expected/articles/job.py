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
    value="title string",
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
    rows = rows.process(
        Call("named", "slug(trim(title))", SLUG, ("trim(title)",), at=7),
        Call("named", "slug(slug(title))", SLUG, ("slug(title)",), at=7),
        Call("named", "score(words, fee * 2)", SCORE, ("cast(words as bigint)", "fee * 2"), at=7),
        Call("named", "tax(fee)", TAX, ("fee",), at=7),
        Select("short", keep=("title",), at=23),
        Sink("short", SHORT_ARTICLES, at=24),
        Call("long", "slug(title)", SLUG, ("title",), null_values=True, at=28),
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
        at=28,
    )
    return rows.process(
        Sink("named", ADDRESSES, at=11),
        Sink("long", LONG_ARTICLES, at=30),
    )


TOPOLOGY = Topology(
    project="press",
    name="articles",
    version="1.0",
    content_hash="1c7ac11827079f4e2e315a77560cbbe80bf550a8d235a97f05a336962bed1740",
    subtopologies=(named,),
)
