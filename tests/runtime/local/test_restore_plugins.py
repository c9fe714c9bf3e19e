"""Restore strategies and listeners of a project's own plugins, as the page on plugins shows them, in real runs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.commit.records import StoreSnapshot
from headwater.runtime.log.state import LogState
from headwater.runtime.state.restore_strategy import Load
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, fed, last_sums, summed

DOCS = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()


def example(hook: str) -> str:
    """The first Python code in the section on a hook."""
    return DOCS.split(f"\n### {hook}\n")[1].split("```python\n")[1].split("```")[0]


def with_plugin(app: LocalApplication, name: str, code: str) -> Settings:
    """Settings of a project that has this module; state is restored from the beginning."""
    (app.path / "headwater.yml").write_text("name: test")
    module = app.path / "plugins" / f"{name}.py"
    module.parent.mkdir()
    module.write_text(code)
    shutil.rmtree(app.path / "state")
    settings = app.settings()
    return replace(settings, project_dir=str(app.path), plugins=(*settings.plugins, f"plugins.{name}"))


def snapshots(app: LocalApplication) -> tuple[StoreSnapshot, ...]:
    return LogState.load(app.log.commits(app.topology.application)).store_snapshots.listed


@pytest.fixture
def app(application) -> LocalApplication:
    app = fed(application(summed()))
    app.run(max_records=7)
    return app


def test_strategy_of_a_plugin_saves_and_restores_as_the_page_shows_it(app, monkeypatch):
    code = example("headwater_register_restore_strategies")
    assert code.count("\n") <= 40
    settings = with_plugin(app, "strategies", code)
    app.topology = replace(app.topology, restore=PluginRef("daily", {"hours": 0}))
    assert app.attempt(settings).status == "caught_up"  # imports the module, restores from the changelog, and saves
    assert len(snapshots(app)) == PARTITIONS
    made = sys.modules["plugins.strategies"].Daily
    steps_of, steps = made.steps, []
    monkeypatch.setattr(
        made, "steps", lambda self, request: (steps.append(each) or each for each in steps_of(self, request))
    )
    shutil.rmtree(app.path / "state")
    fed(app)

    result = app.attempt(settings)

    assert (result.status, result.error) == ("caught_up", None)
    # A store whose slice has ended is asked for its steps again.
    assert len(steps) >= PARTITIONS
    assert {type(each) for each in steps} == {Load}
    assert last_sums(app) == {
        f"k{partition}": (2 * RECORDS, 2 * sum(range(RECORDS))) for partition in range(PARTITIONS)
    }


def test_listener_of_a_plugin_hears_of_each_store_as_the_page_shows_it(app, monkeypatch):
    monkeypatch.chdir(app.path)
    settings = with_plugin(app, "listeners", example("headwater_register_restore_listeners"))

    result = app.attempt(settings)

    assert (result.status, result.error) == ("caught_up", None)
    notes = (app.path / "restores.txt").read_text().splitlines()
    assert len([note for note in notes if " starts at 0 of " in note]) == PARTITIONS
    assert len([note for note in notes if note.endswith("more records, and runs")]) == PARTITIONS


RAISES = """
from headwater.plugins import hookimpl
from headwater.runtime.state.restore_listener import RestoreListener

class Raises(RestoreListener):
    def batch(self, role, store, position, end, records):
        raise ValueError("the disk for notes is full")

@hookimpl
def headwater_register_restore_listeners(register):
    register("raises", Raises)
"""


def test_listener_that_raises_ends_the_run_with_one_error_that_names_it(app):
    result = app.attempt(with_plugin(app, "raising", RAISES))

    assert result.status == "failed"
    assert "the restore listener 'raises' fails in `batch`: ValueError: the disk for notes is full" in result.error
    assert "raising.py:7" in result.error
    assert "a listener must not raise" in result.error


def test_listener_that_lacks_a_method_is_refused_before_anything_is_restored(app):
    result = app.attempt(with_plugin(app, "lacking", RAISES.replace("(RestoreListener)", "").replace("batch", "ended")))

    assert result.status == "failed"
    assert (
        "the restore listener 'raises' (plugins.lacking:Raises) has no method batch, started, suspended" in result.error
    )


STRATEGY = """
from headwater.plugins import hookimpl
from headwater.runtime.state.restore_strategy import Apply, Load, Save

class Wrong:
    def steps(self, request):
        yield Apply(request.target)

    def save(self, unsaved):
        return None

@hookimpl
def headwater_register_restore_strategies(register):
    register("wrong", Wrong)
"""
LOADING = """
        from headwater.runtime.log.commit.records import StoreSnapshot
        yield Load(StoreSnapshot("other", 0, 5, "path", 1, 2, "lmdb", 3))"""


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ("yield Apply(request.target)", "yield Apply(1 / 0)", "fails in `steps`: ZeroDivisionError: division by zero"),
        ("yield Apply(request.target)", "return 7", "fails in `steps`: TypeError: 'int' object is not iterable"),
        ("yield Apply(request.target)", "yield 7", "it gives 7 for store totals, partition 0, which is neither a Load"),
        ("        yield Apply(request.target)", LOADING, "which loads a snapshot that is not in the request"),
        ("return None", "return True", "fails in `save`: it gives True, which is neither None nor a Save"),
        ("return None", "raise OSError(28, 'full')", "fails in `save`: OSError: [Errno 28] full"),
    ],
)
def test_strategy_that_raises_or_gives_what_cannot_be_done_ends_the_run_with_one_error(app, written, instead, told):
    settings = with_plugin(app, "wrong_strategies", STRATEGY.replace(written, instead))
    app.topology = replace(app.topology, restore=PluginRef("wrong"))

    result = app.attempt(settings)

    assert result.status == "failed"
    assert "the restore strategy 'wrong' fails in `" in result.error
    assert told in result.error
    assert "correct it, or take another one" in result.error
