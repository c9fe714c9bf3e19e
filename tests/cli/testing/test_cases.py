"""What cases may give and expect, on a small project without a Java in sight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from headwater.cli.main import main

FILES = {
    "headwater.yml": 'name: parts\nversion: "1"\nvars:\n  least: 1\n',
    "profiles.yml": "parts:\n  target: local\n  targets:\n    local:\n      spark:\n        master: local[2]\n",
    "topics/all.yml": """\
topics:
  clicks:
    partitions: 2
    key:
      user: string
    value:
      page: string
      n: int
    on_error: dead_letter
  pages:
    partitions: 2
    key:
      page: string
    value:
      title: string
""",
    "topologies/titles.yml": """\
topology: titles
tables:
  page_titles:
    topic: pages
    global: true
flows:
  with_title:
    from: clicks
    steps:
      - filter: 10 div n >= {{ var('least') }}
      - join:
          table: page_titles
          type: left
          by:
            page: page
          values:
            title: page_titles.title
      - with_columns:
          at: current_timestamp()
    to: titled
""",
    "seeds/clicks.csv": "user,page,n\nann,/,1\nbob,/a,11\n",
}
GIVEN = """\
tests:
  - test: all that can be given
    topology: titles
    given:
      - topic: pages
        rows:
          - {page: /, title: Home}
          - {page: /a, title: About}
          - {page: /a, value: null}
      - advance: 1h
      - topic: clicks
        file: seeds/clicks.csv
      - topic: clicks
        rows:
          - {user: ann, page: /, n: 0}
          - {key: null, value: {page: /a, n: 2}, partition: 1, headers: {source: test}}
          - {user: cid, page: /, n: 3, timestamp: "1970-01-02T00:00:00Z"}
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    return tmp_path


def results_of(parts: Path, text: str) -> list[dict[str, Any]]:
    (parts / "tests" / "titles.yml").write_text(text)
    result = CliRunner().invoke(main, ["test", "--format", "json"])
    assert "tests" in result.stdout, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["tests"]
    return found


def test_files_tombstones_headers_global_tables_and_dead_letters_are_seen(parts: Path) -> None:
    expected = """\
    expect:
      - topic: titled
        rows:
          - {user: ann, page: /, n: 1, title: Home, timestamp: "1970-01-01T00:00:00Z", at: "1970-01-01T01:00:00Z"}
          - {user: cid, page: /, title: Home, timestamp: 86400000, partition: 0}
          - {key: null, page: /a, title: null, headers: {source: test}, timestamp: "1970-01-01T01:00:00Z"}
      - store: page_titles
        rows:
          - {page: /, title: Home}
      - topic: titles_clicks_dead_letter
        rows:
          - {topic: clicks, step: "topologies/titles.yml:10"}
"""
    (case,) = results_of(parts, GIVEN + expected)

    assert case["error"] is None
    assert case["differences"] == []


HOURS = """\
topology: hours
flows:
  hours:
    from: clicks
    steps:
      - window: {tumbling: 1h}
      - aggregate: {emit: on_close, values: {n: count(*)}}
    to: closed_hours
"""
CLOSING = """\
tests:
  - test: an hour closes
    topology: hours
    given:
      - topic: clicks
        rows: [{user: ann, page: /, n: 1}]
      - advance_wall_clock: 2h
      - advance: 59m
      - topic: clicks
        rows: [{user: ann, page: /, n: 1, timestamp: 3}]
      - advance: 1m
    expect:
      - topic: closed_hours
        rows: [{user: ann, n: 3}]
"""


def test_time_that_passes_closes_a_window_and_what_it_gives_is_written_into_the_file(parts: Path) -> None:
    (parts / "topologies" / "hours.yml").write_text(HOURS)
    assert results_of(parts, CLOSING)[0]["status"] == "failed"
    CliRunner().invoke(main, ["test", "--update"])
    assert (parts / "tests" / "titles.yml").read_text() == CLOSING.replace("n: 3", "n: 2")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("advance: soon", "tests/titles.yml:7:18: error HW205"),
        ("advance_wall_clock: -1h", "tests/titles.yml:7:29: error HW205"),
        ("advance_wall_clok: 1h", "tests/titles.yml:7:9: error HW201"),
    ],
)
def test_time_that_is_none_is_told_at_its_place(parts: Path, entry: str, message: str) -> None:
    (parts / "topologies" / "hours.yml").write_text(HOURS)
    (parts / "tests" / "titles.yml").write_text(CLOSING.replace("advance_wall_clock: 2h", entry))
    result = CliRunner().invoke(main, ["test"])
    assert result.exit_code == 1
    assert message in result.output


def test_case_whose_variables_do_not_fit_the_project_is_in_error_alone(parts: Path) -> None:
    other = GIVEN.removeprefix("tests:\n").replace("all that can be given", "with other variables")
    expected = "    expect:\n      - store: page_titles\n        rows: [{page: /}]\n"
    first, second = results_of(parts, f"{GIVEN}{expected}{other}    vars:\n      least: many + 1\n{expected}")

    assert (first["status"], second["status"]) == ("passed", "error")
    assert "the project has errors with these variables: topologies/titles.yml:10:" in second["error"]


