"""Every operator answers every question about it, and what its fields have shows in its answers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import headwater.runtime
from headwater.runtime.engine.operators import operators
from headwater.runtime.engine.operators.kafka import Decode, Produce
from headwater.runtime.engine.operators.operator import (
    UNTRACED,
    Column,
    EdgeColumns,
    Flow,
    OldRows,
    Operator,
    Releases,
    Stores,
    columns_of,
)
from headwater.runtime.ir.functions import PythonFunction, Udf
from headwater.runtime.ir.topology import CODE_OF, GlobalTable, KafkaTopic, PluginRef, Store, Topic

EDGE = EdgeColumns(columns_of("id string"), columns_of("v bigint, id string"))
EDGES = dict.fromkeys(("flow", "other", "table"), EDGE)
KINDS = (Store, Topic, GlobalTable, PythonFunction, Udf)
SAMPLES: dict[str, Any] = {
    **{name: name for name in ("flow", "table", "other")},
    "flows": ("flow", "other"),
    "key": ("id",),
    "columns": None,
}


def sample(kind: type[Operator]) -> Any:
    """An operator with something in each field that is required, or may have a store, a topic or a function."""
    hints = get_type_hints(kind)
    given = {}
    for field in fields(kind):  # type: ignore[arg-type]
        hint = hints[field.name]
        wanted = [each for each in (hint, *get_args(hint)) if each in KINDS]
        if wanted or (field.default is MISSING and field.default_factory is MISSING):
            value = made(wanted[0] if wanted else hint, field.name)
            given[field.name] = (value,) if get_origin(hint) is tuple and wanted else value
    return kind(**given)


def made(hint: Any, name: str) -> Any:
    if hint is Store:
        return Store(name, 1, "id string", "v bigint")
    if hint is Topic:
        return Topic(name, 1, "id string", "v bigint")
    if hint is KafkaTopic:
        return KafkaTopic(name)
    if hint is PluginRef:
        return PluginRef("json")
    if hint is GlobalTable:
        return GlobalTable(name, made(Topic, f"{name}-topic"), made(Store, f"{name}-store"))
    if hint is PythonFunction:
        return PythonFunction(f"functions.{name}:f")
    if hint is Udf:
        return Udf(name, PythonFunction("functions.udf:f"), {"v": "bigint"}, "bigint")
    if get_origin(hint) is Literal:
        return get_args(hint)[0]
    if hint is int:
        return 1
    if get_origin(hint) is not None and "Mapping" in str(hint):
        return {"new": "v"}
    if get_origin(hint) is tuple and name != "flows":
        return ("id",) if name == "key" else ("v",)
    return SAMPLES.get(name, name)


@pytest.mark.parametrize("kind", operators().values(), ids=operators())
def test_operator_has_every_part(kind: type[Operator]) -> None:
    assert not inspect.isabstract(kind), f"{kind.__name__} lacks {sorted(kind.__abstractmethods__)}"
    assert getattr(headwater.runtime, kind.__name__) is kind, "generated code imports it"


@pytest.mark.parametrize("kind", operators().values(), ids=operators())
def test_fields_of_an_operator_show_in_its_answers(kind: type[Operator]) -> None:
    node = sample(kind)
    values = [getattr(node, field.name) for field in fields(node)]
    has = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]

    assert {*_names(has, Store)} == {store.name for store in node.stores}
    if kind not in (Decode, Produce):  # they name the topic of the source or sink of their flow
        assert {*_names(has, Topic)} == {topic.name for topic in (*node.topics_read, *node.topics_written)}
    assert {*_names(has, GlobalTable)} == {table.name for table in node.global_tables}
    called = [value.function if isinstance(value, Udf) else value for value in has]
    code = _names(called, PythonFunction)
    assert {f"{CODE_OF}{name}" for name in code} <= {name for name, _ in node.settings}


def _names(values: list[Any], kind: type) -> list[str]:
    return [value.name for value in values if isinstance(value, kind)]


@pytest.mark.parametrize("kind", operators().values(), ids=operators())
def test_answers_of_an_operator_fit_together(kind: type[Operator]) -> None:
    node = sample(kind)
    assert node.reads or node.topics_read
    edges = node.output_columns(EDGES, UNTRACED)
    assert edges.keys() == {*node.makes}
    assert all(isinstance(column, Column) for edge in edges.values() for side in edge.sides for column in side.values())

    assert all(store in node.stores for store in node.fills)
    touches = node.touches
    assert {*touches.before, *touches.dropped} <= {*node.reads}
    assert {*touches.after} <= {*node.makes}
    if node.fills or (node.topics_written and node.reads):
        assert touches.before == node.reads, "a record of which a store or a topic has something cannot be skipped"
    assert node.old_rows in get_args(OldRows)
    assert node.releases in get_args(Releases)
    assert node.is_stateful or not node.stores
    assert node.text in {text.text for text in node.texts()} or not node.text


def test_operator_without_a_part_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Halving(Stores):
        flow: str
        at: str = ""

    with pytest.raises(TypeError, match=r"output_columns.*run.*text"):
        Halving("flow")  # type: ignore[abstract]


def test_operators_load_no_arrow() -> None:
    code = (
        "import sys; from headwater.runtime.engine.operators import operators; operators();"
        "print({'numpy', 'pyarrow', 'pandas'} & sys.modules.keys())"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "set()"


def test_type_checkers_find_the_operators_of_every_module() -> None:
    text = Path(headwater.runtime.__file__ or "").read_text("utf-8")
    modules = {kind.__module__.rpartition(".")[2] for kind in operators().values()}
    assert [name for name in modules if f"from .engine.operators.{name} import *" not in text] == []


def test_name_that_generated_code_cannot_have_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Projection'"):
        _ = headwater.runtime.Projection  # type: ignore[attr-defined]


def test_columns_of_an_edge_are_its_flow() -> None:
    flow = Flow("id string", "v bigint, `a b` array<int>")
    assert EdgeColumns.from_flow(flow).flow == flow
