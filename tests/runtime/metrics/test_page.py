"""`docs/metrics.md` has lists of all metrics; `pytest tests/runtime/metrics --update-golden` renews them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.runtime.driver.counters import EPOCH_PHASES
from headwater.runtime.observe.metrics import FAMILIES

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def listed() -> str:
    rows = [
        f"| `{family.name}` | {', '.join(family.labels)} | {family.meaning.removesuffix('.')} |"
        for family in FAMILIES.values()
    ]
    return "\n".join(["| metric | labels | what it is |", "|---|---|---|", *rows])


def in_kafka() -> str:
    found: dict[str, list[str]] = {}
    for family in FAMILIES.values():
        for names in family.kafka:
            found.setdefault(names, []).append(f"`{family.name}`")
    rows = []
    for names, here in sorted(found.items()):
        group, _, of = names.partition(": ")
        rows.append(f"| {', '.join(f'`{name}`' for name in of.split(', '))} | `{group}` | {', '.join(here)} |")
    return "\n".join(["| Kafka Streams | group | here |", "|---|---|---|", *rows])


LISTS = {"metrics": listed, "kafka": in_kafka}


@pytest.mark.parametrize("name", LISTS)
def test_list_of_the_page_is_that_of_the_code(name: str, update_golden: bool) -> None:
    page = PAGE.read_text("utf-8")
    renewed = re.sub(
        rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
        lambda found: found[1] + LISTS[name]() + "\n" + found[2],
        page,
        flags=re.S,
    )
    assert f"<!-- {name} -->" in page
    if update_golden:
        PAGE.write_text(renewed, "utf-8")
    assert PAGE.read_text("utf-8") == renewed, "renew it with pytest tests/runtime/metrics --update-golden"


def test_page_explains_every_phase() -> None:
    assert [phase for phase in EPOCH_PHASES if f"| `{phase}` |" not in PAGE.read_text("utf-8")] == []
