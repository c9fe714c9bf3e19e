"""Cases: dates, timestamps, arrays, structs."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .case import DAY, I32, I64, TIME, Case, at, one

_TIMES = {"t": (TIME, [at("2024-12-30T23:59:59.999"), at("1969-12-31T23:59:59.5"), at("1800-01-01")])}
_DAYS = {"dt": (DAY, [date(2024, 2, 29), date(1969, 12, 28), date(2021, 1, 3)])}
_LISTS = {"r": (pa.list_(I32), [[1, None, 3], [], None])}


def _seconds(t: Any) -> Any:
    return pc.cast(pc.cast(pc.floor_temporal(t, 1, "second"), pa.timestamp("s", "UTC")), I64)


TIMES = (
    Case("year(t)", _TIMES, pc.year, texts={"datafusion": "date_part('year', t)"}),
    Case("hour(t)", _TIMES, pc.hour),
    Case(
        "dayofweek(dt)",
        _DAYS,
        pc.day_of_week,
        lambda dt: pc.day_of_week(dt, count_from_zero=False, week_start=7),
        {
            "datafusion": "date_part('dow', dt)",
            "polars": "extract(isodow from dt) % 7 + 1",
            "duckdb": "dayofweek(dt) + 1",
        },
    ),
    Case(
        "weekofyear(dt)",
        _DAYS,
        pc.iso_week,
        texts={"datafusion": "date_part('week', dt)", "polars": "extract(week from dt)"},
    ),
    Case("date_trunc('week', t)", _TIMES, lambda t: pc.floor_temporal(t, 1, "week")),
    Case("date_trunc('month', t)", _TIMES, lambda t: pc.floor_temporal(t, 1, "month")),
    Case(
        "date_add(dt, 1)",
        _DAYS,
        None,
        lambda dt: pc.cast(pc.add_checked(pc.cast(dt, I32), one(I32)), DAY),
        {
            "datafusion": "date_add(dt, cast(1 as int))",
            "polars": "dt + interval '1 day'",
            "duckdb": "cast(dt + interval 1 day as date)",
        },
    ),
    Case(
        "datediff(dt, date'2024-01-01')",
        _DAYS,
        lambda dt: pc.days_between(pa.scalar(date(2024, 1, 1)), dt),
    ),
    Case(
        "date_format(t, 'yyyy-MM-dd')",
        _TIMES,
        lambda t: pc.strftime(t, "%Y-%m-%d"),
        texts={"datafusion": "to_char(t, '%Y-%m-%d')", "polars": "strftime(t, '%Y-%m-%d')"},
    ),
    Case(
        "t + interval 1 hour",
        _TIMES,
        lambda t: pc.add_checked(t, pa.scalar(3_600_000_000, pa.duration("us"))),
        texts={"polars": "t + interval '1 hour'"},
    ),
    Case(
        "unix_seconds(t)",
        _TIMES,
        lambda t: pc.divide(pc.cast(t, I64), 1_000_000),
        _seconds,
        {"duckdb": "cast(floor(epoch(t)) as bigint)", "polars": "extract(epoch from t)"},
    ),
    Case("cast(t as date)", _TIMES, lambda t: pc.cast(t, DAY)),
    Case("t > timestamp'2000-01-01'", _TIMES, lambda t: pc.greater(t, pa.scalar(at("2000-01-01")))),
)

ARRAYS = (
    Case("r[0]", _LISTS, lambda r: pc.list_element(r, 0), texts={"datafusion": "r[1]", "polars": "array_get(r, 1)"}),
    Case(
        "element_at(r, -1)",
        _LISTS,
        texts={"datafusion": "array_element(r, -1)", "polars": "array_get(r, -1)"},
    ),
    Case("size(r)", _LISTS, pc.list_value_length, texts={"datafusion": "cardinality(r)", "polars": "array_length(r)"}),
    Case("array_contains(r, 2)", _LISTS),
    Case("st.x", {"st": (pa.struct([("x", I32)]), [{"x": 1}, None])}, lambda st: pc.struct_field(st, "x")),
)
