"""Rules of windows, through YAML and the runtime in this process, wherever epochs end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.tests.conformance.driving import WHOLE, Compiled
from headwater.tests.conformance.notation import by_topic, token_of
from headwater.tests.conformance.project import Case

RULES: list[Mapping[str, Any]] = yaml.safe_load((Path(__file__).parent / "window_rules.yml").read_text())


def case_of(rule: Mapping[str, Any]) -> Case:
    """As a conformance case: `emit` is of the aggregate, which has a store with the `retention`."""
    steps: list[Any] = []
    stores: dict[str, Any] = {}
    for step in rule["steps"]:
        if step == "cat":
            kind = "session" if "session" in steps[-1]["window"] else "window"
            stores["rows"] = {"type": kind} | ({"retention": rule["retention"]} if "retention" in rule else {})
            values = {"cat": "collect_list(coalesce(v, '~'))"}
            step = {"aggregate": {"store": "rows", "emit": rule.get("emit", "each_update"), "values": values}}
        steps.append(step)
    topology = {"stores": stores, "flows": {"f": {"from": "A", "steps": steps, "to": "O"}}}
    return Case("rule", {"v": "string", "input": rule["input"], "output": rule["output"], "topology": topology})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"])
def test_rule_holds_wherever_epochs_end(tmp_path: Path, rule: Mapping[str, Any]) -> None:
    case = case_of(rule)
    case.write(tmp_path)
    compiled = Compiled(tmp_path, "case")
    for max_records in (1, 7, WHOLE):
        with compiled.driven(max_records) as driven:
            for batch in case.batches:
                driven.together({topic: map(case.record, tokens) for topic, tokens in by_topic(batch).items()})
            found = [token_of("O", each.key, each.value, each.timestamp) for each in driven.written("O")]
            assert (found, driven.dropped.total()) == (case.outputs[0].get("O", []), case.outputs[1]), max_records
