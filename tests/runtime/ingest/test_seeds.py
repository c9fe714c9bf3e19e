import datetime as dt
import json
import os
import textwrap
from dataclasses import fields, replace
from importlib import resources

import pyarrow as pa
import pytest
from pyarrow import parquet

from headwater.compiler.reading.source import without_notes
from headwater.runtime.ingest import incoming as places
from headwater.runtime.ingest import seed_rows as csv_rows
from headwater.runtime.ingest.append import append
from headwater.runtime.ingest.seeds import SeedSpec, seed, seed_digest
from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import SeedChangedError, SeedError, TopicChangedError
from headwater.runtime.log.state import LogState
from headwater.runtime.python_functions.loading import load

APPLICATION = "demo-seed"
COLUMNS = {
    "carrier": ["UA", "AA", None, "UA"],
    "flight": pa.array([1, None, 3, 4], pa.int32()),
    "delay": [1.5, None, -2.0, 0.0],
    "at": pa.array([3_000_000, 1_000_000, 2_000_000, 1_000_000], pa.timestamp("us", "UTC")),
}
VALUES = [
    (3000, "UA", {"flight": 1, "delay": 1.5, "at": "1970-01-01T00:00:03Z"}),
    (1000, "AA", {"flight": None, "delay": None, "at": "1970-01-01T00:00:01Z"}),
    (2000, None, {"flight": 3, "delay": -2.0, "at": "1970-01-01T00:00:02Z"}),
    (1000, "UA", {"flight": 4, "delay": 0.0, "at": "1970-01-01T00:00:01Z"}),
]


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    (folder / "seeds").mkdir(parents=True)
    (folder / "functions").mkdir()
    return folder


@pytest.fixture
def plant(log, project):
    """A function that seeds a topic from the project's folder."""

    def run(topic, spec, **options):
        return seed(log, APPLICATION, topic, spec, project, **options)

    return run


def write_csv(folder):
    rows = ["carrier,flight,delay,at,unused", "UA,1,1.5,1970-01-01T00:00:03Z,x", "AA,,,1970-01-01 00:00:01,", ""]
    rows += [",3,-2.0,1970-01-01T01:00:02+01:00,", "UA,4,0,1970-01-01 00:00:01,", ""]
    (folder / "seeds" / "flights.csv").write_text("\n".join(rows))
    return SeedSpec("seeds/flights.csv", order="file")


def write_jsonl(folder):
    rows = [{"carrier": carrier, **value} for _, carrier, value in VALUES]
    del rows[1]["delay"]
    (folder / "seeds" / "flights.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return SeedSpec("seeds/flights.jsonl", order="file")


def write_parquet(folder):
    table = pa.table({**COLUMNS, "unused": pa.array([0] * 4)})
    parquet.write_table(table, folder / "seeds" / "flights.parquet", row_group_size=2)
    return SeedSpec("seeds/flights.parquet", order="file")


def write_records(folder):
    rows = [{"key": carrier and {"carrier": carrier}, "value": value} for _, carrier, value in VALUES]
    rows[0]["timestamp"] = 3000
    (folder / "seeds" / "flights.json").write_text("\n".join(map(json.dumps, rows)))
    return SeedSpec("seeds/flights.json", format="records", order="file")


def write_function(folder, body="yield pa.table(COLUMNS)"):
    source = """
        import datetime as dt
        import math
        import pandas as pd
        import pyarrow as pa
        from functions.columns import COLUMNS

        def flights():
            %s
    """
    columns = f"import pyarrow as pa\nTABLE = pa.table({ {name: [] for name in COLUMNS} })\n"
    columns += f"COLUMNS = {{name: values for name, values in {VALUES_TEXT}.items()}}\n"
    (folder / "functions" / "__init__.py").touch()
    (folder / "functions" / "columns.py").write_text(columns)
    (folder / "functions" / "seeds.py").write_text(textwrap.dedent(source) % body)
    return SeedSpec(function="functions.seeds:flights", order="file")


VALUES_TEXT = repr(
    {
        "carrier": ["UA", "AA", None, "UA"],
        "flight": [1, None, 3, 4],
        "delay": [1.5, None, -2.0, 0.0],
        "at": [value["at"] for _, _, value in VALUES],
    }
)


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet, write_records, write_function])
def test_seed_of_each_kind_commits_its_rows_in_order(plant, project, flights, read, write):
    topic = replace(flights, partitions=1)
    result = plant(topic, write(project))
    assert (result.outcome, result.records, result.commit) == ("seeded", 4, 1)
    found = [(record.timestamp, record.key and record.key["carrier"], record.value) for record in read(topic)]
    assert found == VALUES


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet, write_function])
def test_seed_in_order_of_time_is_sorted_and_keeps_the_order_of_equal_times(plant, project, flights, read, write):
    topic = replace(flights, partitions=1)
    plant(topic, replace(write(project), order="time"))
    assert [(record.timestamp, record.value["flight"]) for record in read(topic)] == [
        (1000, None),
        (1000, 4),
        (2000, 3),
        (3000, 1),
    ]


