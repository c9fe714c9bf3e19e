"""Files that `plan --against` and `run --plan` are given: cut off, changed by hand, of something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.cli.printing.plans import show
from headwater.runtime.changes.baseline import ManifestError
from headwater.runtime.changes.plan import PlanBasis, PlanFileError
from headwater.tests.cli.planned import Shop

ODD: list[Any] = [None, True, 0, -1, 10**30, 1.5, "", "a", "\ud800", [], ["a"], {}, {"a": 1}, [[[]]]]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A project that has been built, with its manifest and a plan of it, which both are of now."""
    shop = Shop.built(tmp_path_factory.mktemp("deployed") / "shop")
    assert shop.headwater("plan", "--out", str(shop.root / "plan.json")).exit_code == 0
    return shop


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the values of a JSON document lie, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, part in inner for place in places(part, (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """The text with one value replaced or left out, or cut off."""
    how = draw(st.sampled_from(["replaced", "replaced", "removed", "cut"]))
    if how == "cut":
        return text[: draw(st.integers(0, len(text) - 2))]
    found = json.loads(text)
    read = [place for place in places(found)[1:] if place[:1] != ("topologies",) or place[2:3] in ((), ("committed",))]
    *outer, last = draw(st.sampled_from(read))
    inner = found
    for key in outer:
        inner = inner[key]
    if how == "removed":
        del inner[last]
    else:
        inner[last] = draw(st.sampled_from(ODD))
    return json.dumps(found)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_manifest_that_was_changed_is_compared_or_refused_by_its_name(
    deployed: Shop, tmp_path: Path, data: st.DataObject, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(data.draw(damaged((deployed.root / "target" / "manifest.json").read_text())))
    refused: ManifestError | None = None
    try:
        plan = deployed.project().plan(against=path)
    except ManifestError as error:
        refused = error
    if refused is not None:
        assert (str(path) in str(refused), bool(refused.hint)) == (True, True)
        return
    for style in ("text", "json", "github", "markdown"):
        show(plan, deployed.root, style)
        capsys.readouterr().out.encode()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_plan_that_was_changed_says_what_it_said_or_is_refused_by_its_name(
    deployed: Shop, tmp_path: Path, data: st.DataObject
) -> None:
    text = (deployed.root / "plan.json").read_text()
    path = tmp_path / "plan.json"
    path.write_text(data.draw(damaged(text)))
    refused: PlanFileError | None = None
    try:
        made = PlanBasis.read(path)
    except PlanFileError as error:
        refused = error
    if refused is not None:
        assert (str(path) in str(refused), bool(refused.hint)) == (True, True)
        return
    found = json.loads(path.read_text())
    assert [made.project, made.state, made.content, made.go_on] == [
        found[each] for each in ("project", "state", "content", "continue")
    ]
    assert (found["format"], found["against"], made.state.keys()) == (2, None, json.loads(text)["state"].keys())


DAMAGES: list[tuple[Callable[[str], str | bytes], str]] = [
    (lambda _: "", "it is empty"),
    (lambda _: "[]", "it contains a list and not an object"),
    (lambda _: "null", "it contains null and not an object"),
    (lambda _: "{", "line 1, column 2 is no JSON (Expecting property name enclosed in double quotes)"),
    (lambda text: f"{text[:-2]},\n", "is no JSON ("),
    (lambda _: "[" * 100_000, "its JSON is nested too deeply"),
    (lambda _: f"[{'9' * 5000}]", "it is no JSON (Exceeds the limit"),
    (lambda text: text.encode("utf-16"), "byte 0 is not UTF-8"),
]


@pytest.mark.parametrize(
    ("command", "file", "refused"),
    [("plan --against", "target/manifest.json", "it is no manifest: "), ("run --plan", "plan.json", "it is no plan: ")],
)
@pytest.mark.parametrize(("damage", "cause"), DAMAGES)
def test_file_that_is_no_json_is_refused_with_its_name_the_place_and_a_way_out(
    deployed: Shop,
    tmp_path: Path,
    command: str,
    file: str,
    refused: str,
    damage: Callable[[str], str | bytes],
    cause: str,
) -> None:
    path = tmp_path / "given.json"
    changed = damage((deployed.root / file).read_text())
    path.write_bytes(changed.encode() if isinstance(changed, str) else changed)

    shown = deployed.headwater(*command.split(), str(path))

    assert (shown.exit_code, type(shown.exception)) == (1, SystemExit)
    first, second = shown.output.splitlines()
    assert f"{path}: {refused}" in first
    assert cause in first
    assert second.strip().startswith("hint: ")


GONE = object()
"""Not a value: what lies there is left out."""

COMMITTED = ("topologies", 0, "committed")


@pytest.mark.parametrize(
    ("command", "place", "value", "cause"),
    [
        ("plan --against", ("schema",), "1", "schema is a text and not a whole number"),
        ("plan --against", ("project",), GONE, "project is missing"),
        ("plan --against", ("project", "name"), None, "project.name is null and not a text"),
        ("plan --against", ("topologies",), {"a": 1}, "topologies is an object and not a list"),
        ("plan --against", ("topologies", 0, "application"), "x-sales", "topologies[0].application is not that of"),
        (
            "plan --against",
            (*COMMITTED, "stores", "totals", "partitions"),
            "4",
            "topologies[0].committed.stores.totals.partitions is a text and not a whole number",
        ),
        (
            "plan --against",
            (*COMMITTED, "topics", "daily", "value"),
            "sold bigint,",
            "topologies[0].committed.topics.daily has no columns: ",
        ),
        (
            "plan --against",
            (*COMMITTED, "stores", "totals", "aggregates", 0),
            ["orders"],
            "topologies[0].committed.stores.totals.aggregates[0][1] is missing",
        ),
        ("run --plan", ("state",), {}, "state.shop-best is missing"),
        ("run --plan", ("state",), [], "state is a list and not an object"),
        ("run --plan", ("state", "shop-seed"), 3, "state.shop-seed is a whole number and not a text"),
        ("run --plan", ("content",), GONE, "content is missing"),
        ("run --plan", ("continue",), "false", "continue is a text and not true or false"),
        ("run --plan", ("format",), True, "format is true or false and not a whole number"),
    ],
)
def test_value_that_does_not_belong_there_is_refused_with_its_place(
    deployed: Shop, tmp_path: Path, command: str, place: tuple[Any, ...], value: Any, cause: str
) -> None:
    file = "plan.json" if command.startswith("run") else "target/manifest.json"
    found = inner = json.loads((deployed.root / file).read_text())
    *outer, last = place
    for key in outer:
        inner = inner[key]
    if value is GONE:
        del inner[last]
    else:
        inner[last] = value
    path = tmp_path / "given.json"
    path.write_text(json.dumps(found))

    shown = deployed.headwater(*command.split(), str(path))

    assert (shown.exit_code, type(shown.exception)) == (1, SystemExit)
    assert f"{path}: it is no " in shown.output
    assert cause in shown.output
