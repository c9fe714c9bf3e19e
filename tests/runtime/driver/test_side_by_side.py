"""Applications of a lasting run end together, whatever one of them ends by."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.tests.runtime.driver.commits import part, topic, topology


def test_error_that_nobody_foresaw_stops_the_others_too(tmp_path: Path) -> None:
    settings = Settings(PluginRef("embedded", {"path": str(tmp_path / "log")}), str(tmp_path / "state"))
    stop = threading.Event()
    unused: Any = object()
    with pytest.raises(AttributeError):
        run_topologies(
            [topology("t", part("reads", (topic("raw"),)))],
            settings,
            unused,
            until_caught_up=False,
            stop=stop,
        )
    assert stop.is_set()