def test_seed_without_a_column_for_the_time_has_timestamp_0(plant, project, airlines, read):
    (project / "airlines.csv").write_text('carrier,name\nUA,"United\nAir"\nAA,""\nB6,\n')
    plant(airlines, SeedSpec("airlines.csv"))
    found = {record.key["carrier"]: (record.timestamp, record.value["name"]) for record in read(airlines)}
    assert found == {"UA": (0, "United\nAir"), "AA": (0, ""), "B6": (0, None)}


@pytest.mark.parametrize("write", [write_csv, write_function])
def test_unchanged_seed_does_nothing(log, plant, project, flights, read, write):
    spec = write(project)
    plant(flights, spec)
    result = plant(flights, spec)
    assert (result.outcome, result.records) == ("unchanged", 0)
    assert (len(read(flights)), log.commits(APPLICATION).latest()) == (4, 1)
    assert len(list(log.files(APPLICATION))) == 1


@pytest.mark.parametrize("write", [write_csv, write_function])
def test_unchanged_seed_is_written_again_on_full_refresh_unless_it_is_to_be_kept(log, plant, project, flights, write):
    spec = write(project)
    plant(flights, spec)
    append(log, APPLICATION, flights, [{"carrier": "B6", "flight": 7, "delay": 0.0, "at": "1970-01-01"}])
    kept = plant(flights, spec, full_refresh=True, keep_unchanged=True)
    assert (kept.outcome, kept.records, log.commits(APPLICATION).latest()) == ("unchanged", 0, 2)
    result = plant(flights, spec, full_refresh=True)
    assert (result.outcome, result.records, result.commit) == ("replaced", 4, 3)
    assert plant(flights, spec).outcome == "unchanged"


def change_file(project, flights):
    with (project / "seeds" / "flights.csv").open("a") as file:
        file.write("UA,9,9,1970-01-01,\n")
    return flights, SeedSpec("seeds/flights.csv", order="file")


def change_order(project, flights):
    return flights, SeedSpec("seeds/flights.csv")


def change_partitions(project, flights):
    return replace(flights, partitions=2), SeedSpec("seeds/flights.csv", order="file")


@pytest.mark.parametrize("change", [change_file, change_order, change_partitions])
def test_changed_seed_is_refused_and_replaced_on_full_refresh(log, plant, project, flights, read, change):
    plant(flights, write_csv(project))
    append(log, APPLICATION, flights, [{"carrier": "B6", "flight": 7, "delay": 0.0, "at": "1970-01-01"}])
    topic, spec = change(project, flights)
    if change is change_partitions:  # the records are the same, and the next run puts them there
        assert plant(topic, spec).outcome == "unchanged"
    else:
        with pytest.raises(SeedChangedError, match="seed flights --full-refresh"):
            plant(topic, spec)
    assert len(read(flights)) == 5
    result = plant(topic, spec, full_refresh=True)
    assert (result.outcome, result.records) == ("replaced", 5 if change is change_file else 4)
    assert result.appended == 1
    found = read(topic)
    assert len(found) == result.records + 1
    (appended,) = [record for record in found if record.key == {"carrier": "B6"}]
    assert (appended.timestamp, appended.value["flight"]) == (0, 7)
    assert LogState.load(log.commits(APPLICATION)).topics["flights"].since == result.commit


