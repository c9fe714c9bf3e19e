"""`headwater plan`: what it says in each form, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from headwater.runtime.changes.plan import PlanBasis
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.tests.cli.planned import Shop
from headwater.tests.cli.terminal import on_terminal
from headwater.version import MANIFEST_SCHEMA

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """Built, and the current folder is its own."""
    shop = Shop.made(tmp_path / "shop")
    assert [each.status for each in shop.build()] == ["caught_up", "caught_up"]
    monkeypatch.chdir(shop.root)
    return shop


def test_plan_of_an_unchanged_project_says_nothing_and_ends_with_0(shop: Shop) -> None:
    shown = shop.headwater("plan")

    assert (shown.exit_code, shown.output.splitlines()[1:]) == (
        0,
        ["├── best  no change", "└── sales  no change", "nothing has changed"],
    )


def test_plan_before_the_first_run_says_what_would_be_read(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop").judge()

    shown = shop.headwater("plan")

    assert shown.exit_code == 0
    assert "├── sales  new" in shown.output
    assert shown.output.splitlines()[-1] == "best, sales are new"
    assert "`seed` and `build` write seeds/orders.csv to it, which is not committed yet" in shown.output


def test_changed_step_is_told_with_its_place_and_goes_on_where_that_is_chosen(shop: Shop) -> None:
    shop.edit("topologies/sales.yml", "quantity >= 1", "quantity >= 2")

    shown = shop.headwater("plan")

    assert shown.exit_code == 2
    lines = [line.strip("│├└─ ") for line in shown.output.splitlines()]
    at = lines.index("flow wanted  replace  topologies/sales.yml:8")
    assert lines[at + 1 : at + 4] == [
        "its steps changed, for all records",
        "- filter quantity >= 1",
        "+ filter quantity >= 2",
    ]
    assert lines[lines.index("apply it from the next record on, and keep existing results:") + 1] == (
        "headwater run --continue"
    )

    shown = shop.headwater("plan", "--continue")

    assert (shown.exit_code, shown.output.splitlines()[2:]) == (
        0,
        [
            "└── sales  compatible  topologies/sales.yml:1",
            "    └── flow wanted  compatible  topologies/sales.yml:8",
            "        its steps changed; they apply from the next record on; existing results stay",
            "        - filter quantity >= 1",
            "        + filter quantity >= 2",
            "run resumes from what is committed",
        ],
    )


def test_refused_change_is_told_with_its_ways_out_and_ends_with_2(shop: Shop) -> None:
    shop.edit("topologies/sales.yml", "tumbling: 1d", "tumbling: 2d")

    shown = shop.headwater("plan", "--select", "sales")

    assert (shown.exit_code, shown.output.splitlines()[1:]) == (
        2,
        [
            "└── sales  error  topologies/sales.yml:1",
            "    ├── store totals  error  topologies/sales.yml:11",
            "    │   its window was tumbling 1d, is tumbling 2d",
            "    ├── topology sales  error  topologies/sales.yml:1",
            "    │   topology best has read daily, and would have to be rebuilt with it, but it is not selected",
            "    └── ways out",
            "        ├── undo the change",
            "        ├── restart it and its readers from the first available record:",
            "        │   headwater run --full-refresh --select 'sales+'",
            "        └── select it too:",
            "            headwater run --select 'sales+'",
            "run would not start sales",
        ],
    )
    assert shop.headwater("plan", "--select", "sales", "--allow", "error").exit_code == 0
    assert shop.headwater("plan", "--select", "sales", "--allow", "replace").exit_code == 2


def test_change_that_is_computed_again_is_told_with_what_is_read_and_needs_a_decision(shop: Shop) -> None:
    shop.edit("topologies/sales.yml", "tumbling: 1d", "tumbling: 2d")

    shown = shop.headwater("plan")

    lines = [line.strip("│├└─ ") for line in shown.output.splitlines()]
    assert (shown.exit_code, lines[-1]) == (2, "run would do more than resume best, sales")
    computed, read = lines[lines.index("topology sales  replace  topologies/sales.yml:1") + 1 :][:2]
    assert computed == ("its result is rebuilt; the present one stays until the rebuild has caught up")
    assert read.startswith("reads orders again: 5 records (")
    assert "it reads a rebuilt result: its result is rebuilt" in shown.output
    assert shop.headwater("plan", "--allow", "replace").exit_code == 0


def test_wrong_use_ends_with_1_as_2_is_an_answer(shop: Shop) -> None:
    for arguments in (["--allow", "all"], ["--nonsense"], ["--select", "nobody"]):
        shown = shop.headwater("plan", *arguments)
        assert (shown.exit_code, "error: " in shown.output) == (1, True)


def test_json_follows_its_schema(shop: Shop) -> None:
    schema = Draft7Validator(json.loads((ROOT / "schemas" / "plan.json").read_text()))
    for change in ("", "tumbling: 2d"):
        shop.edit("topologies/sales.yml", "tumbling: 1d", change or "tumbling: 1d")
        found = json.loads(shop.headwater("plan", "--format", "json").output)
        assert [error.message for error in schema.iter_errors(found)] == []
    assert found["verdict"] == "replace"
    (sales,) = [each for each in found["topologies"] if each["topology"] == "sales"]
    change, again = sales["changes"]
    assert (change["kind"], change["place"]) == ("store.window", "topologies/sales.yml:11")
    assert (again["kind"], [each["topic"] for each in again["reads_again"]]) == ("topology.recomputed", ["orders"])


@pytest.fixture
def manifest(shop: Shop) -> Path:
    """Of the project as it is deployed."""
    return Path(shutil.copy("target/manifest.json", "deployed.json"))


def changed(shop: Shop) -> None:
    """A bit of everything."""
    shop.edit("topologies/sales.yml", "quantity >= 1", "quantity >= 2")
    shop.edit("topologies/sales.yml", "tumbling: 1d", "tumbling: 2d")
    shop.edit("topologies/sales.yml", "sold: sum(quantity)", "sold: sum(quantity)\n            most: max(quantity)")
    shop.edit("topologies/best.yml", "topology: best", "topology: finest").judge()


@pytest.mark.parametrize("style", ["text", "markdown", "github"])
def test_plan_against_a_manifest_is_what_is_expected(
    shop: Shop, manifest: Path, style: str, update_golden: bool
) -> None:
    changed(shop)
    shutil.rmtree(".headwater")

    shown = shop.headwater("plan", "--against", str(manifest), "--format", style)

    expected = Path(__file__).with_name("plans") / f"against.{style}"
    if update_golden:
        expected.write_text(shown.output)
    assert (shown.exit_code, shown.output) == (2, expected.read_text())
    assert not Path(".headwater").exists()


def test_project_like_its_manifest_needs_no_decision(shop: Shop, manifest: Path) -> None:
    shown = shop.headwater("plan", "--against", str(manifest), "--format", "json")

    found = json.loads(shown.output)
    assert (shown.exit_code, found["verdict"], found["against"], found["log"]) == (0, "nothing", "deployed.json", None)
    assert [each["waiting"] for each in found["topologies"]] == [None, None]


def test_topology_that_says_its_former_name_is_compared_with_what_it_was(shop: Shop, manifest: Path) -> None:
    shop.edit("topologies/best.yml", "topology: best", "topology: finest\nwas: best")
    shop.edit("topologies/best.yml", "sold >= 3", "sold >= 2").judge()

    found = json.loads(shop.headwater("plan", "--against", str(manifest), "--format", "json").output)

    assert (found["verdict"], found["orphans"], found["continue"]) == ("replace", [], False)
    changes = [change for each in found["topologies"] for change in each["changes"]]
    assert [(change["kind"], change["diff"]) for change in changes] == [
        ("topology.renamed", []),
        ("flow.steps", ["- filter sold >= 3", "+ filter sold >= 2"]),
        ("topology.recomputed", []),
    ]
    found = json.loads(shop.headwater("plan", "--against", str(manifest), "--format", "json", "--continue").output)
    assert (found["verdict"], found["continue"]) == ("compatible", True)


def test_file_that_is_no_manifest_of_this_project_is_refused(shop: Shop, manifest: Path) -> None:
    found = json.loads(manifest.read_text())
    for each in found["topologies"]:
        each.pop("committed")
    for text, said in [
        ("{}", "it is no manifest"),
        (json.dumps(found), "as it is of an earlier version of Headwater"),
        (json.dumps({"project": {"name": "other"}, "topologies": []}), "it is of project other, and this is shop"),
    ]:
        manifest.write_text(text)
        shown = shop.headwater("plan", "--against", "deployed.json")
        assert (shown.exit_code, said in shown.output) == (1, True)


def test_manifest_of_a_newer_form_is_refused_by_name(shop: Shop, manifest: Path) -> None:
    found = json.loads(manifest.read_text())
    assert found["schema"] == MANIFEST_SCHEMA
    manifest.write_text(json.dumps({**found, "schema": MANIFEST_SCHEMA + 1, "headwater": "9.0"}))

    shown = shop.headwater("plan", "--against", "deployed.json")

    assert shown.exit_code == 1
    assert "deployed.json: the manifest has format 2, this version reads formats up to 1" in shown.output
    assert "plan with the version of Headwater that has written it: 9.0" in shown.output


def test_run_is_held_to_its_plan(shop: Shop) -> None:
    assert shop.headwater("plan", "--out", "plan.json").exit_code == 0
    PlanBasis.read(Path("plan.json")).require(shop.project().plan())  # nothing has moved
    order = {"order_id": 9, "product": "tea", "quantity": 3, "price": 1.0, "ordered_at": "2024-05-04T00:00:00Z"}
    shop.project().append("orders", [order])
    PlanBasis.read(Path("plan.json")).require(shop.project().plan())  # records that wait are no other state
    shop.run()

    shown = shop.headwater("run", "--plan", "plan.json")
    assert shown.exit_code == 1
    assert "the plan is outdated: shop-best, shop-sales have committed something since" in shown.output

    shop.headwater("plan", "--out", "plan.json")
    assert "the plan was made without --continue" in shop.headwater("run", "--plan", "plan.json", "--continue").output
    shop.edit("topologies/sales.yml", "quantity >= 1", "quantity >= 2").judge()
    assert "the files of sales have changed since" in shop.headwater("run", "--plan", "plan.json").output
    shown = shop.headwater("run", "--plan", "plan.json", "--select", "best")
    assert "the plan is of best, sales, this run is of best" in shown.output


def test_plan_that_does_not_hold_any_more_is_refused_before_spark_is_started(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.headwater("plan", "--out", "plan.json")
    order = {"order_id": 9, "product": "tea", "quantity": 3, "price": 1.0, "ordered_at": "2024-05-04T00:00:00Z"}
    shop.project().append("orders", [order])
    shop.run()
    shop.edit("topologies/best.yml", "sold >= 3", "crc32(product) > 3")  # Spark would have to say its type
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "/nowhere" in shop.headwater("run").output

    shown = shop.headwater("run", "--plan", "plan.json")

    assert shown.exit_code == 1
    assert "shop-best, shop-sales have committed something since" in shown.output
    assert "/nowhere" not in shown.output


def test_run_takes_no_other_file_for_a_plan(shop: Shop, manifest: Path) -> None:
    shop.headwater("plan", "--against", str(manifest), "--out", "against.json")
    Path("old.json").write_text('{"format": 99}')
    for file, said in [
        ("deployed.json", "it is no plan"),
        ("against.json", "the plan was made against a manifest, not on the log"),
        ("old.json", "the plan has format 99"),
    ]:
        shown = shop.headwater("run", "--plan", file)
        assert (shown.exit_code, said in shown.output) == (1, True)
    assert shop.headwater("run", "--plan", "old.json", "--full-refresh").exit_code == 2
    assert shop.headwater("run", "--continue", "--full-refresh").exit_code == 2
    assert shop.headwater("build", "--continue", "--full-refresh").exit_code == 2


def test_compile_says_the_plan_in_a_line_once_something_is_committed_and_has_changed(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop").judge()
    assert "plan:" not in shop.headwater("compile").output
    assert not (shop.root / ".headwater").exists()
    shop.build()
    assert "plan:" not in shop.headwater("compile").output

    shop.edit("topologies/sales.yml", "quantity >= 1", "quantity >= 2").judge()
    shown = shop.headwater("compile").output
    assert shown.splitlines()[-1] == "plan: run would do more than resume best, sales (details: `headwater plan`)"

    shop.edit("topologies/sales.yml", "tumbling: 1d", "tumbling: 2d").edit(
        "topologies/best.yml", "sold >= 3", "sold >= 2"
    )
    shop.edit("topologies/best.yml", "  best:", "  good:").judge()
    shown = shop.headwater("compile").output
    assert "plan: run would do more than resume best, sales (details: `headwater plan`)" in shown
    for command in (["run", "--select", "sales"], ["build", "--select", "sales"]):
        shown = shop.headwater(*command).output
        assert "plan: run would not start sales (details: `headwater plan`)" in shown
        assert "its window was tumbling 1d, is tumbling 2d" in shown


def test_plan_needs_no_lock_and_is_made_while_the_project_runs(shop: Shop) -> None:
    made = []

    class Planning:
        def on(self, event: Event) -> None:
            if isinstance(event, EpochCommitted):
                made.append(shop.headwater("plan", "--format", "json"))

    order = {"order_id": 9, "product": "tea", "quantity": 3, "price": 1.0, "ordered_at": "2024-05-03T12:00:00Z"}
    shop.project().append("orders", [order])
    results = shop.run(observer=Planning())

    assert [each.status for each in results] == ["caught_up", "caught_up"]
    assert {json.loads(each.output)["verdict"] for each in made} == {"nothing"}


def test_orphans_are_listed_with_their_likely_new_names(shop: Shop) -> None:
    assert "each application in the log has its topology" in shop.headwater("ls", "--orphans").output
    shop.edit("topologies/best.yml", "topology: best", "topology: finest").judge()

    (listed,) = json.loads(shop.headwater("ls", "--orphans", "--format", "json").output)
    assert (listed["application"], listed["records"], listed["renamed"]) == ("shop-best", 2, "finest")
    header, row = shop.headwater("ls", "--orphans").output.splitlines()
    assert header.split() == ["application", "records", "size", "last", "commit", "new", "name?"]
    assert row.startswith("shop-best          2")
    assert shop.headwater("ls", "--orphans", "--type", "topic").exit_code == 2


def test_plan_fits_a_terminal_of_80_columns(shop: Shop, manifest: Path) -> None:
    changed(shop)
    command = [sys.executable, "-m", "headwater.cli.main", "plan", "--against", str(manifest)]

    shown = on_terminal(command, 80)

    plain = re.sub("\x1b\\[[0-9;]*m", "", shown)
    assert shown != plain  # it has colours
    assert max(map(len, plain.splitlines())) <= 80
    assert "headwater run --full-refresh --select 'sales+'" in plain


def test_topology_renamed_without_a_word_is_asked_about_and_goes_on_with_one(shop: Shop) -> None:
    shop.edit("topologies/best.yml", "topology: best", "topology: finest")

    asked = shop.headwater("plan")

    assert asked.exit_code == 2
    assert "topology best is gone; is finest its new name?" in asked.output
    assert (
        "if finest is best under a new name, put `was: best` into its file: it resumes where that was" in asked.output
    )

    shop.edit("topologies/best.yml", "topology: finest", "topology: finest\nwas: best")
    shown = shop.headwater("plan")

    assert (shown.exit_code, shown.output.splitlines()[1:]) == (
        0,
        [
            "├── finest  compatible  topologies/best.yml:1",
            "│   └── topology finest  compatible  topologies/best.yml:1",
            "│       it was called best, and resumes from its committed state",
            "└── sales  no change",
            "run resumes from what is committed",
        ],
    )


def test_flow_and_store_that_say_what_they_were_go_on(shop: Shop) -> None:
    shop.edit("topologies/sales.yml", "  totals: {type: window", "  books: {was: totals, type: window")
    shop.edit("topologies/sales.yml", "store: totals", "store: books")
    shop.edit("topologies/sales.yml", "  wanted:\n", "  chosen:\n    was: wanted\n")

    shown = shop.headwater("plan")

    assert shown.exit_code == 0, shown.output
    assert "store books" in shown.output
    assert "it was called totals, and resumes where that was" in shown.output
    assert "it was called wanted, and resumes where that was" in shown.output
    assert [(each.status, each.error, each.records) for each in shop.run()] == [("caught_up", None, 0)] * 2
    done = shop.headwater("plan")
    assert (done.exit_code, done.output.splitlines()[2:]) == (
        0,
        [
            "└── sales  no change  topologies/sales.yml:1",
            "    ├── store books  no change  topologies/sales.yml:3",
            "    │   `was: totals` has no effect any more: the log has it as books. Once every copy of the log has, "
            "`was` can go",
            "    └── flow chosen  no change  topologies/sales.yml:5",
            "        `was: wanted` has no effect any more: the log has it as chosen. Once every copy of the log has, "
            "`was` can go",
            "nothing has changed",
        ],
    )


@pytest.mark.parametrize("against", [False, True])
def test_former_name_that_nobody_had_is_told_and_refuses_nothing(shop: Shop, manifest: Path, against: bool) -> None:
    shop.edit("topologies/best.yml", "topology: best", "topology: finest\nwas: bset")
    shop.edit("topologies/sales.yml", "  wanted:\n", "  chosen:\n    was: wantd\n").judge()
    given, where = (("--against", str(manifest)), "the manifest") if against else ((), "the log")

    found = json.loads(shop.headwater("plan", "--format", "json", *given).output)

    idle = {
        change["subject"]["name"]: (change["verdict"], change["what"], change["place"])
        for each in found["topologies"]
        for change in each["changes"]
        if change["kind"] == "was.idle"
    }
    assert idle == {
        "finest": (
            "nothing",
            f"`was: bset` names nothing in {where}, so finest counts as new; did you mean 'best'?",
            "topologies/best.yml:1",
        ),
        "chosen": (
            "nothing",
            f"`was: wantd` names nothing in {where}, so chosen counts as new; did you mean 'wanted'?",
            "topologies/sales.yml:5",
        ),
    }
    assert "::notice file=topologies/best.yml,line=1," in shop.headwater("plan", "--format", "github", *given).output


def test_former_names_are_not_told_where_nothing_is_committed(tmp_path: Path) -> None:
    shop = Shop.made(tmp_path / "shop").edit("topologies/best.yml", "topology: best", "topology: finest\nwas: best")

    assert "was" not in shop.judge().headwater("plan").output
