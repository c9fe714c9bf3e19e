"""Topics get other columns while applications have their records: what comes of it is what comes of a project that was
so from the start, where a record has null in the columns that it came without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.runtime.driver import upkeep as cleaning
from headwater.runtime.engine.operators.joins import GlobalJoin
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import GlobalTable, Settings, Store, Topic
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.errors import TopicChangedError
from headwater.runtime.log.state import LogState
from headwater.runtime.query.topics import TopicReader
from headwater.tests.runtime.local.local_application import (
    APPLICATION,
    PROJECT,
    WHOLE,
    LocalApplication,
    Part,
    Stopping,
    part,
)

Make = Callable[..., LocalApplication]
Row = Mapping[str, Any]

SEEDS = f"{PROJECT}-seed"
WORDS = Topic("words", 2, "k string", "x int")
COPIED = Topic("copied", 2, "k string", "x int", writer=APPLICATION)
CITIES = Topic("cities", 1, "k string", "city string")
NAMED = Topic("named", 2, "k string", "x int, city string", writer=APPLICATION)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two segments are worth a merge."""
    monkeypatch.setattr(cleaning, "LIMITS", Limits(fan_out=2))


def going_on(app: LocalApplication, max_records: int = WHOLE) -> Settings:
    """Of a run with `--continue`: records of before stay as they are."""
    return replace(app.settings(max_records), go_on=True)


def copied(value: str) -> Part:
    """A topic with these columns, copied to another one."""
    nodes = (Source(replace(WORDS, value=value), "f"), Sink("f", replace(COPIED, value=value)))
    return part("copies", 2, ((nodes, {}, {}),))


def named(table: Topic, columns: Sequence[str]) -> Part:
    """Words with columns of their key from a global table."""
    places = GlobalTable("places", table, Store("places", table.partitions, table.key, table.value))
    value = ", ".join(["x int", *(f"{name} string" for name in columns)])
    nodes = (
        Source(WORDS, "f"),
        GlobalJoin("f", places, "left", {"k": "k"}, {name: name for name in columns}),
        Sink("f", replace(NAMED, value=value)),
    )
    return part("named", 2, ((nodes, {}, {}),), (), (places,))


def feed(app: LocalApplication, topic: Topic, rows: Sequence[Row]) -> None:
    """Rows as records, each with its number as its time."""
    given = [{"timestamp": row["at"], "key": {"k": row["k"]}, "value": row["value"]} for row in rows]
    append(app.log, SEEDS, topic, given)


def rows(first: int, count: int = 6, **columns: Callable[[int], Any]) -> list[Row]:
    numbers = range(first, first + count)
    return [{"at": n, "k": f"k{n % 4}", "value": {name: of(n) for name, of in columns.items()}} for n in numbers]


def records(app: LocalApplication, topic: Topic) -> list[tuple[int, dict[str, Any] | None]]:
    """The time and value of each record, as `headwater read` gives them."""
    found = TopicReader(app.log, topic.writer or SEEDS, topic).read()
    return sorted(((each.timestamp, each.value) for each in found), key=lambda each: each[0])


def in_columns(given: Sequence[Row], *columns: str) -> list[Row]:
    """The same rows with these columns alone, null where they came without."""
    return [{**row, "value": {name: row["value"].get(name) for name in columns}} for row in given]


@pytest.mark.parametrize("log", ["sparse", pytest.param("embedded", marks=pytest.mark.soak)])
@pytest.mark.usefixtures("eager")
def test_fed_topic_with_added_dropped_and_widened_columns_is_read_as_if_it_had_been_so_from_the_start(
    application: Make, log: str
) -> None:
    old, new = replace(WORDS, value="x int, y string"), replace(WORDS, value="z string, x bigint")
    early = [rows(n, x=int, y=str) for n in (0, 10, 20)]
    late = [rows(n, x=lambda n: n << 40, z=str) for n in (30, 40)]
    app, fresh = (application(copied("x bigint, z string"), log=log, clean=True) for _ in range(2))
    for each in early:
        feed(app, old, each)
    feed(fresh, new, in_columns([row for each in early for row in each], "x", "z"))
    for each in late:
        for there in (app, fresh):
            feed(there, new, each)
            there.run(max_records=5)
            there.run()  # what was merged by the first run is read, too
    wanted = replace(COPIED, value="x bigint, z string")
    assert records(app, new) == records(fresh, new)
    assert records(app, wanted) == records(fresh, wanted)
    assert len(records(app, wanted)) == 30


