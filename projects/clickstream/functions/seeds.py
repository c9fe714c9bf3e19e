"""A day on a web site: what browsers and phones report, in the order in which the reports arrive.

Everything follows from one seed of random numbers, so each run has the same day. Visitors come in bursts (a visit), at
night fewer than in the evening; few pages get most views. Some phones were offline and report a whole visit minutes
later; some reports arrive twice; some clicks are by bots that were never shown an ad.

`CLICKSTREAM_EVENTS` in the environment says how many page views there are, about (20,000 if it is not set).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

SEED = 20_260_302
START = pd.Timestamp("2026-03-02", tz="UTC")
EVENTS = 20_000
DAY, MINUTE = 86_400.0, 60.0

VIEWS_A_VISIT = 6
PAGES, ADS = 200, 12
DEVICES, DEVICE_SHARES = ("desktop", "phone", "tablet"), (0.4, 0.5, 0.1)
OFFLINE, TWICE, WITH_AD, CLICKED, BOTS = 0.06, 0.02, 0.3, 0.05, 0.004
LONGEST_OFFLINE = 20 * MINUTE

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def page_views() -> Iterator[pa.Table]:
    """One row for each report of a page view, some of them twice."""
    views, rng = _views(), _random("reports")
    again = views[rng.random(len(views)) < TWICE]
    again = again.assign(arrived=again["arrived"] + rng.exponential(10, len(again)))
    reports = pd.concat([views, again]).sort_values("arrived", kind="stable")
    yield _arrow(reports[["visitor", "event_id", "page", "device", "viewed_at"]])


def impressions() -> Iterator[pa.Table]:
    """One row for each ad that was shown, reported at once."""
    yield _arrow(_impressions()[["impression_id", "ad", "page", "shown_at"]])


def clicks() -> Iterator[pa.Table]:
    """One row for each click on an ad: most within seconds, some twice, some when the ad is long forgotten."""
    shown, rng = _impressions(), _random("clicks")
    clicked = shown[rng.random(len(shown)) < CLICKED]
    after = np.round(rng.lognormal(np.log(15), 1.8, len(clicked)), 3)
    first = pd.DataFrame({"impression_id": clicked["impression_id"], "at": clicked["at"] + after})
    second = first[rng.random(len(first)) < TWICE]
    second = second.assign(at=second["at"] + 0.25)
    bots = max(1, round(BOTS * len(shown)))
    forged = pd.DataFrame(
        {"impression_id": [f"forged-{number}" for number in range(bots)], "at": rng.uniform(0, DAY, bots).round(3)}
    )
    table = pd.concat([first, second, forged]).sort_values("at", kind="stable")
    yield _arrow(table.assign(clicked_at=_times(table["at"]))[["impression_id", "clicked_at"]])


@cache
def _views() -> pd.DataFrame:
    """All page views of the day, by time. `at`, `arrived`: seconds of the day, of the view and of its report."""
    events, rng = int(os.environ.get("CLICKSTREAM_EVENTS", EVENTS)), _random("views")
    visits = max(1, events // VIEWS_A_VISIT)
    views = rng.geometric(1 / VIEWS_A_VISIT, visits)
    visit = np.repeat(np.arange(visits), views)
    starts = _starts(visits, rng)
    pauses = rng.lognormal(np.log(20), 1.1, len(visit))
    pauses[np.cumsum(views) - views] = 0  # a visit begins with its first view
    at = np.round(starts[visit] + _sums_within(pauses, views), 3)
    offline = (rng.random(visits) < OFFLINE)[visit]
    back = rng.uniform(0, LONGEST_OFFLINE, visits)[visit]
    delay = np.where(offline, back, rng.exponential(0.4, len(visit)))
    table = pd.DataFrame(
        {
            "visitor": [f"v{number}" for number in rng.integers(0, max(1, visits // 2), visits)[visit]],
            "page": [f"/page/{number}" for number in _popular(PAGES, len(visit), rng)],
            "device": np.where(offline, "phone", rng.choice(DEVICES, visits, p=DEVICE_SHARES)[visit]),
            "at": at,
            "arrived": at + delay,
        }
    ).sort_values("at", kind="stable")
    return table.assign(event_id=[f"e{number}" for number in range(len(table))], viewed_at=_times(table["at"]))


@cache
def _impressions() -> pd.DataFrame:
    views, rng = _views(), _random("impressions")
    shown = views[rng.random(len(views)) < WITH_AD]
    return shown.assign(
        impression_id=[f"i{number}" for number in range(len(shown))],
        ad=[f"ad-{number}" for number in _popular(ADS, len(shown), rng)],
        shown_at=shown["viewed_at"],
    )


def _starts(visits: int, rng: np.random.Generator) -> Floats:
    """When visits begin, in seconds of the day: three times as many at the best hour as at the worst."""
    candidates = rng.uniform(0, DAY, 3 * visits + 100)
    wanted = (2 - np.cos(2 * np.pi * (candidates / DAY - 0.15))) / 3
    found: Floats = candidates[rng.random(len(candidates)) < wanted][:visits]
    return found


def _sums_within(values: Floats, lengths: Ints) -> Floats:
    """The running sums, which begin again with each run of `lengths`."""
    sums = np.cumsum(values)
    before = sums[np.cumsum(lengths) - lengths]
    found: Floats = sums - np.repeat(before, lengths)
    return found


def _popular(things: int, count: int, rng: np.random.Generator) -> Ints:
    """Choices of which the first are taken most: the n-th of them 1/n times as often as the first (Zipf)."""
    shares = 1 / np.arange(1, things + 1)
    return rng.choice(things, count, p=shares / shares.sum())


def _times(seconds: pd.Series[float]) -> pd.Series[pd.Timestamp]:
    return (START + pd.to_timedelta((seconds * 1000).round(), unit="ms")).astype("datetime64[us, UTC]")


def _random(what: str) -> np.random.Generator:
    """Numbers of its own for each kind of thing, so that a change of one leaves the others as they are."""
    return np.random.default_rng([SEED, *what.encode()])


def _arrow(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False)
