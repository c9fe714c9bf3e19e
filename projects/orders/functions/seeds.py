"""Two weeks of a shop: customers, orders, payments and shipments, as their systems report them.

Everything follows from one seed of random numbers, so each run has the same two weeks. Orders are corrected and
cancelled, customers move, some parcels take days, some are sent though nobody has paid.

`ORDERS` in the environment says how many orders there are (2,000 if it is not set).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

SEED = 20_260_504
START = pd.Timestamp("2026-05-04", tz="UTC")
ORDERS = 2_000
DAYS = 14
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0

CITIES = ("Aarhus", "Bergen", "Gdansk", "Leiden", "Malmo", "Porto", "Tartu", "Turin")
METHODS, METHOD_SHARES = ("card", "transfer", "wallet"), (0.6, 0.25, 0.15)
CARRIERS = ("bike", "parcel", "post")
CORRECTED, OTHER_CUSTOMER, CANCELLED = 0.10, 0.04, 0.05
PAID, PAID_TWICE, SHIPPED, UNPAID = 0.9, 0.02, 0.95, 0.03
MOVED = 0.2


def customers() -> Iterator[pa.Table]:
    """One row for each customer before the first order, and one whenever somebody moves."""
    count, rng = _customers(), _random("customers")
    first = pd.DataFrame(
        {
            "customer_id": np.arange(count),
            "name": [f"Customer {number}" for number in range(count)],
            "city": rng.choice(CITIES, count),
            "at": -1.0,
        }
    )
    moved = first[rng.random(count) < MOVED]
    moved = moved.assign(city=rng.choice(CITIES, len(moved)), at=rng.uniform(0, DAYS * DAY, len(moved)))
    yield _arrow(pd.concat([first, moved]), "changed_at")


def orders() -> Iterator[pa.Table]:
    """One row for each order, and one whenever it is corrected or cancelled."""
    placed, rng = _orders(), _random("corrections")

    def some(share: float, longest: float) -> pd.DataFrame:
        chosen = placed[rng.random(len(placed)) < share]
        return chosen.assign(at=chosen["at"] + rng.uniform(1, longest, len(chosen)))

    corrected = some(CORRECTED, HOUR)
    corrected = corrected.assign(cents=(corrected["cents"] * 0.9).round().astype("int64"))
    given = some(OTHER_CUSTOMER, 2 * HOUR)
    given = given.assign(customer_id=rng.integers(0, _customers(), len(given)))
    cancelled = some(CANCELLED, DAY).assign(status="cancelled")
    yield _arrow(pd.concat([placed, corrected, given, cancelled]), "changed_at")


def payments() -> Iterator[pa.Table]:
    """One row for each payment. Of two for an order the second says how it was paid in the end."""
    paid, rng = _payments(), _random("again")
    again = paid[rng.random(len(paid)) < PAID_TWICE]
    again = again.assign(method="transfer", at=again["at"] + rng.uniform(MINUTE, DAY, len(again)))
    yield _arrow(pd.concat([paid, again]), "paid_at")


def shipments() -> Iterator[pa.Table]:
    """One row for each parcel. Most leave within a day or two after the payment."""
    paid, placed, rng = _payments(), _orders(), _random("shipments")
    sent = paid.loc[rng.random(len(paid)) < SHIPPED, ["order_id", "at"]]
    sent = sent.assign(at=sent["at"] + rng.exponential(20 * HOUR, len(sent)))
    unpaid = placed.loc[~placed["order_id"].isin(paid["order_id"]), ["order_id", "at"]]
    unpaid = unpaid[rng.random(len(unpaid)) < UNPAID / (1 - PAID)]
    unpaid = unpaid.assign(at=unpaid["at"] + rng.uniform(HOUR, DAY, len(unpaid)))
    rows = pd.concat([sent, unpaid])
    yield _arrow(rows.assign(carrier=rng.choice(CARRIERS, len(rows))), "shipped_at")


@cache
def _orders() -> pd.DataFrame:
    """The orders as they were placed. `at`: seconds since the first day began."""
    count, rng = int(os.environ.get("ORDERS", ORDERS)), _random("orders")
    return pd.DataFrame(
        {
            "order_id": np.arange(count),
            "customer_id": rng.integers(0, _customers(), count),
            "cents": np.round(rng.lognormal(np.log(4_000), 0.9, count)).astype("int64"),
            "status": "placed",
            "at": np.sort(rng.uniform(0, DAYS * DAY, count)),
        }
    )


@cache
def _payments() -> pd.DataFrame:
    placed, rng = _orders(), _random("payments")
    paid = placed.loc[rng.random(len(placed)) < PAID, ["order_id", "cents", "at"]]
    waited: npt.NDArray[np.float64] = rng.exponential(3 * HOUR, len(paid))
    return paid.assign(method=rng.choice(METHODS, len(paid), p=METHOD_SHARES), at=paid["at"] + waited)


def _customers() -> int:
    return max(1, int(os.environ.get("ORDERS", ORDERS)) // 5)


def _random(what: str) -> np.random.Generator:
    """Numbers of its own for each kind of thing, so that a change of one leaves the others as they are."""
    return np.random.default_rng([SEED, *what.encode()])


def _arrow(table: pd.DataFrame, time: str) -> pa.Table:
    """The rows with their time as the column `time` in place of `at`."""
    times = (START + pd.to_timedelta((table["at"] * 1000).round(), unit="ms")).astype("datetime64[us, UTC]")
    return pa.Table.from_pandas(table.assign(**{time: times}).drop(columns="at"), preserve_index=False)
