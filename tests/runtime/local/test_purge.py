"""Records of repartition topics are removed once their readers have consumed them, on the real loop and log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.runtime.driver import stopping as purging
from headwater.runtime.log.state import LogState
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, WHOLE_SUMS, fed, last_sums, summed_by_text

BY_TEXT = "by_text"

Make = Callable[..., LocalApplication]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round of the loop."""
    monkeypatch.setattr(purging, "PURGE_SECONDS", 0.0)


def kept(app: LocalApplication) -> tuple[int, int]:
    """Records of the repartition topic that commits list, and its files in the log."""
    state = LogState.load(app.log.commits(APPLICATION))
    ranges = [each for partition in range(PARTITIONS) for each in state.ranges(BY_TEXT, partition)]
    files = [file for file in app.log.files(APPLICATION) if f"/{BY_TEXT}/" in file.path]
    return sum(each.records for each in ranges), len(files)


def ends(app: LocalApplication) -> list[int]:
    state = LogState.load(app.log.commits(APPLICATION))
    return [state.end(BY_TEXT, partition) for partition in range(PARTITIONS)]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("log", ["embedded", "sparse"])
def test_consumed_records_of_a_repartition_topic_go_with_their_files(application: Make, log: str) -> None:
    app = fed(application(*summed_by_text(), log=log))
    app.run(max_records=3)
    records, files = kept(app)
    assert last_sums(app) == WHOLE_SUMS
    assert all(end >= RECORDS for end in ends(app))
    assert 0 < records < PARTITIONS * 10  # of each lane the last segment stays
    assert 0 < files <= PARTITIONS * 2
    fed(app).run(max_records=7, clients=2)
    assert last_sums(app) == {key: (2 * n, 2 * s) for key, (n, s) in WHOLE_SUMS.items()}


def test_records_stay_until_it_is_time(application: Make) -> None:
    app = fed(application(*summed_by_text()))
    app.run(max_records=3)
    assert kept(app)[0] == PARTITIONS * RECORDS


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(3))
def test_runs_that_are_cut_off_anywhere_lose_nothing_to_it(application: Make, seed: int) -> None:
    app = fed(application(*summed_by_text()))
    app.run_randomly(seed, moving=True)
    assert last_sums(app) == WHOLE_SUMS
