"""A flow that was removed and comes back: the plan says where it goes on, and the run does so."""

from __future__ import annotations

import pytest

from headwater.runtime.changes.model import Verdict
from headwater.runtime.changes.plan import Plan
from headwater.tests.cli.planned import FILES, Shop

SALES = "topologies/sales.yml"
BIG = "  big:\n    from: returns\n    steps:\n      - filter: quantity >= 3\n    to: big_returns\n"
LAST = "    to: daily\n"
KEPT = "big_returns keeps its 5 records of before"
ON = "was there before, and resumes at its old position, behind 8 records of returns"


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A project that has run with the flow and then without it, and has got records meanwhile."""
    shop = Shop.made(tmp_path_factory.mktemp("without") / "shop", {**FILES, SALES: FILES[SALES] + BIG})
    shop.judge().project().seed()
    append(shop, range(8))
    caught_up(shop)
    caught_up(shop.edit(SALES, BIG, ""))
    append(shop, range(8, 11))
    return shop


def append(shop: Shop, quantities: range) -> None:
    shop.project().append("returns", [{"order_id": n, "product": "tea", "quantity": n} for n in quantities])


def caught_up(shop: Shop) -> None:
    assert {each.status for each in shop.run()} == {"caught_up"}


def quantities(shop: Shop, topic: str) -> list[int]:
    return sorted(each.value["quantity"] for each in shop.project().read(topic))


def told(plan: Plan) -> list[str]:
    return [each.what for each in plan.changes if each.subject.kind == "flow"]


@pytest.mark.parametrize(
    ("flow", "what", "result"),
    [
        (BIG.replace(">= 3", ">= 9"), [f"it {ON}; {KEPT}"], [3, 4, 5, 6, 7, 9, 10]),
        (
            BIG.replace("  big:", "  large:").replace(">= 3", ">= 9"),
            [f"it starts at the first available record; {KEPT}"],
            [3, 4, 5, 6, 7, 9, 10],
        ),
        (BIG.replace("to: big_returns", "to: larger"), [f"it {ON}"], [8, 9, 10]),
        (
            f"{BIG}  more:\n    from: big\n    to: larger\n",
            [f"it {ON}; {KEPT}", f"its subtopology big {ON}"],
            [8, 9, 10],
        ),
        (
            BIG.replace("  big:", "  large:").replace("to: big_returns", "to: larger"),
            ["it is new, and starts at the first available record"],
            list(range(3, 11)),
        ),
    ],
    ids=["with other steps", "under another name", "with another topic", "read by a new one", "as another one"],
)
def test_flow_that_comes_back_goes_on_where_the_plan_says_behind_the_records_that_it_counts(
    without: Shop, tmp_path_factory: pytest.TempPathFactory, flow: str, what: list[str], result: list[int]
) -> None:
    shop = without.copied(tmp_path_factory.mktemp("with") / "shop").edit(SALES, LAST, f"{LAST}{flow}").judge()
    plan = shop.project().plan()
    assert (plan.verdict, told(plan)) == (Verdict.COMPATIBLE, what)
    caught_up(shop)
    topic = "larger" if "to: larger" in flow else "big_returns"
    assert quantities(shop, topic) == result
    assert shop.project().plan().verdict is Verdict.NOTHING


def test_flow_that_comes_back_begins_with_nothing_after_the_command_that_the_plan_names(
    without: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flow = BIG.replace(">= 3", ">= 7")
    shop = without.copied(tmp_path_factory.mktemp("again") / "shop").edit(SALES, LAST, f"{LAST}{flow}").judge()
    (way,) = (way for each in shop.project().plan().changes for way in each.ways)
    assert way.command is not None
    assert shop.typed(way.command).exit_code == 0
    assert quantities(shop, "big_returns") == [7, 8, 9, 10]