def test_files_of_a_replaced_seed_go_with_a_later_seed_after_a_day(log, plant, project, flights, airlines):
    plant(flights, write_csv(project))
    (old,) = log.files(APPLICATION)
    topic, spec = change_order(project, flights)
    plant(topic, spec, full_refresh=True)
    assert old in log.files(APPLICATION)
    long_ago = old.modified / 1000 - 25 * 3600
    for file in log.files(APPLICATION):
        os.utime(log.root / file.path, (long_ago, long_ago))
    (project / "airlines.csv").write_text("carrier,name\nUA,United\n")
    plant(airlines, SeedSpec("airlines.csv"))
    paths = [file.path for file in log.files(APPLICATION)]
    assert len(paths) == 2
    assert old.path not in paths


def test_seed_of_a_topic_that_was_appended_to_under_another_declaration_is_refused(log, plant, project, flights):
    other = replace(flights, key="carrier binary")
    append(log, APPLICATION, other, [{"carrier": b"B6", "flight": 7, "delay": 0.0, "at": "1970-01-01"}])
    with pytest.raises(TopicChangedError, match="key: ~ carrier binary"):
        plant(flights, write_csv(project))


def test_function_changed_in_a_module_it_imports_is_called_again_and_its_rows_decide(plant, project, flights):
    spec = write_function(project)
    plant(flights, spec)
    with (project / "functions" / "columns.py").open("a") as file:
        file.write("\nOTHER = 1\n")
    assert plant(flights, spec).outcome == "unchanged"
    with (project / "functions" / "columns.py").open("a") as file:
        file.write("\nCOLUMNS['delay'] = [2.5, None, -2.0, 0.0]\n")
    with pytest.raises(SeedChangedError, match="other values of delay"):
        plant(flights, spec)


def test_seed_stays_the_same_where_functions_of_flows_are_loaded_too(project, flights, monkeypatch):
    spec = write_function(project)
    (project / "functions" / "flows.py").write_text("def latest(old, new): return new")
    monkeypatch.chdir(project)
    alone = seed_digest(flights, spec, project)

    load(PythonFunction("functions.flows:latest", PythonCode.of_project(project, ["functions.flows"])))

    assert seed_digest(flights, spec, project) == alone


@pytest.mark.parametrize(
    "body",
    [
        "return pa.table(COLUMNS)",
        "return pa.table(COLUMNS).to_batches()",
        "yield pd.DataFrame(COLUMNS)",
        "return pd.DataFrame(COLUMNS)",
        "yield from pa.table(COLUMNS).to_pylist()",
        "frame = pd.DataFrame(COLUMNS).astype(object); yield from frame.where(frame.notna(), None).to_dict('records')",
        "from functions.columns import COLUMNS as late; return pa.table(late)",
        "return [{'key': {'carrier': r.pop('carrier')}, 'value': r} for r in pa.table(COLUMNS).to_pylist()]",
    ],
)
def test_function_may_give_tables_frames_or_objects(plant, project, flights, read, body):
    topic = replace(flights, partitions=1)
    plant(topic, write_function(project, body))
    found = [(record.timestamp, record.key and record.key["carrier"], record.value) for record in read(topic)]
    assert found == VALUES


def test_functions_of_two_projects_do_not_meet(tmp_path, log, airlines, read):
    for name in ("one", "two"):
        folder = tmp_path / name / "functions"
        folder.mkdir(parents=True)
        (folder / "seeds.py").write_text(f"def airlines():\n    return [{{'carrier': 'UA', 'name': '{name}'}}]\n")
        spec = SeedSpec(function="functions.seeds:airlines")
        seed(log, APPLICATION, replace(airlines, name=name), spec, tmp_path / name)
    assert read(replace(airlines, name="one"))[0].value == {"name": "one"}
    assert read(replace(airlines, name="two"))[0].value == {"name": "two"}


