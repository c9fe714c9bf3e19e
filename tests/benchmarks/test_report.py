from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from headwater.benchmarks.suite.measurement import Measurement
from headwater.benchmarks.suite.names import NAMES
from headwater.benchmarks.suite.report.page import page, pictures
from headwater.benchmarks.suite.report.plots import Plot
from headwater.benchmarks.suite.results import kept

DOCS = Path(__file__).parents[2] / "docs"
FIGURE = Measurement(
    "keyed_count",
    "records/s",
    4e6,
    1e6,
    4.0,
    4.0,
    {"ours": [3e6, 5e6], "peer": [1e6, 1e6]},
    limit=8e6,
    machine="This one",
)
GROWN = Measurement(
    "growth_keys", "records/s", 2e6, 1e6, points={"ours": {"10": 3e6, "1000": 2e6}, "peer": {"10": 1e6, "1000": 1e6}}
)


def test_page_is_what_the_kept_figures_make() -> None:
    found = {each.name: each for each in kept()}

    assert (DOCS / "benchmarks.md").read_text() == page(found), "make bench-report writes it again"
    for name, picture in pictures(found).items():
        assert (DOCS / "pictures" / name).read_text() == picture, f"make bench-report writes {name} again"


def test_page_has_every_measurement_also_before_it_is_measured() -> None:
    text = page({})

    assert all(name in text for name in NAMES)
    assert "| `keyed_count` | count and sum by key | not measured yet |" in text


def test_row_has_both_medians_their_spread_the_ratio_and_the_limit() -> None:
    text = page({"keyed_count": FIGURE})

    assert (
        "| `keyed_count` | count and sum by key | 4M records/s (3M to 5M) | 1M records/s (1M to 1M) | **4** | 4 | "
        "8M records/s |" in text
    )
    assert "This one" in text


def test_memory_is_written_out_and_its_bound_is_one_from_above() -> None:
    text = page({"memory": Measurement("memory", "MiB", 1312.0, ratio=1.08, target=1.15, at_most=True)})

    assert "| 1,310 MiB |  | **1.08** | at most 1.15 |" in text


def test_ratio_that_is_short_of_its_target_says_so() -> None:
    assert "| 3.9, short of it | 4 |" in page({"keyed_count": replace(FIGURE, ratio=3.9)})


def test_growth_has_a_picture_and_its_points() -> None:
    text = page({"growth_keys": GROWN})

    assert "](pictures/growth_keys.svg)" in text
    assert "| 1,000 | 2M records/s | 1M records/s |" in text
    assert list(pictures({"growth_keys": GROWN})) == ["growth_keys.svg"]


def test_plot_has_larger_figures_higher_and_larger_abscissas_further_right() -> None:
    svg = Plot("Title", "keys", "records", {"ours": {10.0: 1e6, 100.0: 3e6, 1000.0: 2e6}}).svg()

    circles = [(float(x), float(y)) for x, y in re.findall(r"<circle cx='([\d.]+)' cy='([\d.]+)'", svg)]
    (left, low), (middle, high), (right, between) = circles
    assert left < middle < right
    assert low > between > high
    assert middle - left == right - middle
