from __future__ import annotations

import pytest

from headwater.runtime.observe.metrics import FAMILIES
from headwater.tests.runtime.metrics.dashboard import DASHBOARD, expressions, metrics, shown

OF_PROMETHEUS = {"instance", "job"}


@pytest.mark.parametrize(("title", "expression", "legend"), list(expressions()))
def test_expression_has_only_metrics_and_labels_that_there_are(title: str, expression: str, legend: str) -> None:
    found = metrics(expression)
    assert found, title
    for name, labels in found.items():
        if name.startswith("headwater_"):
            assert labels <= set(FAMILIES[name].labels)
            assert shown(legend) <= set(FAMILIES[name].labels)
            assert ("rate(" in expression) == (FAMILIES[name].kind == "counter")
        else:
            assert shown(legend) <= OF_PROMETHEUS
    assert 'application=~"$application"' in expression or not any("headwater_" in name for name in found) or not legend


def test_panels_have_their_own_places_and_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24
    assert all(panel["description"] for panel in panels if panel["type"] != "row")


def test_dashboard_shows_every_kind_of_metric() -> None:
    used = {name for _, expression, _ in expressions() for name in metrics(expression)}
    rooms = {name.split("_")[1] for name in FAMILIES}
    assert {name.split("_")[1] for name in used if name.startswith("headwater_")} >= rooms - {"epochs"}
