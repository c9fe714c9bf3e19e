"""How much work an epoch is, counted: calls on files, bytes, what stores are asked. A machine's speed plays no part.

`test_counts.yml` has the numbers. One that changes is either a mistake or worth a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headwater.tests.performance.cases import CASES, Case
from headwater.tests.performance.measured import of_a_run, of_an_epoch, of_idle_rounds
from headwater.tests.performance.noted import hold_to_noted

NOTED = Path(__file__).with_suffix(".yml")
MEASURED: Mapping[str, tuple[Callable[[Case, Path], dict[str, int]], Case]] = {
    **{f"an epoch of a {name}": (of_an_epoch, case) for name, case in CASES.items()},
    "a run that has nothing to read": (of_a_run, CASES["keyed count"]),
    "five rounds without records": (of_idle_rounds, CASES["keyed count"]),
}


@pytest.mark.parametrize("what", MEASURED)
def test_work_is_as_much_as_noted(what: str, tmp_path: Path, update_golden: bool) -> None:
    measure, case = MEASURED[what]
    hold_to_noted(NOTED, what, measure(case, tmp_path), update_golden)