@pytest.mark.parametrize("reference", ["functions.nowhere:flights", "functions.seeds:nothing"])
def test_function_that_is_not_there_is_named(plant, project, flights, reference):
    write_function(project)
    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec(function=reference))
    assert caught.value.source == reference


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("yield {'carrier': 'UA'}; open('/no/such/file')", "FileNotFoundError: "),
        ("yield from (1 / row for row in [0])", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("yield {'carrier': 'UA'}; raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_function_that_raises_is_told_with_its_line(log, plant, project, flights, body, cause):
    spec = write_function(project, body)
    with pytest.raises(SeedError) as caught:
        plant(flights, spec)
    assert (caught.value.source, caught.value.location) == (spec.function, "functions/seeds.py:9")
    assert caught.value.cause.startswith(cause)
    assert log.commits(APPLICATION).latest() == 0


@pytest.mark.parametrize("source", ["def flights(:", "1 / 0", "def flights(topic): return []", "flights = 3"])
def test_module_that_cannot_be_run_is_told(plant, project, flights, source):
    (project / "functions" / "broken.py").write_text(source)
    with pytest.raises(SeedError, match=r"functions\.broken:flights"):
        plant(flights, SeedSpec(function="functions.broken:flights"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("array<int>", [1.5]),
        ("array<float>", [1e300]),
        ("array<timestamp>", [5]),
        ("array<date>", [dt.datetime(2020, 1, 1, 5)]),
        ("struct<b:int>", {"b": 1, "c": 2}),
        ("map<string,int>", {"b": 0.5}),
        ("map<int,string>", {0.5: "b"}),
        ("bigint", [1]),
    ],
)
def test_nested_value_of_python_is_not_cut_either(log, kind, value):
    with pytest.raises(SeedError, match=r"row 2, column a: .* is no "):
        append(log, APPLICATION, Topic("t", partitions=1, key="", value=f"a {kind}"), [{"a": None}, {"a": value}])


def test_list_that_holds_itself_is_refused(log):
    endless = []
    endless.append(endless)
    with pytest.raises(SeedError, match=r"row 1, column a: \[\[...\]\] is no int"):
        append(log, APPLICATION, Topic("t", partitions=1, key="", value="a array<int>"), [{"a": endless}])


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("map<string,int>", {"a": 1, "b": None}, {"a": 1, "b": None}),
        ("map<int,date>", {1: dt.date(2020, 1, 1)}, [{"key": 1, "value": "2020-01-01"}]),
        ("map<string,int>", [("a", 1)], {"a": 1}),
        ("array<struct<b:double>>", ({"b": 1}, None), [{"b": 1.0}, None]),
    ],
)
def test_nested_values_of_python_are_taken(log, read, kind, value, expected):
    topic = Topic("t", partitions=1, key="", value=f"a {kind}")
    append(log, APPLICATION, topic, [{"a": value}])
    assert [record.value["a"] for record in read(topic)] == [expected]


