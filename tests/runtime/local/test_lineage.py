"""What OpenLineage is told of runs: by the real loop in this process, at a file and at a server on this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.driver.events import EpochCommitted, Event, LineageNotSent, StatusTaken
from headwater.runtime.engine.steps import PythonStep, Steps
from headwater.runtime.observe import lineage
from headwater.runtime.observe.lineage import reporting_lineage
from headwater.tests.runtime.local.local_application import LocalApplication, Part
from headwater.tests.runtime.local.summing import (
    PARTITIONS,
    RECORDS,
    WHOLE_SUMS,
    fed,
    last_sums,
    summed,
    summed_by_text,
)

SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


class Heard:
    """An observer that keeps events, and does something at the first commit."""

    def __init__(self, at_a_commit: Any = lambda: None) -> None:
        self.events: list[Event] = []
        self._at_a_commit = at_a_commit

    def on(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, EpochCommitted):
            self._at_a_commit()

    @property
    def not_sent(self) -> list[LineageNotSent]:
        return [event for event in self.events if isinstance(event, LineageNotSent)]


def run_told(app: LocalApplication, heard: Heard, until_caught_up: bool = True, **lineage: str) -> Any:
    with reporting_lineage(lineage, [app.topology], heard, until_caught_up=until_caught_up) as observer:
        return app.attempt(observer=observer)


def written(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@contextmanager
def server(status: int = 201) -> Iterator[tuple[str, list[tuple[str, str, dict[str, Any]]]]]:
    """A server on this machine, and what it is sent: path, Authorization, event."""
    found: list[tuple[str, str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, self.headers.get("Authorization", ""), json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", found
        finally:
            listening.shutdown()
            thread.join()


class Noting:
    """An engine that notes the Python steps of a subtopology and runs none."""

    def __init__(self) -> None:
        self.steps: list[PythonStep] = []

    def process(self, rows: Any, nodes: Any, *_: Any) -> Any:
        self.steps.append(PythonStep(nodes))
        return rows


def with_steps(part: Part) -> Part:
    """The same part, whose build is its steps, as that of generated code: only these can be traced."""
    engine = Noting()
    part.subtopology.build({}, engine)
    return replace(part, subtopology=replace(part.subtopology, build=Steps(tuple(engine.steps))))


def test_run_has_a_start_and_an_end_with_what_it_reads_and_writes(application, tmp_path):
    app = fed(application(*map(with_steps, summed_by_text())))
    file = tmp_path / "lineage" / "events.jsonl"
    assert run_told(app, Heard(), file=str(file)).status == "caught_up"

    start, end = written(file)
    assert [each["eventType"] for each in (start, end)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"]
    assert start["job"] == end["job"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("test", "app")
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert start["schemaURL"] == SCHEMA
    (read,), (made,) = end["inputs"], end["outputs"]  # without the repartition topic between the subtopologies
    assert (read["namespace"], read["name"]) == ("test", "words")
    columns = [(each["name"], each["type"]) for each in read["facets"]["schema"]["fields"]]
    assert columns == [("key.k", "string"), ("value.x", "bigint")]
    assert made["name"] == "sums"
    assert [each["name"] for each in made["facets"]["schema"]["fields"]] == ["key.k", "value.n", "value.s"]
    entered = {name: each["inputFields"] for name, each in made["facets"]["columnLineage"]["fields"].items()}
    assert {name: [each["field"] for each in fields] for name, fields in entered.items()} == {
        "key.k": ["key.k"],
        "value.s": ["value.x"],
    }
    assert entered["value.s"][0]["name"] == "words"


def test_server_gets_the_events_with_the_key(application):
    app = fed(application(summed()))
    with server() as (url, found):
        run_told(app, Heard(), url=url, api_key="secret", namespace="prod")

    assert [(path, key) for path, key, _ in found] == [("/api/v1/lineage", "Bearer secret")] * 2
    assert [event["eventType"] for _, _, event in found] == ["START", "COMPLETE"]
    assert {event["job"]["namespace"] for _, _, event in found} == {"prod"}


def test_next_run_is_another_run_of_the_same_job(application, tmp_path):
    app = fed(application(summed()))
    file = tmp_path / "events.jsonl"
    for _ in range(2):
        run_told(app, Heard(), file=str(file))
    first, _, second, _ = written(file)
    assert first["run"]["runId"] != second["run"]["runId"]
    assert first["job"]["name"] == second["job"]["name"]


@pytest.mark.parametrize(("until_caught_up", "state"), [(True, "ABORT"), (False, "COMPLETE")])
def test_interrupted_run_has_come_to_its_end_only_if_it_had_none(application, tmp_path, until_caught_up, state):
    app = fed(application(summed()))
    file, stop = tmp_path / "events.jsonl", threading.Event()
    with reporting_lineage(
        {"file": str(file)}, [app.topology], Heard(stop.set), until_caught_up=until_caught_up
    ) as observer:
        result = app.attempt(app.settings(max_records=3), observer=observer, stop=stop)

    assert result.status == "interrupted"
    assert [each["eventType"] for each in written(file)] == ["START", state]


def test_run_that_fails_says_why(application, tmp_path):
    app = fed(application(summed()))
    app.append(app.parts[0].sources[0], [(("k",), (1,), -5)])  # a record from before 1970
    file = tmp_path / "events.jsonl"
    result = run_told(app, Heard(), file=str(file))

    *_, end = written(file)
    assert (result.status, end["eventType"]) == ("failed", "FAIL")
    assert end["run"]["facets"]["errorMessage"]["message"] == result.error


def test_run_that_was_taken_over_is_aborted(application, tmp_path):
    app = fed(application(summed()))
    file = tmp_path / "events.jsonl"
    taken_over = []

    def take_over() -> None:
        if not taken_over:
            taken_over.append(app.attempt(app.settings(state="other")).status)

    with reporting_lineage({"file": str(file)}, [app.topology], Heard(take_over), until_caught_up=True) as observer:
        assert app.attempt(app.settings(max_records=3), observer=observer).status == "fenced"
    assert [each["eventType"] for each in written(file)] == ["START", "ABORT"]


@pytest.mark.usefixtures("at_once")
def test_run_that_goes_on_says_so(application, tmp_path, monkeypatch):
    monkeypatch.setattr(lineage, "RUNNING_SECONDS", 0.0)
    app = fed(application(summed()))
    file = tmp_path / "events.jsonl"
    heard = Heard()
    run_told(app, heard, file=str(file))

    states = [each["eventType"] for each in written(file)]
    assert (states[0], states[-1], set(states[1:-1])) == ("START", "COMPLETE", {"RUNNING"})
    assert any(isinstance(event, StatusTaken) for event in heard.events)


@pytest.mark.parametrize("status", [404, 500])
def test_server_that_refuses_is_told_of_once_and_the_run_goes_on(application, status):
    app = fed(application(summed()))
    heard = Heard()
    with server(status) as (url, found):
        result = run_told(app, heard, url=url.replace("//", "//me:secret@"))

    assert (result.status, result.records, len(found)) == ("caught_up", RECORDS * PARTITIONS, 2)
    (told,) = heard.not_sent
    assert (told.application, told.target) == ("test-app", url)
    assert told.cause.startswith(f"it answers {status} ")
    assert "secret" not in told.text


def test_server_that_never_answers_keeps_no_run(application, monkeypatch):
    monkeypatch.setattr(lineage, "TIMEOUT_SECONDS", 0.05)
    app = fed(application(summed()))
    heard = Heard()
    with server() as (gone, _):
        pass
    # One that is gone, and one that takes connections and says nothing.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for url in (gone, f"http://127.0.0.1:{silent.getsockname()[1]}"):
            assert run_told(app, heard, url=url).status == "caught_up"
    assert [told.target for told in heard.not_sent] == [gone, url]
    causes = ["there is no connection to it", "it does not answer within 0.05 s"]
    assert [told.cause for told in heard.not_sent] == causes
    assert last_sums(app) == WHOLE_SUMS


def test_end_of_a_run_does_not_wait_for_what_a_server_holds_up(application, monkeypatch):
    monkeypatch.setattr(lineage, "CLOSE_SECONDS", 0.05)
    released = threading.Event()

    class Stuck:
        def emit(self, event: Any) -> None:
            released.wait()

    monkeypatch.setattr(lineage, "transport_to", lambda *_: Stuck())
    app = fed(application(summed()))
    assert run_told(app, Heard(), url="http://127.0.0.1:1").status == "caught_up"
    released.set()


def test_file_that_cannot_be_written_is_told_of_once(application, tmp_path):
    (tmp_path / "events.jsonl").mkdir()
    app = fed(application(summed()))
    heard = Heard()
    assert run_told(app, heard, file=str(tmp_path / "events.jsonl")).status == "caught_up"
    (told,) = heard.not_sent
    assert told.cause == "Is a directory"
