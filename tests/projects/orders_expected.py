"""What the topologies of projects/orders must give, worked out as a batch in pandas from the project's seeds.

A *table* output is a mapping from key (and window) to the row, null columns as None; a *stream* output is, per key, the
list of its records in order. Keys are tuples, windows (start, end) in milliseconds at their end. Nothing here uses
Headwater.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from headwater.tests.projects.expected import HOUR, MINUTE, Key, Row, Stream, Table

GRACE, PATIENCE, LETTER = 10 * MINUTE, 48 * HOUR, 30 * MINUTE


@dataclass(frozen=True)
class Shop:
    """The seeds' rows."""

    customers: pd.DataFrame
    orders: pd.DataFrame
    payments: pd.DataFrame
    shipments: pd.DataFrame

    def orders_now(self) -> pd.DataFrame:
        """The last row of each order, without those that are cancelled."""
        last = _last(self.orders, "order_id", "changed_at")
        return last[last["status"] != "cancelled"]


def order_status(data: Shop) -> Table:
    rows = _progress(data).merge(
        _last(data.customers, "customer_id", "changed_at")[["customer_id", "name", "city"]], "left", "customer_id"
    )
    return _table(rows, ["cents", "customer_id", "name", "city", "method", "carrier"])


def unpaid_shipments(data: Shop) -> Table:
    return _table(data.shipments[~data.shipments["order_id"].isin(data.payments["order_id"])], ["carrier"])


def hourly_revenue(data: Shop) -> Table:
    """Hours that are over by the clock of the last payment."""
    times = _millis(data.payments["paid_at"])
    hours = times // HOUR * HOUR
    return {
        (method, (start, start + HOUR)): {"payments": len(rows), "cents": int(rows["cents"].sum())}
        for (method, start), rows in data.payments.groupby([data.payments["method"], hours])
        if start + HOUR <= times.max() - GRACE
    }


def order_news(data: Shop, partitions: Mapping[int, int]) -> Table:
    """What was last written about each order that has not changed just before the end of its partition's records."""
    rows = _progress(data)
    state = rows["method"].notna().map({True: "paid", False: "placed"}).mask(rows["carrier"].notna(), "shipped")
    news = {order: {"state": each} for order, each in zip(rows["order_id"], state, strict=True)}
    times = [(data.orders, "changed_at"), (data.payments, "paid_at"), (data.shipments, "shipped_at")]
    changes = pd.concat([rows[["order_id"]].assign(at=rows[time]) for rows, time in times])
    changes = changes[changes["order_id"].isin(news.keys())]
    changed = _millis(changes.groupby("order_id")["at"].max())
    clock = changed.groupby(changed.index.map(partitions)).max()
    return {(order,): news[order] for order, at in changed.items() if at + LETTER <= clock[partitions[order]]}


def late_shipments(data: Shop, partitions: Mapping[int, int]) -> Stream:
    """Looks every hour of a partition's clock at who was paid two days before and has no parcel."""
    paid = data.payments.assign(ts=_millis(data.payments["paid_at"]), event="paid")
    sent = data.shipments.assign(ts=_millis(data.shipments["shipped_at"]), event="sent")
    events = pd.concat([paid, sent])[["order_id", "ts", "event"]].sort_values("ts", kind="stable")
    found: Stream = {}
    for _, of_partition in events.groupby(events["order_id"].map(partitions)):
        waiting: dict[int, int] = {}
        shipped: set[int] = set()
        look, clock = 0, 0
        for order, ts, event in of_partition.itertuples(index=False):
            clock = max(clock, ts)
            if event == "sent":
                waiting.pop(order, None)
                shipped.add(order)
            elif order not in shipped:
                waiting.setdefault(order, ts)
            if clock >= look:
                for late in sorted(each for each, since in waiting.items() if clock - since >= PATIENCE):
                    hours = (clock - waiting.pop(late)) // HOUR
                    found.setdefault((late,), []).append((clock, {"hours_waiting": hours}))
                look = (clock // HOUR + 1) * HOUR
    return found


def _progress(data: Shop) -> pd.DataFrame:
    payments = _last(data.payments, "order_id", "paid_at")[["order_id", "method"]]
    shipments = _last(data.shipments, "order_id", "shipped_at")[["order_id", "carrier"]]
    return data.orders_now().merge(payments, "left", "order_id").merge(shipments, "left", "order_id")


def _last(rows: pd.DataFrame, key: str, time: str) -> pd.DataFrame:
    return rows.sort_values(time, kind="stable").drop_duplicates(key, keep="last")


def _table(rows: pd.DataFrame, columns: list[str]) -> Table:
    found: dict[Key, Row] = {}
    for row in rows.to_dict("records"):
        found[(row["order_id"],)] = {name: None if pd.isna(row[name]) else row[name] for name in columns}
    return found


def _millis(times: Any) -> Any:
    return times.astype("int64") // 1000