def test_records_seed_keeps_partitions_headers_deletions_and_the_order_of_the_file(plant, project, airlines, read):
    lines = [
        {"partition": 1, "offset": 9, "timestamp": 20, "key": {"carrier": "UA"}, "value": {"name": "United"}},
        {"partition": 1, "offset": 3, "timestamp": 10, "key": {"carrier": "AA"}, "value": None, "headers": {"h": "1"}},
        {"key": {"carrier": "B6"}, "value": {}},
    ]
    (project / "airlines.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    plant(airlines, SeedSpec("airlines.jsonl", format="records"))
    found = [record for record in read(airlines) if record.key["carrier"] != "B6"]
    assert [(record.partition, record.offset, record.timestamp, record.value) for record in found] == [
        (1, 0, 20, {"name": "United"}),
        (1, 1, 10, None),
    ]
    assert [record.headers for record in found] == [{}, {"h": "1"}]
    (rest,) = [record for record in read(airlines) if record.key["carrier"] == "B6"]
    assert (rest.timestamp, rest.value) == (0, {"name": None})


def test_output_of_read_seeds_an_equal_topic(plant, project, flights, read):
    plant(flights, write_csv(project))
    before = read(flights)
    (project / "copy.jsonl").write_text("\n".join(record.to_json() for record in before))
    copy = replace(flights, name="copy")
    plant(copy, SeedSpec("copy.jsonl", format="records"))
    assert read(copy) == before


HEADER = "carrier,flight,delay,at\n"
WRONG = {
    "csv": [
        ('\n"U\nA",1,1,1970-01-01\nAA,x,1,1970-01-01\n', "line 5", "flight", "'x' is no int"),
        ("UA,1,1,\n", "line 2", "at", "the timestamp is null"),
        ("UA,1,1,1970-01-01\nUA,1\n", "line 3", None, "the header has 4 columns, this row 2"),
    ],
    "jsonl": [
        ('{"carrier":"UA","flight":1,"delay":"1","at":"1970-01-01"}', "line 1", "delay", "'1' is no double"),
        ('\n{"carrier":"UA",\n', "line 2", None, "no JSON: "),
        ("[1]", "line 1", None, "not an object"),
        ('{"carrier":"UA","carrier":"AA"}', "line 1", None, "no JSON: an object has the name 'carrier' more than once"),
        ("[" * 100_000, "line 1", None, "no JSON: "),
        ('{"carrier":"\\ud800","flight":1,"delay":1,"at":"1970-01-01"}', "line 1", "carrier", r"'\ud800' is no string"),
        (f'{{"carrier":"UA","flight":1,"delay":{"9" * 400},"at":"1970-01-01"}}', "line 1", "delay", "9999"),
        ('{"carrier":"UA","at":"1970-01-01"}', None, None, "no column flight, delay; there is at, carrier"),
    ],
    "records": [
        ('{"key":{"carrier":"UA"}}', "line 1", None, "there is no value (null deletes)"),
        ('{"value":null,"timestamp":0}\n{"value":1}', "line 2", "value", "neither an object nor null"),
        ('{"value":null,"timestamp":-1}', "line 1", "timestamp", "the timestamp lies before 1970"),
        ('{"value":null,"time":1}', "line 1", None, "a record has no time"),
        ('{"value":null,"timestamp":1,"partition":4}', "line 1", "partition", "flights has partitions 0 to 3, no 4"),
        ('{"value":{"nme":1}}', "line 1", "value", "the value of flights has no column nme"),
        ('{"value":{"at":null}}', "line 1", "at", "the timestamp is null"),
        (
            '{"value":null,"timestamp":1,"headers":{"a":1}}',
            "line 1",
            "headers",
            "neither an object of texts",
        ),
        ('{"value":null,"timestamp":1,"headers":{"a":"\\ud800"}}', "line 1", "headers", ""),
        ('{"value":null,"timestamp":1700000000000000}', "line 1", "timestamp", "the timestamp lies after 9999"),
    ],
}


@pytest.mark.parametrize(
    ("format_", "text", "place", "column", "cause"),
    [(format_, *case) for format_, cases in WRONG.items() for case in cases],
)
def test_wrong_row_is_told_with_file_line_column_and_cause(
    log, plant, project, flights, format_, text, place, column, cause
):
    (project / "seed.txt").write_text(HEADER + text if format_ == "csv" else text)
    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec("seed.txt", format=format_))
    error = caught.value
    assert (error.source, error.location, error.column) == ("seed.txt", place, column)
    assert error.cause.startswith(cause)
    assert log.commits(APPLICATION).latest() == 0


