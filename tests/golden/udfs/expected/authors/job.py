"""Topology authors of project press 1.0.

Made by `headwater compile` from topologies/authors.yml: change that file, not this one.
"""

from headwater.runtime import (
    Agg,
    Aggregate,
    Call,
    Fork,
    GlobalJoin,
    GlobalTable,
    Pipe,
    PythonCode,
    PythonFunction,
    Select,
    Settle,
    Sink,
    Source,
    Store,
    StreamTableJoin,
    Table,
    Topic,
    Topology,
    Udf,
    subtopology,
)

FILE = "topologies/authors.yml"
FUNCTIONS = PythonCode.beside(__file__)

AUTHORS = Topic("authors", partitions=2, key="id bigint", value="name string")
ARTICLES = Topic(
    "articles",
    partitions=2,
    key="id bigint",
    value="title string, words int, fee double",
)
SLUGS_OF_WRITERS = Topic(
    "slugs_of_writers",
    partitions=2,
    key="id bigint",
    value="slug string",
    writer="press-authors",
)
SIGNED_ARTICLES = Topic(
    "signed_articles",
    partitions=2,
    key="id bigint",
    value="title string, words int, fee double, signature string, editor string",
    writer="press-authors",
)
POINTS_OF_ARTICLES = Topic(
    "points_of_articles",
    partitions=2,
    key="id bigint",
    value="points decimal(20,2), last string, named bigint",
    writer="press-authors",
)
SECTIONS = Topic("sections", partitions=1, key="slug string", value="editor string")

WRITERS = Store("writers", partitions=2, key="id bigint", value="name string")
EDITORS = Store("editors", partitions=1, key="slug string", value="editor string")
POINTS = Store(
    "points",
    partitions=2,
    key="id bigint",
    value="points decimal(20,2), last string, named bigint",
    aggregates=(
        Agg("points", "sum", "score(words, fee)", of="decimal(10,2)", type="decimal(20,2)"),
        Agg("last", "max", "slug(title)", of="string", type="string"),
        Agg(
            "named",
            "count",
            "IF(slug(title) <> '', 1, NULL)",
            of="int",
            written="count_if(slug(title) <> '')",
        ),
    ),
)

EDITORS_TABLE = GlobalTable("editors", topic=SECTIONS, store=EDITORS)

SLUG = Udf("slug", PythonFunction("functions.text:slug", FUNCTIONS), {"title": "string"}, "string")
SCORE = Udf(
    "score",
    PythonFunction("functions.scores:score", FUNCTIONS),
    {"words": "bigint", "shares": "double"},
    "decimal(10,2)",
)


@subtopology(0, "signed", file=FILE)
def signed(rows: Pipe) -> Pipe:
    """2 tasks: authors, articles -> slugs_of_writers, signed_articles, points_of_articles.

    Stores: writers, points.
    """
    rows = rows.process(
        Source(AUTHORS, "writers", at=3),
        Table("writers", WRITERS, old=True, at=3),
        Fork("writers", into=("writers", "big_writers"), at=3),
        Source(ARTICLES, ("signed", "points"), at=9),
        StreamTableJoin(
            "signed",
            "writers",
            WRITERS,
            how="inner",
            values={"writers.name": "name"},
            at=12,
        ),
        Call("big_writers", "slug(name)", SLUG, ("name",), at=33),
    )
    rows = rows.select(
        "signed",
        {"`trim(title)` string": "trim(title)"},
        keep=("title", "words", "fee", "writers.name"),
        at=12,
    )
    rows = rows.select(
        "points",
        {"`cast(words as bigint)` bigint": "cast(words as bigint)"},
        keep=("title", "fee"),
        at=24,
    )
    rows = rows.where("big_writers", "`slug(name)` <> 'nobody'", table=True, at=33)
    rows = rows.process(
        Call("signed", "slug(writers.name)", SLUG, ("writers.name",), at=12),
        Call("signed", "slug(trim(title))", SLUG, ("trim(title)",), at=12),
        Call("points", "score(words, fee)", SCORE, ("cast(words as bigint)", "fee"), at=24),
        Call("points", "slug(title)", SLUG, ("title",), at=24),
        Select("big_writers", keep=("name",), at=33),
        Call("big_writers", "slug(name)", SLUG, ("name",), at=34),
        Select("big_writers", {"slug": "slug(name)"}, at=34),
        Settle("big_writers", at=30),
        Sink("big_writers", SLUGS_OF_WRITERS, mode="per_epoch", at=35),
        keep={
            "signed": ("title", "words", "fee", "slug(writers.name)", "slug(trim(title))"),
            "points": ("score(words, fee)", "slug(title)"),
        },
    )
    rows = rows.select(
        "signed",
        {"signature string": "concat(`slug(writers.name)`, ' ', `slug(trim(title))`)"},
        keep=("title", "words", "fee"),
        at=12,
    )
    rows = rows.select(
        "points",
        {"`IF(slug(title) <> '', 1, NULL)` int": "IF(`slug(title)` <> '', 1, NULL)"},
        keep=("score(words, fee)", "slug(title)"),
        at=24,
    )
    return rows.process(
        Call("signed", "slug(title)", SLUG, ("title",), at=16),
        GlobalJoin(
            "signed",
            table=EDITORS_TABLE,
            how="left",
            by={"slug": "slug(title)"},
            values={"editor": "editor"},
            at=16,
        ),
        Select("signed", keep=("title", "words", "fee", "signature", "editor"), at=16),
        Sink("signed", SIGNED_ARTICLES, at=20),
        Aggregate("points", POINTS, emit="per_epoch", at=24),
        Sink("points", POINTS_OF_ARTICLES, mode="per_epoch", at=29),
    )


TOPOLOGY = Topology(
    project="press",
    name="authors",
    version="1.0",
    content_hash="32d8bb09b04d3a534761e26c0c5f140981376294397df6e74f0fe8a7f1fa7aa0",
    subtopologies=(signed,),
)