def test_record_that_stops_the_topology_is_told(parts: Path) -> None:
    path = parts / "topics" / "all.yml"
    path.write_text(path.read_text().replace("on_error: dead_letter", "on_error: fail"))

    (case,) = results_of(parts, GIVEN + "    expect:\n      - topic: titled\n        rows: []\n")

    assert case["status"] == "error"
    assert "record clicks[" in case["error"]
    assert "topologies/titles.yml:10" in case["error"]


def test_several_rows_of_a_key_in_a_topic_of_a_table_are_explained(parts: Path) -> None:
    (parts / "topologies" / "counts.yml").write_text(
        "topology: counts\nflows:\n  counted:\n    from: clicks\n"
        "    steps:\n      - aggregate:\n          values:\n            c: count(*)\n    to: counts\n"
    )
    text = (
        "tests:\n  - test: counting\n    topology: counts\n    given:\n      - topic: clicks\n"
        "        rows: [{user: ann}, {user: ann}]\n    expect:\n      - topic: counts\n"
        "        rows: [{user: ann, c: 1}, {user: ann, c: 2}]\n"
    )

    (case,) = results_of(parts, text)

    (difference,) = case["differences"]
    assert "of each key only the last record is compared" in difference["hint"]


SUPPRESSED = """\
topology: calm
flows:
  hours:
    from: clicks
    steps:
      - window:
          tumbling: 1h
      - aggregate:
          values:
            clicks: count(*)
      - suppress:
          SUPPRESS
    to: calm_hours
"""
WAITING = """\
tests:
  - test: what waits
    topology: calm
    given:
      - topic: clicks
        rows:
          - {user: ann, n: 1, timestamp: "1970-01-01T00:10:00Z", partition: 0}
          - {user: bob, n: 1, timestamp: "1970-01-01T00:50:00Z", partition: 0}
          - {user: ann, n: 1, timestamp: "1970-01-01T00:55:00Z", partition: 0, headers: {source: last}}
          - {user: bob, n: 1, timestamp: "1970-01-01T01:00:00Z", partition: 0}
    expect:
      - topic: calm_hours
        rows: GONE
      - store: hours-suppress
        rows: LEFT
"""
FIRST = '{user: ann, window_start: 0, clicks: 2, timestamp: "1970-01-01T00:55:00Z", headers: {source: last}}'
OTHER = '{user: bob, window_start: 0, clicks: 1, timestamp: "1970-01-01T00:50:00Z"}'
OPEN = "{user: bob, window_start: 3600000, window_end: 7200000, clicks: 1}"


@pytest.mark.parametrize(
    ("suppress", "gone", "left"),
    [
        ("until: window_closes", [FIRST, OTHER], [OPEN]),
        ("for: 45m", [FIRST], [OTHER, OPEN]),
        ("for: 1d\n          max_records: 2", [FIRST], [OTHER, OPEN]),
    ],
)
def test_changes_that_wait_are_rows_of_a_store(parts: Path, suppress: str, gone: list[str], left: list[str]) -> None:
    (parts / "topologies" / "calm.yml").write_text(SUPPRESSED.replace("SUPPRESS", suppress))
    text = WAITING.replace("GONE", f"[{', '.join(gone)}]").replace("LEFT", f"[{', '.join(left)}]")
    (found,) = results_of(parts, text)
    assert found["status"] == "passed", found


SENSORS = {
    **FILES,
    "topics/all.yml": """\
topics:
  readings:
    partitions: 1
    key:
      key: int
    value:
      timestamp: bigint
      partition: int
      headers: string
      value: double
      amount: decimal(20,2)
      at: timestamp
      counts: map<int,int>
""",
    "topologies/titles.yml": """\
topology: titles
flows:
  copied:
    from: readings
    steps:
      - to_table
    to: copies
  moved:
    from: readings
    steps:
      - with_columns:
          timestamp: 1000 + timestamp
    to: later
""",
    "seeds/clicks.csv": "",
}
LONG = "{key: 1, amount: 123456789012345678.91}"
ROW = "{key: 1, timestamp: 5000, partition: 5, headers: h, value: 1.5}"
DELETED = f"{ROW} then {{key: {{key: 1}}, value: null}}"


@pytest.fixture
def sensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in SENSORS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def one_case(given: str, expect: str) -> str:
    return f"""\
tests:
  - test: it
    topology: titles
    given:
{"".join(f"      - topic: readings{chr(10)}        rows: [{each}]{chr(10)}" for each in given.split(" then "))}\
    expect:
      - {expect}
"""


