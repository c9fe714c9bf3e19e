"""The project of `headwater init`, and what its seed comes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

DAILY = {
    ("coffee", "2024-05-01"): (1, 7.0),
    ("coffee", "2024-05-02"): (1, 14.0),
    ("coffee", "2024-05-03"): (1, 32.5),
    ("mug", "2024-05-01"): (1, 39.6),
    ("mug", "2024-05-02"): (1, 9.9),
    ("tea", "2024-05-01"): (2, 13.5),
    ("tea", "2024-05-02"): (2, 17.75),
}
"""What the seed of the scaffold comes to: orders and revenue by product and day."""


BEST_DAYS = """
topology: best_days
flows:
  best:
    from: daily_sales
    steps:
      - filter: revenue > 15
    to: best_days
"""


def day(milliseconds: int) -> str:
    return f"2024-05-{(milliseconds - 1714521600000) // 86_400_000 + 1:02d}"


def last_values(records: Iterable[Any]) -> dict[tuple[str, str], tuple[int, float]]:
    return {
        (record.key["product"], day(record.key["window_start"])): (record.value["orders"], record.value["revenue"])
        for record in records
    }
