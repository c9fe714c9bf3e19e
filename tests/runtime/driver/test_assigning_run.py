"""A project's own assignor in real runs: what it is asked, what becomes of its answers, and what is told of it."""

from __future__ import annotations

import json
import re
import textwrap
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.runtime.driver.client_events import AssignmentFailed, TasksPlaced
from headwater.runtime.driver.events import Event

pytestmark = pytest.mark.spark

SCHEMA = json.loads((files("headwater.schemas") / "run_results.json").read_text("utf-8"))

FILES = {
    "headwater.yml": """
        name: shop
        version: "1"
        profile: shop
        plugins: [plugins.mine]
    """,
    "profiles.yml": """
        shop:
          target: local
          targets:
            local:
              log:
                type: embedded
                path: log
              state_dir: state
              clients: 2
              racks:
                client-1: left
                client-2: right
              client_tags:
                client-1:
                  zone: a
    """,
    "topics/orders.yml": """
        topics:
          orders:
            partitions: 3
            key:
              product: string
            value:
              pieces: bigint
    """,
    "topologies/sales.yml": """
        topology: sales
        assignment:
          assignor:
            name: mine
            options:
              answers: answers.json
        flows:
          sold:
            from: orders
            steps:
              - aggregate:
                  values:
                    pieces: sum(pieces)
            to: sold_pieces
    """,
    # Gives the tasks to the clients of these racks, and says in a file what it was asked and told.
    "plugins/mine.py": """
        import json
        from pathlib import Path

        from headwater.plugins import hookimpl
        from headwater.runtime.assignment.assignor import AssignedTask, ClientAssignment, TaskAssignment, TaskType


        class Mine:
            def __init__(self, answers):
                self.file = Path(__file__).parents[1] / answers

            def assign(self, application_state):
                clients = application_state.client_states(compute_task_lags=True)
                answer = json.loads(self.file.read_text())
                self.asked = {
                    client.rack_id: {
                        "tags": dict(client.client_tags),
                        "had": sorted(map(str, client.previous_active_tasks)),
                        "lags": {str(task): lag for task, lag in client.lags.items()},
                    }
                    for client in clients.values()
                }
                tasks = {str(task): task for task in application_state.all_tasks}
                return TaskAssignment([
                    ClientAssignment(
                        client.process_id,
                        [AssignedTask(tasks[each], TaskType.ACTIVE) for each in answer[client.rack_id]],
                        123_456,
                    )
                    for client in clients.values()
                ])

            def on_assignment_computed(self, assignment, error):
                (self.file.with_name("told.json")).write_text(json.dumps({"asked": self.asked, "error": error.name}))


        @hookimpl
        def headwater_register_assignors(register):
            register(
                "mine",
                Mine,
                {"type": "object", "properties": {"answers": {"type": "string"}}, "required": ["answers"]},
                "Does as it is told.",
            )
    """,
}


class Shop:
    def __init__(self, root: Path, session: SparkSession) -> None:
        self.root = root
        for name, text in FILES.items():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(textwrap.dedent(text))
        self.project = Project.load(root, session=session)
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)

    def run(self, **answers: list[str]) -> dict[str, Any]:
        """Three orders, processed by tasks that are placed as `answers` says, by rack."""
        (self.root / "answers.json").write_text(json.dumps(answers))
        records = [{"key": {"product": product}, "value": {"pieces": 1}} for product in "abc"]
        self.project.append("orders", records)
        self.project.run(until_caught_up=True, observer=self)
        results = json.loads((self.root / "target/run_results.json").read_text())
        jsonschema.validate(results, SCHEMA)
        (result,) = results["applications"]
        return dict(result)

    def told(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "told.json").read_text()))


@pytest.fixture
def shop(tmp_path: Path, spark_session: SparkSession) -> Shop:
    return Shop(tmp_path, spark_session)


