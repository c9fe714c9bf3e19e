"""Removing what was made of a project."""

from __future__ import annotations

from headwater import Project
from headwater.tests.api.shop import DAILY, last_values


def test_state_that_was_removed_is_restored(built: Project) -> None:
    built.clean(state=True)
    assert last_values(built.query("sales_by_day")) == DAILY

    built.run(until_caught_up=True)

    assert last_values(built.query("sales_by_day")) == DAILY
