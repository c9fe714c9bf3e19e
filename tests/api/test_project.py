"""The Python face of a project: checking, settings, and what it says of wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import HeadwaterError, InvalidProjectError, Project

if TYPE_CHECKING:
    pass


def test_parse_of_a_project_with_errors_gives_them(shop: Path) -> None:
    (shop / "topics" / "orders.yml").write_text("topics: [")

    parsed = Project.load(shop).parse()

    assert not parsed.ok
    assert parsed.diagnostics[0].position.file == "topics/orders.yml"


def test_what_needs_a_valid_project_raises_the_first_error(shop: Path) -> None:
    (shop / "topologies" / "sales.yml").write_text("topology: sales\nflows:\n  a: {from: oders}\n")

    with pytest.raises(InvalidProjectError) as raised:
        Project(shop).seed()

    assert raised.value.message.startswith("topologies/sales.yml:3:13: There is no topic")
    assert "HW302" in {each.code for each in raised.value.found.diagnostics}


def test_folder_without_a_project_names_init(tmp_path: Path) -> None:
    with pytest.raises(InvalidProjectError) as raised:
        Project(tmp_path).settings()

    assert "headwater init" in str(raised.value.hint)


def test_settings_have_absolute_paths(shop: Path) -> None:
    settings = Project(shop).settings()

    assert settings.log.options["path"] == str(shop / ".headwater" / "log")
    assert settings.state_dir == str(shop / ".headwater" / "state")
    assert (settings.clients, settings.epoch_interval_ms, settings.max_records) == (1, 500, 200_000)
    assert (settings.max_bytes, settings.deadline_ms) == (256 << 20, 30_000)
    assert settings.state_cleanup_delay_ms == 600_000
    assert (settings.clean, settings.clean_interval_ms, settings.file_delete_delay_ms) == (True, 30_000, 600_000)
    profiles = shop / "profiles.yml"
    assert settings.delete_retention_ms == 86_400_000
    cleaner = "cleaner: {enabled: false, interval: 5m, file_delete_delay: 1h, delete_retention: 7d}"
    more = f"      state_cleanup_delay: 90s\n      {cleaner}"
    text = profiles.read_text().replace("      clients: 1", more)
    profiles.write_text(text.replace("      epoch:\n", "      epoch:\n        max_bytes: 1000000\n"))
    settings = Project(shop).settings()
    assert (settings.max_bytes, settings.state_cleanup_delay_ms) == (1_000_000, 90_000)
    assert (settings.clean, settings.clean_interval_ms, settings.file_delete_delay_ms) == (False, 300_000, 3_600_000)
    assert settings.delete_retention_ms == 7 * 86_400_000


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda project: project.read("orders", limit=-1), "limit must be a whole number from 0, not -1 (int)"),
        (lambda project: project.read("orders", limit=True), "limit must be a whole number from 0, not True (bool)"),
        (lambda project: project.read("orders", start="x"), "start must be a whole number from 0, not 'x' (str)"),
        (lambda project: project.read(5), "topic must be a text, not 5 (int)"),
        (lambda project: project.append(5, []), "topic must be a text, not 5 (int)"),
        (lambda project: project.query("sales_by_day", start="x"), "start must be a whole number, not 'x' (str)"),
        (lambda project: project.query("sales_by_day", key="x"), "key must be a mapping of key columns to values, "
         "not 'x' (str)"),
        (lambda project: project.query(None), "store must be a text, not None (NoneType)"),
        (lambda project: project.run(observer=print), "observer must be an object with the method on, "
         "not <built-in function print> (builtin_function_or_method)"),
        (lambda project: project.run(engine="Task"), "engine must be 'spark' or 'task', not 'Task' (str)"),
        (lambda project: project.build(engine=True), "engine must be 'spark' or 'task', not True (bool)"),
        (lambda project: project.build(observer=print), "observer must be an object with the method on, "
         "not <built-in function print> (builtin_function_or_method)"),
        (lambda project: project.run(stop=1), "stop must be an object with the method is_set and wait, not 1 (int)"),
        (lambda project: project.seed("orders"), "topics must be a list of texts, not 'orders' (str)"),
        (lambda project: Project(project.root, select="sales"), "select must be a list of texts, not 'sales' (str)"),
    ],
)  # fmt: skip
def test_argument_of_another_kind_is_told_at_once(shop: Path, call: Callable[[Any], object], said: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        call(Project(shop))
    assert caught.value.message == said
    assert not (shop / ".headwater").exists()


def test_every_public_name_can_be_imported_and_no_other() -> None:
    import headwater

    for name in headwater.__all__:
        assert getattr(headwater, name) is not None
    with pytest.raises(AttributeError):
        _ = headwater.Projekt


def test_load_refuses_an_option_that_there_is_not(shop: Path) -> None:
    with pytest.raises(TypeError, match="taget"):
        Project.load(shop, taget="local")  # type: ignore[call-arg]
    with Project.load(shop, target="local", vars={"smallest_order": 2}) as project:
        assert project.parse().target_name == "local"


def test_what_methods_give_is_shown_in_one_short_line(shop: Path) -> None:
    project = Project(shop)
    parsed, compiled, (simulation,) = project.parse(), project.compile(), project.simulate()

    assert repr(project) == f"Project({str(shop)!r})"
    assert repr(parsed) == "<Parsed shop: 2 topics, 1 topology, 0 errors, 0 warnings>"
    assert repr(compiled).startswith("<Compiled shop: 2 topics")
    assert repr(simulation) == "<Simulation of sales: tasks 4, rounds 1, moved 0>"
    shown = [*compiled.graphs, *compiled.emitted, *simulation.rounds, *project.seed(), *project.read("orders", limit=1)]
    assert max(len(repr(each)) for each in shown) < 320
    assert not any("\n" in repr(each) for each in shown)
