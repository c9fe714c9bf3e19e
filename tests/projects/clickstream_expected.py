"""What the topologies of projects/clickstream must give, worked out as a batch in pandas from the project's seeds.

A *table* output is a mapping from key (and window) to the row, a *stream* output is, per key, the list of its records
in order. Keys are tuples, windows (start, end) in milliseconds at their end. Nothing here uses Headwater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from headwater.tests.projects.expected import MINUTE, Stream, Table

QUIET, HOT_WITHIN, CLICK_WITHIN, CLICK_GRACE = 30 * MINUTE, 10 * MINUTE, 10 * MINUTE, MINUTE
HOT = 8


@dataclass(frozen=True)
class Clickstream:
    """The seeds' rows, as they arrive."""

    page_views: pd.DataFrame
    impressions: pd.DataFrame
    clicks: pd.DataFrame

    def unique(self) -> pd.DataFrame:
        """The first report of each view. `ts`: ms."""
        first = self.page_views.drop_duplicates("event_id", keep="first")
        return first.assign(ts=_millis(first["viewed_at"]))


def unique_views(data: Clickstream) -> Stream:
    found: Stream = {}
    for row in data.unique().to_dict("records"):
        found.setdefault((row["visitor"],), []).append((row["ts"], {"event_id": row["event_id"], "page": row["page"]}))
    return found


def visits(data: Clickstream) -> Table:
    """Views of a visitor that are at most half an hour apart."""
    views = data.unique().sort_values(["visitor", "ts"], kind="stable")
    begins = (views["ts"].diff() > QUIET) | (views["visitor"] != views["visitor"].shift())
    found: Table = {}
    for (visitor, _), rows in views.groupby([views["visitor"], begins.cumsum()], sort=False):
        first, last = int(rows["ts"].min()), int(rows["ts"].max())
        found[(visitor, (first, last))] = {
            "views": len(rows),
            "first_page": rows.loc[rows["ts"] == first, "page"].iloc[0],
            "last_page": rows.loc[rows["ts"] == last, "page"].iloc[0],
            "seconds": (last - first) / 1000,
        }
    return found


def hot_pages(data: Clickstream) -> Table:
    """Windows that end with a view, and windows that start right behind one and hold another."""
    found: Table = {}
    for page, rows in data.unique().groupby("page"):
        times = rows.sort_values("ts", kind="stable")
        of_page, visitors = times["ts"].to_numpy(), times["visitor"].to_numpy()
        starts = {max(0, ts - HOT_WITHIN) for ts in of_page.tolist()} | {ts + 1 for ts in of_page.tolist()}
        for start in starts:
            inside = slice(of_page.searchsorted(start), of_page.searchsorted(start + HOT_WITHIN, "right"))
            if inside.stop - inside.start >= HOT:
                row = {"views": inside.stop - inside.start, "visitors": len(set(visitors[inside]))}
                found[(page, (start, start + HOT_WITHIN))] = row
    return found


def ad_outcomes(data: Clickstream, partitions: Mapping[str, int]) -> Stream:
    """`partitions`: of each impression's id, as each partition has a clock of its own."""
    shown = {row["impression_id"]: row for row in data.impressions.to_dict("records")}
    clicked = {key: sorted(_millis(rows["clicked_at"])) for key, rows in data.clicks.groupby("impression_id")}
    shown_at = {key: _milli(row["shown_at"]) for key, row in shown.items()}
    clock: dict[int, int] = {}
    for key, ts in [*shown_at.items(), *((key, ts) for key, times in clicked.items() for ts in times)]:
        clock[partitions[key]] = max(ts, clock.get(partitions[key], 0))
    found: Stream = {}
    for key in shown.keys() | clicked.keys():
        at, now, records = shown_at.get(key), clock[partitions[key]], []
        matched = [ts for ts in clicked.get(key, []) if at is not None and at <= ts <= at + CLICK_WITHIN]
        row = shown.get(key)
        if row is not None and not matched and now > at + CLICK_WITHIN + CLICK_GRACE:
            records.append((at, {"ad": row["ad"], "outcome": "ignored"}))
        for ts in clicked.get(key, []):
            if ts in matched:
                records.append((ts, {"ad": row["ad"], "outcome": "clicked"}))
            elif now > ts + CLICK_GRACE:
                records.append((ts, {"ad": None, "outcome": "stray"}))
        if records:
            found[(key,)] = records
    return found


def ad_totals(outcomes: Stream) -> Table:
    found: Table = {}
    for records in outcomes.values():
        for _, row in records:
            totals = found.setdefault((row["ad"] or "none",), {"ignored": 0, "clicked": 0, "stray": 0})
            totals[row["outcome"]] += 1
    return found


def _millis(times: Any) -> Any:
    return times.astype("int64") // 1000


def _milli(time: pd.Timestamp) -> int:
    return int(time.value) // 1_000_000
