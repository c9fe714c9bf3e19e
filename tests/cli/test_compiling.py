"""parse, compile, describe, ls, clean: what needs no Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import Result

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.language.type_checker import VerdictCache
from headwater.compiler.pipeline import CACHE
from headwater.compiler.reading.load import load_project
from headwater.compiler.target_settings import spark_of
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.tests.disks import fill, small_disk

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
    assert result.stderr.startswith("shop/topologies/sales.yml:12:11: error HW302: ")
    assert "Did you mean 'orders'?" in result.stderr


@pytest.mark.usefixtures("break_it")
@pytest.mark.parametrize("command", ["parse", "compile"])
def test_findings_as_json_are_data(headwater: Headwater, command: str) -> None:
    result = headwater(command, "--format", "json")

    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["diagnostics"]
    assert (found["code"], found["line"], found["severity"]) == ("HW302", 12, "error")


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


def test_verbose_compile_says_that_all_types_are_known_without_spark(headwater: Headwater) -> None:
    printed = headwater("compile", "-v").stdout

    assert printed.splitlines()[-1] == "all types are known without Spark: it was not started"


def test_verbose_compile_names_expressions_that_only_spark_knows(headwater: Headwater, shop: Path) -> None:
    path = shop / "topologies" / "sales.yml"
    path.write_text(path.read_text().replace("quantity >= {{ var('smallest_order') }}", "crc32(product) > 3"))
    kept = VerdictCache(shop / CACHE)
    kept.put(("crc32(product) > 3", "product string"), "boolean")
    kept.save()

    printed = headwater("compile", "-v").stdout

    assert printed.splitlines()[-2:] == [
        "only Spark knows the types of 1 expression; their types are known from earlier runs",
        "  topologies/sales.yml:14: crc32(product) > 3: the type of `crc32` is only known to Spark",
    ]


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


def test_unknown_target_is_an_error_at_the_option(headwater: Headwater) -> None:
    result = headwater("compile", "--target", "moon")

    assert result.exit_code == 1
    assert "--target: error HW009: There is no target 'moon'." in result.stderr


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


def test_describe_says_which_of_several_topologies_follows(headwater: Headwater, shop: Path) -> None:
    (shop / "topologies" / "copies.yml").write_text("topology: copies\nflows: {all: {from: orders, to: copied}}\n")

    lines = headwater("describe").stdout.splitlines()

    assert [line for line in lines if not line.startswith(" ") and line] == [
        "# copies, topologies/copies.yml",
        "Topologies:",
        "# sales, topologies/sales.yml",
        "Topologies:",
    ]


def test_ls_lists_resources_with_their_places(
    headwater: Headwater, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)

    assert headwater("ls").stdout.splitlines() == [
        "topic     orders              topics/orders.yml:3",
        "topic     daily_sales         topics/orders.yml:17",
        "topology  sales               topologies/sales.yml:2",
        "store     sales.sales_by_day  topologies/sales.yml:6",
        "flow      sales.sales         topologies/sales.yml:11",
    ]


def test_ls_shows_stores_that_no_file_declares(headwater: Headwater, shop: Path) -> None:
    (shop / "topologies" / "more.yml").write_text(
        "topology: more\n"
        "tables:\n  products:\n    topic: daily_sales\n"
        "stores:\n  per_day:\n    type: key_value\n"
        "flows:\n"
        "  counted:\n    from: orders\n    steps:\n"
        "      - key_by: {product: product}\n"
        "      - aggregate: {values: {n: count(*)}}\n"
        "  filtered:\n    from: orders\n    steps:\n"
        "      - to_table: {store: per_day}\n"
        "      - filter: quantity > 1\n"
        "  joined:\n    from: orders\n    steps:\n"
        "      - join: {table: filtered, values: {other: filtered.quantity}}\n"
        "    to: joined_orders\n"
    )

    listed = json.loads(headwater("ls", "--type", "store", "-s", "more", "--format", "json").stdout)

    assert [(each["name"], each["implicit"], each["line"]) for each in listed] == [
        ("per_day", False, 6),
        ("products", True, 3),
        ("counted", True, 9),
        ("filtered", True, 14),
    ]
    assert "(not declared)" in headwater("ls", "--type", "store", "-s", "more").stdout


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
    assert result.stderr == (
        f"error: {shop / 'target' / 'sales'}: Not a directory\n"
        "  hint: move it away: there is a file where a folder belongs\n"
    )


def test_clean_of_a_link_leaves_what_it_leads_to(headwater: Headwater, shop: Path) -> None:
    (shop / "target").rename(shop / "kept")
    (shop / "target").symlink_to("kept")

    assert headwater("clean").exit_code == 0
    assert not (shop / "target").is_symlink()
    assert (shop / "kept" / ".schemas").is_dir()


def test_clean_removes_generated_files(headwater: Headwater, shop: Path) -> None:
    headwater("compile")

    assert headwater("clean").exit_code == 0
    assert not (shop / "target").exists()
    assert headwater("clean").stdout == "nothing to remove\n"


def keep_state(state_dir: Path, client: str, application: str) -> Path:
    """A folder of stores, as a run makes it."""
    path = state_dir / client / application
    ProcessFile.take(path, Owner("boot", 1, 0.0))
    (path / "totals" / "0").mkdir(parents=True)
    return path


@pytest.fixture
def state_dir(shop: Path) -> Path:
    return shop / ".headwater" / "state"


def test_clean_of_state_asks_first(headwater: Headwater, state_dir: Path) -> None:
    kept = keep_state(state_dir, "client-1", "shop-sales")

    asked = headwater("clean", "--state", stdin="n\n")
    assert (asked.exit_code, kept.exists()) == (1, True)
    assert f"  {kept}\nRemove " in asked.stdout
    done = headwater("clean", "--state", "--yes")
    assert (done.exit_code, kept.exists()) == (0, False)
    assert f"removed {kept}" in done.stdout


def test_clean_of_state_removes_what_headwater_made_for_the_project_alone(
    headwater: Headwater, state_dir: Path, tmp_path: Path
) -> None:
    keep_state(state_dir, "client-1", "shop-sales")
    keep_state(state_dir, "client-2", "shop-gone")
    other = keep_state(state_dir, "client-1", "workshop-sales")
    foreign = state_dir / "2024" / "shop-sales" / "report.pdf"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine")
    moved = keep_state(tmp_path / "disk", "x", "shop-sales")
    (state_dir / "client-3").mkdir()
    (state_dir / "client-3" / "shop-sales").symlink_to(moved)
    (state_dir / "notes.txt").write_text("mine")

    assert headwater("clean", "--state", "--yes").exit_code == 0

    assert not (state_dir / "client-1" / "shop-sales").exists()
    assert not (state_dir / "client-2").exists()
    assert (other / "totals" / "0").is_dir()
    assert foreign.read_text() == (state_dir / "notes.txt").read_text() == "mine"
    assert list(moved.iterdir()) == []
    assert (state_dir / "client-3" / "shop-sales").is_symlink()


def test_clean_of_a_selection_leaves_the_rest(headwater: Headwater, shop: Path, state_dir: Path) -> None:
    sales, gone = (keep_state(state_dir, "client-1", f"shop-{name}") for name in ("sales", "gone"))
    assert headwater("compile").exit_code == 0

    for nothing in ("nope", "orders", ""):
        result = headwater("clean", "--state", "--yes", "-s", nothing)
        assert (result.exit_code, sales.is_dir(), (shop / "target" / "sales").is_dir()) == (2, True, True), nothing
    assert headwater("clean", "--state", "--yes", "-s", "sales").exit_code == 0

    assert (sales.exists(), gone.exists()) == (False, True)
    assert not (shop / "target" / "sales").exists()
    assert (shop / "target" / "manifest.json").exists()


def test_clean_of_state_that_is_in_use_removes_nothing(headwater: Headwater, shop: Path, state_dir: Path) -> None:
    kept = keep_state(state_dir, "client-1", "shop-sales")

    with StateDirectory(state_dir, "client-2", "shop-sales").lock():
        assert headwater("clean", "--state", "--yes").exit_code == 1

    assert kept.exists()
    assert (shop / "target").exists()


@pytest.mark.parametrize("place", [".", "..", ".headwater", ".headwater/log", "linked"])
def test_state_dir_that_holds_something_else_is_never_removed(headwater: Headwater, shop: Path, place: str) -> None:
    assert headwater("seed").exit_code == 0
    (shop / "linked").symlink_to(".headwater")
    profiles = shop / "profiles.yml"
    profiles.write_text(profiles.read_text().replace("state_dir: .headwater/state", f"state_dir: {place}"))

    result = headwater("clean", "--state", "--yes")

    assert (result.exit_code, "HW028" in result.stderr) == (1, True)
    assert (shop / ".headwater" / "log" / "commits" / "shop-seed" / "000000000001.json").exists()


@pytest.mark.parametrize("command", [["parse"], ["debug", "profile"], ["read", "orders"], ["query", "sales_by_day"]])
def test_command_to_which_a_selection_means_nothing_does_not_take_one(
    headwater: Headwater, command: Sequence[str]
) -> None:
    result = headwater(*command, "--select", "sales")

    assert result.exit_code == 2
    assert "--select" in result.stderr


@pytest.mark.parametrize("command", ["run", "build", "compile", "describe", "simulate"])
def test_selection_without_a_topology_is_wrong_use_where_topologies_are_worked_on(
    headwater: Headwater, command: str
) -> None:
    result = headwater(command, "--select", "orders daily_sales")

    assert result.exit_code == 2
    assert "'orders daily_sales' selects no topology" in result.stderr


def test_seed_of_named_topics_takes_no_selection(headwater: Headwater) -> None:
    assert headwater("seed", "orders", "--select", "sales").exit_code == 2


def test_debug_of_a_sound_project_is_all_ok(headwater: Headwater) -> None:
    result = headwater("debug", "python", "packages", "profile", "log", "state")

    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:]] == [
        [name, "ok"] for name in ("python", "packages", "profile", "log", "state")
    ]


@pytest.mark.parametrize("what", ["a file", "no folder of its own", "a full disk"])
def test_debug_finds_a_state_directory_that_no_run_can_use(headwater: Headwater, shop: Path, what: str) -> None:
    profiles, state = shop / "profiles.yml", shop / "disk/state"
    with small_disk(shop / "disk", 16 << 10) as disk:
        match what:
            case "a file":
                state.write_text("")
                cause = f"{state}: Not a directory"
            case "no folder of its own":
                state = Path("/proc/state")
                cause = "No such file or directory"
            case _:
                fill(disk / "full")
                cause = "No space left on device"
        profiles.write_text(profiles.read_text().replace(".headwater/state", str(state)))

        result = headwater("debug", "state")

    assert result.exit_code == 1
    assert cause in result.stdout
    assert str(state.parent) in result.stdout


def test_debug_tells_which_folders_others_may_get_into_and_how_to_close_them(headwater: Headwater, shop: Path) -> None:
    state, target = shop / ".headwater" / "state", shop / "target"
    state.mkdir(parents=True)
    state.chmod(0o755)
    target.chmod(0o700)

    result = headwater("debug", "rights")

    assert result.exit_code == 0
    assert f"others may get into {state} (mode 755)" in result.stdout
    assert f"rights: if nobody else is to read them: chmod -R go= {state}\n" in result.stderr
    state.chmod(0o700)
    assert "readable by their owner only" in headwater("debug", "rights").stdout


def test_debug_without_java_names_the_way_out(headwater: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = headwater("debug", "java")

    assert result.exit_code == 1
    assert "fail" in result.stdout
    assert "JAVA_HOME is /nowhere, which is" in result.stdout
    assert "set JAVA_HOME to the folder of a JDK" in result.stderr


@pytest.mark.parametrize("written", ["3", "null", "[7]"])
def test_plugins_that_are_no_list_of_names_are_shown_in_their_place(
    headwater: Headwater, shop: Path, written: str
) -> None:
    file = shop / "headwater.yml"
    file.write_text(f"{file.read_text()}\nplugins: {written}\n")

    result = headwater("compile")

    assert result.exit_code == 1
    assert f"| plugins: {written}" in result.stderr


@pytest.mark.parametrize(
    "written",
    [
        "racks: [a]",
        "epoch: 3",
        "epoch: {interval: 3}",
        "epoch: {deadline: soon}",
        "client_tags: 3",
        "spark: 3",
        "lineage: {}",
        "lineage: {url: a, file: b}",
        "lineage: {file: b, api_key: c}",
    ],
)
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


def test_start_of_a_flow_is_in_the_code_of_its_source(headwater: Headwater, shop: Path) -> None:
    path = shop / "topologies" / "sales.yml"
    path.write_text(
        path.read_text().replace("    from: orders\n", '    from: orders\n    start: "2024-05-02T00:00:00Z"\n')
    )
    assert headwater("compile").exit_code == 0
    assert 'start="2024-05-02T00:00:00Z"' in (shop / "target" / "sales" / "job.py").read_text()
