"""The candidates: what evaluates expressions over Arrow record batches in a Python process, each in one thread.

A candidate prepares a filter and a projection once, as far as it can keep anything between batches. All give batches
with the columns and types of `OUTPUT`, because the next operator reads those.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc
import sqlglot

CONDITION = "dep_delay > 15 and carrier <> 'AA'"
PROJECTION = {
    "hours": "dep_delay / 60.0",
    "dest": "coalesce(dest, 'none')",
    "how": "case when dep_delay > 60 then 'very late' when dep_delay > 30 then 'late' else 'some' end",
    "next": "cast(x as bigint) + 1",
}
OUTPUT = pa.schema([("hours", pa.float64()), ("dest", pa.string()), ("how", pa.string()), ("next", pa.int64())])

Evaluation = Callable[[pa.RecordBatch], pa.Table | pa.RecordBatch]


class Candidate(Protocol):
    def flights(self) -> Evaluation:
        """CONDITION and PROJECTION, prepared."""


class Engine(Candidate, Protocol):
    """A candidate with SQL of its own."""

    def text(self, expression: str) -> str:
        """Spark's SQL as this engine has it."""

    def values(self, expression: str, rows: pa.RecordBatch) -> list[Any]:
        """What an expression comes to, row by row, as Python values. Raises the candidate's own errors."""


class Kernels:
    """Arrow's compute functions, called one after the other: each looked up and given its options once."""

    def flights(self) -> Evaluation:
        greater, differs, both = _bound("greater"), _bound("not_equal"), _bound("and_kleene")
        kept = _bound("filter", pc.FilterOptions("drop"))
        divided, first, chosen = _bound("divide_checked"), _bound("coalesce"), _bound("case_when")
        cases = _bound("make_struct", pc.MakeStructOptions(["0", "1"]))
        trimmed, added = _bound("utf8_trim_whitespace"), _bound("add_checked")
        number = _bound("cast", pc.CastOptions.safe(pa.int64()))
        constant = {each: pa.scalar(each) for each in (1, 15.0, 30.0, 60.0, "AA", "none", "very late", "late", "some")}

        def evaluated(batch: pa.RecordBatch) -> pa.RecordBatch:
            late = greater(batch["dep_delay"], constant[15.0])
            passes = both(late, differs(batch["carrier"], constant["AA"]))
            delay, dest, x = (kept(batch[name], passes) for name in ("dep_delay", "dest", "x"))
            conditions = cases(greater(delay, constant[60.0]), greater(delay, constant[30.0]))
            columns = [
                divided(delay, constant[60.0]),
                first(dest, constant["none"]),
                chosen(conditions, constant["very late"], constant["late"], constant["some"]),
                added(number(trimmed(x)), constant[1]),
            ]
            return pa.RecordBatch.from_arrays(columns, schema=OUTPUT)

        return evaluated


class Acero:
    """The same functions as expressions in a plan of Arrow's engine."""

    def flights(self) -> Evaluation:
        delay, x = pc.field("dep_delay"), pc.field("x")
        condition = (delay > 15.0) & (pc.field("carrier") != "AA")
        how = (pc.make_struct(delay > 60.0, delay > 30.0), *map(pc.scalar, ("very late", "late", "some")))
        number = pc.utf8_trim_whitespace(x).cast(pa.int64())
        columns = [
            pc.divide_checked(delay, pc.scalar(60.0)),
            pc.coalesce(pc.field("dest"), pc.scalar("none")),
            pc.case_when(*how),
            pc.add_checked(number, pc.scalar(1)),
        ]
        kept = acero.Declaration("filter", acero.FilterNodeOptions(condition))
        made = acero.Declaration("project", acero.ProjectNodeOptions(columns, OUTPUT.names))

        def evaluated(batch: pa.RecordBatch) -> pa.Table:
            source = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
            plan = acero.Declaration.from_sequence([acero.Declaration("table_source", source), kept, made])
            return plan.to_table(use_threads=False)

        return evaluated


