"""parse, compile, describe, ls, clean: what needs no Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.reading.load import load_project
from headwater.compiler.settings import spark_of

Headwater = Callable[..., Result]


def test_parse_of_a_sound_project_says_what_is_there(headwater: Headwater) -> None:
    result = headwater("parse")

    assert result.exit_code == 0
    assert result.stdout == "shop: 2 topics, 1 topology, 1 flow; profile shop, target local\n"


@pytest.mark.usefixtures("break_it")
def test_parse_of_a_faulty_project_shows_the_place(headwater: Headwater, shop: Path, monkeypatch) -> None:
    monkeypatch.chdir(shop.parent)
    result = headwater("parse")

    assert result.exit_code == 1
    assert result.stderr.startswith("shop/topologies/sales.yml:11:11: error HW302: ")
    assert "Did you mean 'orders'?" in result.stderr


@pytest.mark.usefixtures("break_it")
@pytest.mark.parametrize("command", ["parse", "compile"])
def test_findings_as_json_are_data(headwater: Headwater, command: str) -> None:
    result = headwater(command, "--format", "json")

    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert (found["code"], found["line"], found["severity"]) == ("HW302", 11, "error")


@pytest.mark.usefixtures("break_it")
def test_findings_for_github_are_workflow_commands(headwater: Headwater) -> None:
    result = headwater("parse", "--format", "github")

    assert result.exit_code == 1
    assert result.stdout.startswith("::error file=")


@pytest.mark.usefixtures("break_it")
def test_compile_of_a_faulty_project_writes_nothing(headwater: Headwater, shop: Path) -> None:
    assert headwater("compile").exit_code == 1
    assert not (shop / "target" / "manifest.json").exists()


def test_compile_writes_code_and_manifest(headwater: Headwater, shop: Path) -> None:
    result = headwater("compile")

    assert result.exit_code == 0
    assert result.stdout.endswith("compiled 1 topology, target local\n")
    names = [path.relative_to(shop / "target").as_posix() for path in sorted((shop / "target").rglob("*.*"))]
    assert [name for name in names if not name.startswith(".")] == ["manifest.json", "sales/job.py", "sales/runner.py"]


def test_compile_of_an_unchanged_project_leaves_files_alone(headwater: Headwater, shop: Path) -> None:
    headwater("compile")
    before = (shop / "target" / "sales" / "job.py").stat().st_mtime_ns

    assert "unchanged" in headwater("compile").stdout
    assert (shop / "target" / "sales" / "job.py").stat().st_mtime_ns == before


def test_compile_after_a_topology_is_gone_removes_its_code(headwater: Headwater, shop: Path) -> None:
    headwater("compile")
    (shop / "topologies" / "sales.yml").unlink()

    headwater("compile")

    assert not (shop / "target" / "sales" / "job.py").exists()


@pytest.mark.spark
@pytest.mark.usefixtures("spark_session")
def test_vars_reach_the_generated_code(headwater: Headwater, shop: Path) -> None:
    headwater("compile", "--vars", "{smallest_order: 3}")

    assert '"quantity >= 3"' in (shop / "target" / "sales" / "job.py").read_text()


def test_unknown_target_is_an_error_with_a_place(headwater: Headwater) -> None:
    result = headwater("compile", "--target", "moon")

    assert result.exit_code == 1
    assert "profiles.yml" in result.stderr


def test_selector_that_names_nothing_is_wrong_use(headwater: Headwater) -> None:
    result = headwater("compile", "--select", "slaes")

    assert result.exit_code == 2
    assert "Did you mean 'sales'?" in result.stderr


@pytest.mark.usefixtures("break_it")
def test_any_command_shows_what_is_wrong_with_a_project_as_parse_does(headwater: Headwater) -> None:
    said = headwater("parse").stderr

    for command in (["describe"], ["seed"], ["query", "sales_by_day"]):
        result = headwater(*command)
        assert (result.exit_code, result.stderr) == (1, said), command


def test_describe_shows_subtopologies(headwater: Headwater) -> None:
    assert headwater("describe").stdout.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-")
    assert headwater("describe", "--format", "mermaid").stdout.startswith("flowchart TD\n")


def test_ls_lists_resources_with_their_places(
    headwater: Headwater, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)

    assert headwater("ls").stdout.splitlines() == [
        "topic     orders              topics/orders.yml:2",
        "topic     daily_sales         topics/orders.yml:16",
        "topology  sales               topologies/sales.yml:1",
        "store     sales.sales_by_day  topologies/sales.yml:5",
        "flow      sales.sales         topologies/sales.yml:10",
    ]


def test_ls_as_json_has_what_feeds_what(headwater: Headwater) -> None:
    listed = json.loads(headwater("ls", "--type", "topology", "--format", "json").stdout)

    assert [(each["name"], each["parents"]) for each in listed] == [("sales", ["topic.orders"])]


def test_ls_of_a_selection_lists_that_only(headwater: Headwater) -> None:
    assert headwater("ls", "-s", "daily_sales").stdout.split()[1] == "daily_sales"


def test_ls_outside_of_a_project_is_an_error(headwater: Headwater, shop: Path) -> None:
    (shop / "headwater.yml").unlink()
    result = headwater("ls")

    assert result.exit_code == 1
    assert "HW001" in result.stderr


def test_ls_of_a_project_with_errors_lists_what_is_there(headwater: Headwater, break_it: None) -> None:
    assert "topology  sales" in headwater("ls").stdout


@pytest.mark.parametrize("command", ["compile", "build"])
def test_target_that_cannot_be_written_is_a_sentence(headwater: Headwater, shop: Path, command: str) -> None:
    shutil.copytree(shop / "target", shop / "kept")
    shutil.rmtree(shop / "target")
    (shop / "target").symlink_to("kept")
    (shop / "kept" / "sales").write_text("in the way")
    result = headwater(command)

    assert result.exit_code == 1
    assert result.stderr == f"error: {shop / 'target' / 'sales'}: File exists\n"


def test_clean_of_a_link_leaves_what_it_leads_to(headwater: Headwater, shop: Path) -> None:
    (shop / "target").rename(shop / "kept")
    (shop / "target").symlink_to("kept")

    assert headwater("clean").exit_code == 0
    assert not (shop / "target").is_symlink()
    assert (shop / "kept" / ".cache").is_dir()


def test_clean_removes_generated_files(headwater: Headwater, shop: Path) -> None:
    headwater("compile")

    assert headwater("clean").exit_code == 0
    assert not (shop / "target").exists()
    assert headwater("clean").stdout == "nothing to remove\n"


def test_clean_of_state_asks_first(headwater: Headwater, shop: Path) -> None:
    (shop / ".headwater" / "state" / "0").mkdir(parents=True)

    assert headwater("clean", "--state", stdin="n\n").exit_code == 1
    assert (shop / ".headwater" / "state").exists()
    assert headwater("clean", "--state", "--yes").exit_code == 0
    assert not (shop / ".headwater" / "state").exists()


def test_debug_of_a_sound_project_is_all_ok(headwater: Headwater) -> None:
    result = headwater("debug", "python", "packages", "profile", "log", "state")

    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        [name, "ok"] for name in ("python", "packages", "profile", "log", "state")
    ]


def test_debug_without_java_names_the_way_out(headwater: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = headwater("debug", "java")

    assert result.exit_code == 1
    assert "fail" in result.stdout
    assert "install a JDK" in result.stderr


@pytest.mark.parametrize("written", ["3", "null", "[7]"])
def test_plugins_that_are_no_list_of_names_are_shown_in_their_place(
    headwater: Headwater, shop: Path, written: str
) -> None:
    file = shop / "headwater.yml"
    file.write_text(f"{file.read_text()}\nplugins: {written}\n")

    result = headwater("compile")

    assert result.exit_code == 1
    assert f"| plugins: {written}" in result.stderr


@pytest.mark.parametrize("written", ["racks: [a]", "epoch: 3", "epoch: {interval: 3}", "client_tags: 3", "spark: 3"])
def test_target_that_does_not_fit_is_shown_in_its_place(headwater: Headwater, shop: Path, written: str) -> None:
    lines = ["shop:", "  target: local", "  targets:", "    local:", f"      {written}"]
    (shop / "profiles.yml").write_text("\n".join(lines) + "\n")

    result = headwater("compile")

    assert result.exit_code == 1
    assert "profiles.yml:5:" in result.stderr


def test_spark_settings_of_a_faulty_target_are_those_that_fit(shop: Path) -> None:
    lines = [
        "shop:",
        "  target: local",
        "  targets:",
        "    local:",
        "      spark: {master: 'local[1]'}",
        "      epoch: 3",
    ]
    (shop / "profiles.yml").write_text("\n".join(lines) + "\n")
    assert spark_of(load_project(shop, Diagnostics())) == {"master": "local[1]"}

    (shop / "profiles.yml").write_text("\n".join([*lines[:4], "      spark: 3"]) + "\n")
    assert spark_of(load_project(shop, Diagnostics())) == {"master": "local[2]"}