BAD = {
    "csv": HEADER + "UA,1,1,1970-01-01\nAA,x,1,1970-01-01\n\nUA,2,1,1970-01-01\nUA,3,1,\n",
    "jsonl": "".join(
        f"{line}\n"
        for line in (
            '{"carrier":"UA","flight":1,"delay":1,"at":"1970-01-01"}',
            "no object",
            "",
            '{"carrier":"UA","flight":2,"delay":1,"at":"1970-01-01"}',
            '{"carrier":"UA","flight":3,"delay":[],"at":"1970-01-01"}',
        )
    ),
    "records": "".join(
        f"{line}\n"
        for line in (
            '{"key":{"carrier":"UA"},"value":{"flight":1,"at":"1970-01-01"}}',
            '{"key":{"carrier":"UA"},"value":{"flit":1,"at":"1970-01-01"}}',
            "",
            '{"key":{"carrier":"UA"},"value":{"flight":2,"at":"1970-01-01"}}',
            '{"key":{"carrier":"UA"}}',
        )
    ),
}
PLACES = {"csv": ["line 3", "line 6"], "jsonl": ["line 2", "line 5"], "records": ["line 2", "line 5"]}


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("format_", BAD)
def test_rows_that_do_not_fit_are_left_out_and_told_where_the_topic_says_so(
    plant, read, project, flights, format_, policy
):
    (project / "seed.txt").write_text(BAD[format_])
    lenient = replace(flights, on_error=policy)

    seeded = plant(lenient, SeedSpec("seed.txt", format=format_))

    assert (seeded.outcome, seeded.records, seeded.refused.count) == ("seeded", 2, 2)
    assert [each.place for each in seeded.refused.first] == PLACES[format_]
    assert sorted(record.value["flight"] for record in read(flights)) == [1, 2]
    assert plant(lenient, SeedSpec("seed.txt", format=format_)).outcome == "unchanged"


@pytest.mark.parametrize("format_", BAD)
def test_all_rows_that_do_not_fit_are_named_where_none_may_be_left_out(log, plant, project, flights, format_):
    (project / "seed.txt").write_text(BAD[format_])

    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec("seed.txt", format=format_))

    lines = caught.value.message.splitlines()
    for place, line, start in zip(PLACES[format_], lines, ("seed.txt, ", "and seed.txt, "), strict=True):
        assert line.startswith(f"{start}{place}")
    assert log.commits(APPLICATION).latest() == 0


def test_no_more_rows_are_looked_for_once_twenty_are_named(plant, project, flights):
    (project / "seed.txt").write_text(HEADER + "UA,x,1,1970-01-01\n" * 500)

    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec("seed.txt", format="csv"))

    *named, last = caught.value.message.splitlines()
    assert (len(named), last) == (20, "and more")


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        ("carrier,flight,at\n", "no column delay; there is carrier, flight, at"),
        ("", "no column carrier, flight, delay, at; there is none"),
    ],
)
def test_csv_without_a_column_is_told_with_those_there_are(plant, project, flights, header, cause):
    (project / "a.csv").write_text(header)
    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec("a.csv"))
    assert caught.value.cause == cause


def test_csv_with_two_columns_of_a_name_is_refused(plant, project, airlines):
    (project / "a.csv").write_text("carrier,name,unused,name,unused\nUA,United,,Airlines,\n")
    with pytest.raises(SeedError, match=r"a\.csv: more than one column name"):
        plant(airlines, SeedSpec("a.csv"))


@pytest.mark.parametrize("end", ["", '\nAA,"American"\nB6,JetBlue\n'])
def test_quote_that_is_not_closed_takes_no_lines_into_its_cell(plant, project, airlines, end):
    (project / "a.csv").write_text(f'carrier,name\nDL,"Delta\n(Atlanta)"\nUA,"United{end}')
    with pytest.raises(SeedError, match=r"a\.csv, line 4: no CSV"):
        plant(airlines, SeedSpec("a.csv"))


def test_cell_of_megabytes_is_read_and_told_of_in_short(plant, project, airlines, flights, read):
    (project / "a.csv").write_text(f"carrier,name,{'x' * 200_000}\nUA,{'z' * 3_000_000},\n")
    plant(airlines, SeedSpec("a.csv"))
    assert [len(record.value["name"]) for record in read(airlines)] == [3_000_000]
    (project / "b.csv").write_text(f"{HEADER}UA,{'z' * 3_000_000},1,1970-01-01\n")
    with pytest.raises(SeedError, match=r"line 2, column flight: 'z{100,200}… is no int"):
        plant(flights, SeedSpec("b.csv"))


