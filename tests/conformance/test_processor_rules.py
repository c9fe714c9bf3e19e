"""Rules of processors and punctuations, through YAML and the runtime in this process, wherever epochs end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.runtime.testing.driven import Advance
from headwater.tests.conformance.driving import WHOLE, Compiled
from headwater.tests.conformance.notation import by_topic, parse_input, token_of
from headwater.tests.conformance.project import Case

RULES: list[Mapping[str, Any]] = yaml.safe_load((Path(__file__).parent / "processor_rules.yml").read_text())
BEGINNING = '''
from headwater import Record


class Step:
    """Forwards all records as they are."""

    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)

    def say(self, key, time):
        self.context.forward(Record({"k": key}, {"v": str(time)}, time))

    def tell(self, time):
        self.say("tick", time)


'''


def case_of(rule: Mapping[str, Any]) -> Case:
    """As a conformance case. A step that is named is a class of the `code`, with the store `rows` if there is one."""
    stores: dict[str, Any] = {}
    uses: dict[str, Any] = {}
    if "store" in rule:
        stores["rows"] = {**rule["store"], "key": {"k": "string"}, "value": {"v": "string"}}
        uses["stores"] = ["rows"]
    steps = [
        {"process": {"function": f"functions.case:{step}", **uses}} if isinstance(step, str) else step
        for step in rule.get("steps", ())
    ]
    flows = rule.get("flows", {"f": {"from": "A", "steps": steps, "to": "O"}})
    topology = {"tables": rule.get("tables", {}), "stores": stores, "flows": flows}
    given = rule["input"] if isinstance(rule["input"], list) else [rule["input"]]
    records = " ".join(each for each in given if isinstance(each, str))
    code = {"case": BEGINNING + rule["code"]}
    return Case(
        "rule", {"v": "string", "input": records, "output": rule["output"], "topology": topology, "functions": code}
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["rule"])
def test_rule_holds_wherever_epochs_end(tmp_path: Path, rule: Mapping[str, Any]) -> None:
    case = case_of(rule)
    case.write(tmp_path)
    compiled = Compiled(tmp_path, "case")
    for max_records in (1, 7, WHOLE):
        with compiled.driven(max_records) as driven:
            for each in rule["input"] if isinstance(rule["input"], list) else [rule["input"]]:
                if isinstance(each, int):
                    driven.topology.feed([Advance(each, wall_clock=True)])
                    continue
                for batch in parse_input(each):
                    driven.together({topic: map(case.record, tokens) for topic, tokens in by_topic(batch).items()})
            found = [token_of("O", each.key, each.value, each.timestamp) for each in driven.written("O")]
            assert (found, driven.dropped.total()) == (case.outputs[0].get("O", []), case.outputs[1]), max_records