def test_answer_is_carried_out_told_and_remembered_at_the_next_start(shop: Shop) -> None:
    first = shop.run(left=["0_1"], right=["0_0", "0_2"])
    assert first["assignment"] == {"client-1": ["0_1"], "client-2": ["0_0", "0_2"]}
    process_ids = {name: client.pop("process_id") for name, client in first["placement"]["clients"].items()}
    assert first["placement"] == {
        "assignor": "mine",
        "options": {"answers": "answers.json"},
        "kept": 0,
        "moved": 0,
        "new": 3,
        "moves": [],
        "unassigned": [],
        "clients": {
            "client-1": {"rack": "left", "tags": {"zone": "a"}},
            "client-2": {"rack": "right", "tags": {}},
        },
        "standbys": {"client-1": [], "client-2": []},
        "followup_deadline": 123_456,
        "error": None,
    }
    assert shop.told()["asked"]["left"] == {"tags": {"zone": "a"}, "had": [], "lags": dict.fromkeys(first_tasks(), 0)}

    second = shop.run(left=["0_0", "0_1"], right=["0_2"])
    asked = shop.told()["asked"]
    assert (asked["left"]["had"], asked["right"]["had"]) == (["0_1"], ["0_0", "0_2"])
    # Each has what it had applied; of the others' tasks, all is lacking.
    assert [asked["left"]["lags"][task] for task in ("0_1",)] == [0]
    assert sum(asked["right"]["lags"][task] for task in ("0_0", "0_2")) == 0
    assert [second["placement"][kind] for kind in ("kept", "moved", "new")] == [2, 1, 0]
    assert second["placement"]["moves"] == [
        {"task": "0_0", "from": "client-2", "to": "client-1", "lags": {"client-2": 0}}
    ]
    assert process_ids == {name: client["process_id"] for name, client in second["placement"]["clients"].items()}
    assert [(event.kept, event.new) for event in shop.events if isinstance(event, TasksPlaced)] == [(0, 3), (2, 0)]
    assert {row.key["product"]: row.value["pieces"] for row in shop.project.query("sold")} == dict.fromkeys("abc", 2)


def first_tasks() -> list[str]:
    return ["0_0", "0_1", "0_2"]


def test_answer_that_cannot_be_carried_out_leaves_tasks_where_they_were(shop: Shop) -> None:
    shop.run(left=["0_1"], right=["0_0", "0_2"])
    result = shop.run(left=["0_1", "0_0"], right=["0_0", "0_2"])
    assert result["status"] == "caught_up"
    assert result["assignment"] == {"client-1": ["0_1"], "client-2": ["0_0", "0_2"]}
    error = result["placement"]["error"]
    assert error["code"] == "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    assert len(error["entries"]) == 2
    assert shop.told()["error"] == "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    (event,) = [event for event in shop.events if isinstance(event, AssignmentFailed)]
    assert (event.assignor, event.message, list(event.entries)) == ("mine", error["message"], error["entries"])


def test_assignor_that_raises_leaves_tasks_where_they_were(shop: Shop) -> None:
    shop.run(left=["0_1"], right=["0_0", "0_2"])
    result = shop.run(left=["0_1", "7_7"], right=[])
    assert result["status"] == "caught_up"
    assert result["assignment"] == {"client-1": ["0_1"], "client-2": ["0_0", "0_2"]}
    error = result["placement"]["error"]
    assert (error["code"], error["entries"]) == ("RAISED", [])
    assert re.fullmatch(r"the assignor raised KeyError: '7_7' \(.+\.py:\d+\)", error["message"])


def test_task_that_nobody_was_given_does_not_run_and_is_told(shop: Shop) -> None:
    result = shop.run(left=["0_1"], right=["0_2"])
    assert result["status"] == "caught_up"
    assert result["assignment"] == {"client-1": ["0_1"], "client-2": ["0_2"]}
    assert result["placement"]["unassigned"] == ["0_0"]
    assert (result["records"], result["waiting"], result["waits_for"]) == (2, 1, [])
    again = shop.run(left=["0_0", "0_1"], right=["0_2"])
    assert again["placement"]["unassigned"] == []
    assert (again["records"], again["waiting"]) == (1 + 3, 0)
    assert {row.key["product"]: row.value["pieces"] for row in shop.project.query("sold")} == dict.fromkeys("abc", 2)