@pytest.mark.parametrize(
    ("given", "expect", "status"),
    [
        (ROW, "{topic: later, rows: [{key: 1, timestamp: 6000, partition: 5, headers: h, value: 1.5}]}", "passed"),
        (ROW, "{topic: later, rows: [{key: {key: 1}, value: {timestamp: 6000, value: 1.5}}]}", "passed"),
        (ROW, "{topic: later, rows: [{key.key: 1, value.timestamp: 6000}]}", "passed"),
        (ROW, "{topic: later, rows: [{key: {key: 1}, value: {timestamp: 6000}, timestamp: 0}]}", "passed"),
        (ROW, "{topic: later, rows: [{key: {key: 1}, value: {timestamp: 6000}, timestamp: 1}]}", "failed"),
        (ROW, "{topic: later, rows: [{key: 1, timestamp: 0}]}", "failed"),
        (ROW, "{topic: later, rows: [{key: 1, partition: 0}]}", "failed"),
        (ROW, "{topic: later, rows: [{key: 1, headers: {}}]}", "error"),
        (DELETED, "{topic: copies, rows: [{key: 1, value: null}]}", "failed"),
        (DELETED, "{topic: copies, rows: [{key: 1}]}", "failed"),
        (DELETED, "{topic: copies, rows: [{key: {key: 1}, value: null}]}", "passed"),
        ("{key: 1, value: null}", "{topic: copies, rows: [{key: {key: 1}, value: null}]}", "failed"),
        ("{key: 1, value: null}", "{topic: copies, rows: [{key: 1, value: null, timestamp: null}]}", "passed"),
        ("{key: 1, value: 1e-13}", "{topic: copies, rows: [{key: 1, value: 2e-13}]}", "failed"),
        ("{key: 1, value: .nan}", "{topic: copies, rows: [{key: 1, value: .nan}]}", "passed"),
        ("{key: 1, value: .nan}", "{topic: copies, rows: [{key: 1, value: null}]}", "failed"),
        ("{key: 1, value: -.INF}", "{topic: copies, rows: [{key: 1, value: -.inf}]}", "passed"),
        ("{key: 1, value: 1e999}", "{topic: copies, rows: [{key: 1}]}", "error"),
        ("{key: 1, timestamp: .nan}", "{topic: copies, rows: [{key: 1}]}", "error"),
        ("{key: 1, timestamp: '5'}", "{topic: copies, rows: [{key: 1}]}", "error"),
        ("{key: 1, timestamp: 9007199254740993.0}", "{topic: copies, rows: [{timestamp: 9007199254740993}]}", "passed"),
        (LONG, "{topic: copies, rows: [{amount: 123456789012345678.91}]}", "passed"),
        (LONG, "{topic: copies, rows: [{amount: 123456789012345678.92}]}", "failed"),
        ("{key: 1, amount: 1.5}", "{topic: copies, rows: [{amount: '1.500'}]}", "passed"),
        ("{key: 1, at: '2013-01-01T00:00:00.1234567Z'}", "{topic: copies, rows: [{at: '2013-01-01T00:00:00.123456Z'}]}",
         "passed"),
        ("{key: 1, counts: {'1': 2, '3': 4}}",
         "{topic: copies, rows: [{counts: [{key: 3, value: 4}, {key: 1, value: 2}]}]}", "passed"),
        ("{key: 1, counts: {'1': 2}}", "{topic: copies, rows: [{counts: {'1': 3}}]}", "failed"),
        ("{key: 1, counts: [[1, 2]]}", "{topic: copies, rows: [{key: 1}]}", "error"),
    ],
)  # fmt: skip
def test_columns_and_values_are_compared_with_what_is_there(
    sensors: Path, given: str, expect: str, status: str
) -> None:
    (sensors / "tests").mkdir()
    (sensors / "tests" / "a.yml").write_text(one_case(given, expect))

    result = CliRunner().invoke(main, ["test", "--format", "json"])

    found = json.loads(result.stdout)
    cases = [each["status"] for each in found["tests"]] if "tests" in found else ["error"]
    assert cases == [status]


@pytest.mark.parametrize(
    ("given", "before", "behind"),
    [
        (ROW, "{key: 1, timestamp: 1}", "{key: 1, timestamp: 6000}"),
        (ROW, "{key: {key: 1}, value: {timestamp: 1}, timestamp: 7}",
         "{key: {key: 1}, value: {timestamp: 6000}, timestamp: 1970-01-01T00:00:00Z}"),
        (DELETED, "{key: 1, timestamp: 6000}",
         "{key: 1, timestamp: 6000}, {key: {key: 1}, value: null}"),
    ],
)  # fmt: skip
def test_columns_called_as_fields_are_updated_with_what_is_in_them(
    sensors: Path, given: str, before: str, behind: str
) -> None:
    (sensors / "tests").mkdir()
    file = sensors / "tests" / "a.yml"
    file.write_text(one_case(given, f"{{topic: later, rows: [{before}]}}"))

    CliRunner().invoke(main, ["test", "--update"])

    rows = yaml.safe_load(file.read_text())["tests"][0]["expect"][0]["rows"]
    assert rows == yaml.safe_load(f"[{behind}]".replace("1970-01-01T00:00:00Z", "'1970-01-01T00:00:00Z'"))
    assert CliRunner().invoke(main, ["test"]).exit_code == 0
