"""Clients that come and go at any moment of a run, epochs that fail and tasks that stall: what is written stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.runtime.ir.topology import Assignment, PluginRef
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, fed, summed, summed_by_text


def sums_in_order(app: LocalApplication) -> dict[str, list[tuple[int, int]]]:
    """Each key's records as they were written."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in app.read(SUMS):
        found.setdefault(row["key.k"], []).append((row["value.n"], row["value.s"]))
    return found


IN_ORDER = {f"k{n}": [(x + 1, sum(range(x + 1))) for x in range(RECORDS)] for n in range(PARTITIONS)}


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize("log", ["sparse", pytest.param("embedded", marks=pytest.mark.soak)])
@pytest.mark.parametrize(("assignor", "standbys"), [("sticky", 0), ("sticky", 1), ("high_availability", 1)])
def test_clients_that_come_and_go_while_epochs_fail_cost_no_record(application, log, assignor, standbys):
    for seed in range(3):
        app = fed(application(summed(), log=log))
        assignment = Assignment(PluginRef(assignor), standby_replicas=standbys, probing_rebalance_interval_ms=60_000)
        app.topology = replace(app.topology, assignment=assignment)
        app.run_randomly(seed, moving=True)
        assert sums_in_order(app) == IN_ORDER


@pytest.mark.usefixtures("short_slices")
def test_two_subtopologies_with_a_repartition_between_them_lose_nothing_to_moving_clients(application):
    for seed in range(2):
        app = fed(application(*summed_by_text()))
        app.run_randomly(seed, moving=True)
        assert {row["key.k"]: row["value.n"] for row in app.read(SUMS)} == dict.fromkeys(IN_ORDER, RECORDS)
        assert len(app.read(SUMS)) == RECORDS * PARTITIONS