@pytest.mark.parametrize("block", [1 << 14, pytest.param(csv_rows._CSV_BLOCK, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    "row",
    ["UA,{}", 'UA,"{}"', '"UA","{}"', "{}"],
    ids=["bare", "quoted", "all quoted", "json"],
)
def test_cell_that_is_longer_than_what_is_parsed_at_once_is_read(
    plant, project, airlines, read, row, block, monkeypatch
):
    monkeypatch.setattr(csv_rows, "_CSV_BLOCK", block)
    part = "é\nz" if '"' in row else "éz"
    long = part * (5 * block // 2 // len(part.encode()))  # longer than two blocks
    path = project / ("a.jsonl" if row == "{}" else "a.csv")
    if row == "{}":
        path.write_text(json.dumps({"carrier": "UA", "name": long}))
    else:
        path.write_text(f"carrier,name\nDL,Delta\n{row.format(long)}\nAA,American\n", newline="\n")
    plant(airlines, SeedSpec(path.name))
    assert [record.value["name"] for record in read(airlines) if record.key == {"carrier": "UA"}] == [long]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("row", ["UA,{}", 'UA,"{}"', "json"])
def test_row_that_is_too_long_is_refused_with_its_line(plant, project, airlines, row, end, monkeypatch):
    for module in (places, csv_rows):
        monkeypatch.setattr(module, "LONGEST_ROW", 1000)
    monkeypatch.setattr(csv_rows, "_CSV_BLOCK", 100)
    long = "z" * 1100
    rows = ["carrier,name", "DL,Delta", row.format(long), "AA,American"]
    if row == "json":
        rows = [json.dumps({"carrier": "UA", "name": name}) for name in ("a", "b", long)]
    path = project / ("a.jsonl" if row == "json" else "a.csv")
    path.write_text(end.join(rows), newline="")
    with pytest.raises(
        SeedError, match=rf"{path.name}, line 3: the row is longer than the limit of .* MiB \(put large"
    ):
        plant(airlines, SeedSpec(path.name))


@pytest.mark.parametrize(
    ("kind", "column", "cause"),
    [
        ("date", pa.array([90_000_000_000], pa.timestamp("us")), "is no date"),
        ("float", pa.array([1e300]), r"1e\+300 is no float"),
        ("float", pa.array(["1e300"]), "'1e300' is no float"),
    ],
)
def test_value_that_would_be_cut_is_refused(plant, project, kind, column, cause):
    parquet.write_table(pa.table({"a": column}), project / "a.parquet")
    with pytest.raises(SeedError, match=cause):
        plant(Topic("t", partitions=1, key="", value=f"a {kind}"), SeedSpec("a.parquet"))


def test_damaged_parquet_file_is_told(log, plant, project):
    path = project / "a.parquet"
    parquet.write_table(pa.table({"a": [str(number) for number in range(100_000)]}), path)
    damaged = bytearray(path.read_bytes())
    damaged[3000:3100] = b"\xff" * 100
    path.write_bytes(damaged)
    with pytest.raises(SeedError, match=r"a\.parquet: "):
        plant(Topic("t", partitions=1, key="", value="a string"), SeedSpec("a.parquet"))
    assert log.commits(APPLICATION).latest() == 0


def test_seed_of_unknown_format_is_refused(plant, project, flights):
    (project / "a.txt").touch()
    with pytest.raises(SeedError, match="unknown format; declare it with `format:`"):
        plant(flights, SeedSpec("a.txt"))


def test_wrong_row_of_a_parquet_file_is_told(plant, project, flights):
    table = pa.table({**COLUMNS, "flight": ["1", "2", "x", "4"]})
    parquet.write_table(table, project / "a.parquet", row_group_size=2)
    with pytest.raises(SeedError, match=r"a\.parquet, row 3, column flight: 'x' is no int"):
        plant(flights, SeedSpec("a.parquet"))


def test_file_that_is_not_there_or_not_parquet_is_told(plant, project, flights):
    with pytest.raises(SeedError, match=r"seeds/nothing\.csv: there is no file .*/seeds/nothing\.csv"):
        plant(flights, SeedSpec("seeds/nothing.csv"))
    (project / "a.parquet").write_text("x")
    with pytest.raises(SeedError, match=r"a\.parquet: "):
        plant(flights, SeedSpec("a.parquet"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"carrier,flight,delay,at\nUA,1,1,1970-01-01\n\xfcA,1,1,1970-01-01\n"),
        ("a.csv", b'carrier,flight,delay,at\n"UA",1,1,1970-01-01\n\xfcA,1,1,1970-01-01\n'),
        ("a.csv", b"carrier,flight,delay,at\nUA,1,1,1970-01-01\nUA,\xfc,1,1970-01-01\n"),
        ("a.jsonl", b'\n\n{"carrier": "\xfcA"}\n'),
    ],
    ids=["plain", "quoted", "number", "json"],
)
def test_line_that_is_not_utf8_is_told(plant, project, flights, name, content):
    (project / name).write_bytes(content)
    with pytest.raises(SeedError) as caught:
        plant(flights, SeedSpec(name))
    assert caught.value.message == f"{name}, line 3: the byte 0xfc is not UTF-8; save the file as UTF-8"


def test_seed_without_rows_is_committed_once(log, plant, project, airlines):
    (project / "a.csv").write_text("carrier,name\n")
    assert plant(airlines, SeedSpec("a.csv")).outcome == "seeded"
    assert plant(airlines, SeedSpec("a.csv")).outcome == "unchanged"
    assert log.commits(APPLICATION).latest() == 1


def test_types_that_arrow_reads_otherwise_are_cast_without_loss(plant, project, read):
    topic = Topic("t", 1, "", "a decimal(5,2), b timestamp, c date, d string, e array<bigint>, f float", timestamp="b")
    table = pa.table(
        {
            "a": pa.array([1, 2]),
            "b": pa.array([1_000_001_999, 0], pa.timestamp("ns")),
            "c": pa.array([dt.datetime(2013, 1, 1)] * 2, pa.timestamp("ms")),
            "d": pa.array(["x", None]).dictionary_encode(),
            "e": pa.array([[1], None], pa.list_(pa.int8())),
            "f": pa.array([2**24 + 1, 1]),
        }
    )
    parquet.write_table(table, project / "a.parquet")
    plant(topic, SeedSpec("a.parquet", order="file"))
    assert [record.value for record in read(topic)] == [
        {"a": "1.00", "b": "1970-01-01T00:00:01.000001Z", "c": "2013-01-01", "d": "x", "e": [1], "f": 2.0**24},
        {"a": "2.00", "b": "1970-01-01T00:00:00Z", "c": "2013-01-01", "d": None, "e": None, "f": 1.0},
    ]


class Overtaken(EmbeddedLog):
    """A log in which `first` happens before the first segment is written."""

    def __init__(self, root, first):
        super().__init__(root)
        self._first = [first]

    def write(self, *arguments):
        while self._first:
            self._first.pop()()
        return super().write(*arguments)


def test_topic_that_two_seed_at_once_is_seeded_once(log, plant, project, airlines, read):
    (project / "a.csv").write_text("carrier,name\nUA,United\nAA,American\n")
    other = Overtaken(log.root, lambda: plant(airlines, SeedSpec("a.csv")))

    assert seed(other, APPLICATION, airlines, SeedSpec("a.csv"), project).outcome == "unchanged"
    assert sorted(record.value["name"] for record in read(airlines)) == ["American", "United"]


def test_topic_that_somebody_seeds_otherwise_meanwhile_is_not_seeded(log, plant, project, airlines, read):
    (project / "a.csv").write_text("carrier,name\nUA,United\n")
    (project / "b.csv").write_text("carrier,name\nAA,American\n")
    other = Overtaken(log.root, lambda: plant(airlines, SeedSpec("b.csv")))

    with pytest.raises(SeedChangedError):
        seed(other, APPLICATION, airlines, SeedSpec("a.csv"), project)
    assert [record.value["name"] for record in read(airlines)] == ["American"]


def test_every_key_of_a_seed_in_yaml_reaches_the_one_who_seeds():
    schema = json.loads(resources.files("headwater.schemas").joinpath("topics.json").read_text("utf-8"))
    keys = without_notes(schema["definitions"]["seed"]["properties"])
    assert set(keys) == {field.name for field in fields(SeedSpec)}
