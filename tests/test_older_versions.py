"""What an earlier release has left behind is read: its log, its stores, its manifest.

`fixtures/REVISION.tar.gz` is a project as that release has left it, see `fixtures/make.py`.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headwater import Project
from headwater.cli.main import main
from headwater.runtime.driver.client_events import StoreRestored
from headwater.runtime.driver.events import Event
from headwater.runtime.driver.runs import run_topologies
from headwater.tests.runtime.local.arrow_sql import ArrowCluster

FIXTURES = Path(__file__).parent / "fixtures"
RELEASES = sorted(path.name.removesuffix(".tar.gz") for path in FIXTURES.glob("*.tar.gz"))
ORDER = {"product": "t", "quantity": 3, "price": 2.5, "ordered_at": "2024-05-09T00:00:00Z"}
SALES = "topologies/sales.yml"


class Restored:
    """The stores that a run restored. Copies of global tables are not asked for: these are cheap to load again."""

    def __init__(self) -> None:
        self.stores: list[str] = []

    def on(self, event: Event) -> None:
        if isinstance(event, StoreRestored) and event.store != "catalog":
            self.stores.append(f"{event.application} {event.store} {event.partition}")


class Left:
    """The project as the release has left it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.edit("profiles.yml", "max_records: 1}", "max_records: 1000}")  # which made commits enough to be folded
        self.expected = json.loads((root / "expected.json").read_text())
        self.topics: dict[str, list[Any]] = self.expected["topics"]
        self.stores: dict[str, list[Any]] = self.expected["stores"]

    def project(self) -> Project:
        return Project(self.root)

    def headwater(self, command: str, *arguments: str) -> tuple[int, str]:
        shown = CliRunner().invoke(main, [*command.split(), "--project-dir", str(self.root), *arguments])
        return shown.exit_code, shown.output

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    def append(self) -> None:
        orders = [{"timestamp": 1_715_300_000_000 + n, "key": {"order_id": n}, "value": ORDER} for n in range(300, 306)]
        self.project().append("orders", orders)

    def run(self) -> list[str]:
        """Until caught up; the stores that were restored."""
        project, restored = self.project(), Restored()
        results = run_topologies(
            project._code.topologies(), project.settings(), ArrowCluster(), until_caught_up=True, observer=restored
        )
        assert [(each.status, each.error) for each in results.applications] == [("caught_up", None)] * 2
        return restored.stores

    def result(self) -> dict[str, list[Any]]:
        """Topics as sequences of records of each key, and stores."""
        project = self.project()
        topics = {topic: by_key([asdict(each) for each in project.read(topic)]) for topic in self.topics}
        return {**topics, **{store: rows([asdict(each) for each in project.query(store)]) for store in self.stores}}


def by_key(records: list[dict[str, Any]]) -> list[Any]:
    """Without offsets: in which order the records of several keys stand depends on how a run went."""
    found: dict[str, list[Any]] = {}
    for each in records:
        found.setdefault(json.dumps(each["key"]), []).append((each["timestamp"], each["value"]))
    return sorted(found.items())


def rows(found: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in found)


Fresh = Callable[[Left, Path], dict[str, list[Any]]]


@pytest.fixture(params=RELEASES)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Left:
    with tarfile.open(FIXTURES / f"{request.param}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    return Left(tmp_path / "project")


@pytest.fixture(scope="module")
def fresh() -> Fresh:
    """The results of projects with the same records that this version has begun, each made once."""
    made: dict[str, dict[str, list[Any]]] = {}

    def result(left: Left, path: Path) -> dict[str, list[Any]]:
        key = json.dumps([left.topics, (left.root / SALES).read_text()])
        if key not in made:
            other = begun(left, path)
            other.append()
            other.run()
            made[key] = other.result()
        return made[key]

    return result


def begun(left: Left, path: Path) -> Left:
    """The same project, begun by this version, with the same records."""
    root = path / "fresh"
    shutil.copytree(left.root, root, ignore=shutil.ignore_patterns(".headwater"))
    (root / "profiles.yml").write_text((FIXTURES / "project" / "profiles.yml").read_text())
    other = Left(root)
    other.project().seed()
    appended = [each for each in left.topics["orders"] if each["key"]["order_id"] >= 20]
    given = [{name: each[name] for name in ("timestamp", "key", "value")} for each in appended]
    for orders in (range(20, 90), range(90, 110)):
        other.project().append("orders", [each for each in given if each["key"]["order_id"] in orders])
    return other


def test_log_of_an_earlier_release_is_whole_and_read_as_that_release_has_read_it(left: Left) -> None:
    assert left.headwater("log verify")[0] == 0
    project = left.project()
    for topic, records in left.topics.items():
        assert [json.loads(each.to_json()) for each in project.read(topic)] == records, topic
    for store, found in left.stores.items():
        assert rows([asdict(each) for each in project.query(store)]) == rows(found), store


def test_plan_of_a_log_of_an_earlier_release_finds_no_reason_not_to_go_on(left: Left) -> None:
    code, shown = left.headwater("plan")

    assert (code, shown.splitlines()[-1]) in [(0, "nothing has changed"), (0, "run resumes from what is committed")]


@pytest.mark.parametrize("stores", ["kept", "lost"])
def test_run_goes_on_where_an_earlier_release_has_ended(left: Left, stores: str, fresh: Fresh, tmp_path: Path) -> None:
    if stores == "lost":
        shutil.rmtree(left.root / ".headwater" / "state")
    left.append()

    restored = left.run()

    assert bool(restored) == (stores == "lost"), restored
    assert left.headwater("log verify")[0] == 0
    assert left.result() == fresh(left, tmp_path)


def test_changed_project_computes_again_what_an_earlier_release_has_computed(
    left: Left, fresh: Fresh, tmp_path: Path
) -> None:
    left.edit(SALES, "sold: sum(quantity)\n            name", "sold: max(quantity)\n            name")
    left.append()

    left.run()

    assert left.result() == fresh(left, tmp_path)