def test_written_topic_that_gets_a_column_keeps_its_records_and_its_positions(application: Make) -> None:
    app = application(copied("x int, y string"))
    feed(app, replace(WORDS, value="x int, y string"), rows(0, x=int, y=str))
    app.run()
    wider = LocalApplication(app.path, (copied("y string, z string, x bigint"),))
    feed(wider, replace(WORDS, value="x bigint, y string, z string"), rows(10, x=int, y=str, z=str))

    assert wider.run().records == 6  # none of before is read again

    fresh = [{"x": n, "z": None} for n in range(6)] + [{"x": n, "z": str(n)} for n in range(10, 16)]
    assert records(wider, replace(COPIED, value="x bigint, z string")) == list(
        zip([*range(6), *range(10, 16)], fresh, strict=True)
    )


@pytest.mark.parametrize("back", ["x int, y string", "x bigint, y string"])
def test_column_that_comes_back_has_its_values_of_before(application: Make, back: str) -> None:
    app = application(copied("x int"))
    feed(app, replace(WORDS, value="x int, y string"), rows(0, 2, x=int, y=str))
    feed(app, replace(WORDS, value="x int"), rows(2, 2, x=int))
    topic = replace(WORDS, value=back)
    feed(app, topic, rows(4, 1, x=int, y=str))
    assert [value and value["y"] for _, value in records(app, topic)] == ["0", "1", None, None, "4"]


@pytest.mark.parametrize("value", ["x int, y int", "x smallint", "x int, y struct<a:int>"])
def test_column_that_comes_back_as_something_else_is_refused_by_all_and_nothing_is_changed(
    application: Make, value: str
) -> None:
    app = application(copied("x int"))
    feed(app, replace(WORDS, value="x int, y string"), rows(0, 2, x=int, y=str))
    feed(app, replace(WORDS, value="x int"), rows(2, 2, x=int))
    with pytest.raises(TopicChangedError, match="columns: ~"):
        feed(app, replace(WORDS, value=value), rows(4, 1, x=int))
    refused = LocalApplication(app.path, (copied(value),)).attempt()
    assert refused.status == "failed"
    assert "topic words: its records cannot be read with its present columns\n      ~ " in str(refused.error)
    assert app.run().records == 4


def test_older_project_may_append_without_a_new_column_and_not_in_a_narrower_type(application: Make) -> None:
    app = application(copied("x int"))
    newer = replace(WORDS, value="x bigint, y string")
    feed(app, newer, rows(0, 1, x=int, y=str))
    feed(app, replace(WORDS, value="x bigint"), rows(1, 1, x=int))
    assert [value and value["y"] for _, value in records(app, newer)] == ["0", None]
    with pytest.raises(TopicChangedError, match="~ x bigint -> int"):
        feed(app, WORDS, rows(2, 1, x=int))


def test_global_table_whose_topic_gets_a_column_is_loaded_again_with_it(application: Make) -> None:
    cities = rows(0, 4, city=lambda n: f"city {n}")
    both = replace(CITIES, value="mayor string, city string")
    app = application(named(CITIES, ["city"]))
    feed(app, CITIES, cities)
    feed(app, WORDS, rows(0, x=int))
    app.run()
    feed(app, both, rows(4, 2, city=str, mayor=str))
    feed(app, WORDS, rows(10, x=int))
    wider = LocalApplication(app.path, (named(both, ["city", "mayor"]),))
    assert wider.attempt(going_on(wider)).status == "caught_up"

    fresh = application(named(both, ["city", "mayor"]))
    feed(fresh, both, in_columns(cities, "city", "mayor"))
    feed(fresh, both, rows(4, 2, city=str, mayor=str))
    feed(fresh, WORDS, rows(10, x=int))
    fresh.run()
    topic = replace(NAMED, value="x int, city string, mayor string")
    assert records(wider, topic)[6:] == records(fresh, topic)
    assert [value and value["mayor"] for _, value in records(wider, topic)[:6]] == [None] * 6


def test_global_table_that_gets_another_topic_is_loaded_again_from_it(application: Make) -> None:
    towns = replace(CITIES, name="towns")
    app = application(named(CITIES, ["city"]))
    feed(app, CITIES, rows(0, 4, city=lambda n: f"city {n}"))
    feed(app, towns, rows(0, 3, city=lambda n: f"town {n}"))
    feed(app, WORDS, rows(0, x=int))
    app.run()
    feed(app, WORDS, rows(10, x=int))
    other = LocalApplication(app.path, (named(towns, ["city"]),))
    other.run()
    found = [value and value["city"] for _, value in records(other, replace(NAMED, value="x int, city string"))]
    assert found[:6] == ["city 0", "city 1", "city 2", "city 3", "city 0", "city 1"]
    assert found[6:] == ["town 2", None, "town 0", "town 1", "town 2", None]