class DataFusion:
    """DataFusion with its functions for Spark and its ANSI mode. A plan belongs to its batches: one for each call."""

    def __init__(self) -> None:
        import datafusion

        settings = {"execution.enable_ansi_mode": "true", "sql_parser.dialect": "Spark", "execution.time_zone": "UTC"}
        config = datafusion.SessionConfig().with_target_partitions(1).with_batch_size(1 << 16)
        for name, value in settings.items():
            config = config.set(f"datafusion.{name}", value)
        self._context = datafusion.SessionContext(config)
        self._context.enable_spark_functions()

    def flights(self) -> Evaluation:
        from datafusion import col, functions, lit

        delay = col("dep_delay")
        condition = (delay > lit(15.0)) & (col("carrier") != lit("AA"))
        how = functions.when(delay > lit(60.0), lit("very late")).when(delay > lit(30.0), lit("late"))
        columns = [
            (delay / lit(60.0)).alias("hours"),
            functions.coalesce(col("dest"), lit("none")).alias("dest"),
            how.otherwise(lit("some")).alias("how"),
            (functions.btrim(col("x")).cast(pa.int64()) + lit(1)).alias("next"),
        ]

        def evaluated(batch: pa.RecordBatch) -> pa.Table:
            frame = self._context.create_dataframe([[batch]]).filter(condition).select(*columns)
            return frame.to_arrow_table().cast(OUTPUT)

        return evaluated

    def text(self, expression: str) -> str:
        return expression

    def values(self, expression: str, rows: pa.RecordBatch) -> list[Any]:
        self._context.deregister_table("t")
        self._context.register_record_batches("t", [[rows]])
        return list(self._context.sql(f"select {expression} as r from t").to_arrow_table()["r"].to_pylist())


class Polars:
    """Polars' expressions, made once from its SQL; strings come out in another layout and are copied."""

    def __init__(self) -> None:
        os.environ["POLARS_MAX_THREADS"] = "1"  # read when polars is loaded
        import polars

        self._polars = polars

    def flights(self) -> Evaluation:
        polars = self._polars
        condition = polars.sql_expr(CONDITION)
        columns = [polars.sql_expr(text).alias(name) for name, text in PROJECTION.items()]

        def evaluated(batch: pa.RecordBatch) -> pa.Table:
            return polars.from_arrow(batch).filter(condition).select(columns).to_arrow().cast(OUTPUT)

        return evaluated

    def text(self, expression: str) -> str:
        return expression

    def values(self, expression: str, rows: pa.RecordBatch) -> list[Any]:
        frame = self._polars.from_arrow(rows)
        return list(frame.select(self._polars.sql_expr(expression).alias("r")).to_arrow()["r"].to_pylist())


class DuckDb:
    """DuckDB over the batch as a table; texts in its dialect by sqlglot. It parses and plans in each call."""

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("set timezone = 'UTC'")

    def flights(self) -> Evaluation:
        columns = ", ".join(f"{self.text(text)} as {name}" for name, text in PROJECTION.items())
        query = f"select {columns} from t where {self.text(CONDITION)}"

        def evaluated(batch: pa.RecordBatch) -> pa.Table:
            self._connection.register("t", batch)
            return self._connection.sql(query).to_arrow_table()

        return evaluated

    def text(self, expression: str) -> str:
        """Read as Databricks' SQL, where casts and divisions raise errors, as in Spark's ANSI mode."""
        return str(sqlglot.transpile(expression, read="databricks", write="duckdb")[0])

    def values(self, expression: str, rows: pa.RecordBatch) -> list[Any]:
        self._connection.register("t", pa.Table.from_batches([rows]))
        found = self._connection.sql(f"select {expression} as r from t")
        return list(found.to_arrow_table()["r"].to_pylist())


ENGINES: Mapping[str, Callable[[], Engine]] = {"datafusion": DataFusion, "polars": Polars, "duckdb": DuckDb}

CANDIDATES: Mapping[str, Callable[[], Candidate]] = {"kernels": Kernels, "acero": Acero, **ENGINES}

PACKAGES: Mapping[str, Sequence[str]] = {
    "kernels": (),
    "acero": (),
    "datafusion": ("datafusion",),
    "polars": ("polars", "polars-runtime-32"),
    "duckdb": ("duckdb",),
}
"""What has to be installed beside Headwater: distributions."""


def _bound(name: str, options: Any = None) -> Callable[..., Any]:
    call = pc.get_function(name).call
    return lambda *arguments: call(arguments, options)