def test_repartition_topic_gets_a_column_once_nothing_is_on_its_way_in_it(application: Make) -> None:
    def repartitioned(value: str) -> tuple[Part, Part]:
        way = Topic("way", 2, "k string", value, writer=APPLICATION)
        there = (Source(replace(WORDS, value="x int, y string"), "f"), Sink("f", way, "repartition"))
        back = (Source(way, "f"), Sink("f", replace(COPIED, value=value)))
        return part("there", 2, ((there, {}, {}),)), part("back", 2, ((back, {}, {}),))

    topic = replace(WORDS, value="x int, y string")
    app = application(*repartitioned("x int"))
    feed(app, topic, rows(0, x=int, y=str))
    stopping = Stopping(1)
    stopped = app.attempt(None, None, stopping, stop=stopping.stop, held=lambda task: task.subtopology == "back")
    assert (stopped.error, app.read(COPIED)) == (None, [])

    changed = LocalApplication(app.path, repartitioned("x int, y string"))
    refused = changed.attempt(going_on(changed))
    assert "topic way: it repartitions, and has records without y that were not consumed yet" in str(refused.error)
    assert "let the topology catch up" in str(refused.error)
    app.run()
    wider = LocalApplication(app.path, repartitioned("x int, y string"))
    feed(wider, topic, rows(10, x=int, y=str))
    assert wider.attempt(going_on(wider)).status == "caught_up"
    assert [value and value["y"] for _, value in records(wider, replace(COPIED, value="y string"))] == [
        *[None] * 6,
        *map(str, range(10, 16)),
    ]


LADDERS = {
    "x": ["tinyint", "int", "bigint", "decimal(25,0)"],
    "y": ["string"],
    "z": ["float", "double"],
    "s": ["struct<a:int>", "struct<b:string,a:bigint>"],
}
"""The types of each column, each wider than the one before."""

VALUES: Mapping[str, Callable[[int], Any]] = {"x": int, "y": str, "z": lambda n: n / 4, "s": lambda n: {"a": n}}


@dataclass
class History:
    """What a topic and its copy have been given. `reached`: column -> how far up its ladder records have come."""

    fed: list[Row] = field(default_factory=list)
    taken: list[Row] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)


def shown(given: Sequence[Row], declared: Mapping[str, int]) -> list[tuple[int, dict[str, Any]]]:
    """What a reader is to get of these rows with the columns of now, in JSON."""
    return sorted(
        (
            (row["at"], {name: _as_read(name, rung, row["value"].get(name)) for name, rung in declared.items()})
            for row in given
        ),
        key=lambda each: each[0],
    )


def _as_read(name: str, rung: int, value: Any) -> Any:
    if value is None:
        return None
    if name == "s":
        return {"a": value["a"]} if rung == 0 else {"b": None, "a": value["a"]}
    return str(value) if LADDERS[name][rung].startswith("decimal") else value


def ddl(declared: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {LADDERS[name][rung]}" for name, rung in declared.items())


steps = st.lists(
    st.one_of(
        st.just("append"),
        st.just("run"),
        st.lists(st.tuples(st.sampled_from(list(LADDERS)), st.integers(0, 3)), min_size=1, max_size=4),
    ),
    min_size=3,
    max_size=12,
)


@pytest.mark.usefixtures("eager")
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_any_sequence_of_changes_appends_and_runs_is_read_as_the_model_says(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[Any]
) -> None:
    path: Path = tmp_path_factory.mktemp("history")
    declared: dict[str, int] = {"x": 0}
    topic, history = replace(WORDS, value=ddl(declared)), History()
    for step in [*steps, "append", "run"]:
        app = LocalApplication(path, (copied(ddl(declared)),), clean=True)
        topic = replace(WORDS, value=ddl(declared))
        if isinstance(step, list):
            wanted = {name: min(rung, len(LADDERS[name]) - 1) for name, rung in step}
            narrower = [name for name, rung in wanted.items() if rung < history.reached.get(name, 0)]
            if narrower and history.fed:
                with pytest.raises(TopicChangedError, match=f"~ {narrower[0]}"):
                    feed(app, replace(WORDS, value=ddl(wanted)), rows(0, 1))
            else:
                declared = wanted
        elif step == "append":
            new = rows(len(history.fed), 3, **{name: VALUES[name] for name in declared})
            feed(app, topic, new)
            history.fed += new
            history.reached |= {name: max(rung, history.reached.get(name, 0)) for name, rung in declared.items()}
        elif history.fed:
            assert app.attempt(going_on(app, max_records=4)).status == "caught_up"
            history.taken += in_columns(history.fed[len(history.taken) :], *declared)
            history.reached |= {name: max(rung, history.reached.get(name, 0)) for name, rung in declared.items()}
    assert records(app, topic) == shown(history.fed, declared)
    assert records(app, replace(COPIED, value=ddl(declared))) == shown(history.taken, declared)
    assert LogState.load(app.log.commits(SEEDS)).topics["words"].value == ddl(declared)
