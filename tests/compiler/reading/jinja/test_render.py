from __future__ import annotations

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.reading.files import FromEnvironment
from headwater.compiler.reading.jinja import render
from headwater.compiler.reading.source import MappingNode, SequenceNode, SourceFile
from headwater.compiler.reading.yaml_loader import read_yaml

VARIABLES = {
    "late": 15,
    "word": "ha",
    "flag": True,
    "none": None,
    "list": [1, "b"],
    "deep": {"host": "h", "ports": [80]},
    "long": "x" * 19_000,
}


def rendered(text: str):
    diagnostics = Diagnostics()
    node = read_yaml(SourceFile("file.yml", text), diagnostics)
    assert node is not None
    assert not diagnostics.has_errors
    return render(node, VARIABLES, diagnostics, {"HOME": "/home"}), diagnostics


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ var('late') }}", 15),
        ("{{ var('flag') }}", True),
        ("{{ var('none') }}", None),
        ("{{ var('word') }}", "ha"),
        ("{{ var('late') + 1 }}", 16),
        ("{{ var('late') / 2 }}", 7.5),
        ("{{ -var('late') // 2 * 2 % 7 }}", -16 % 7),
        ("{{ var('missing', 'd') }}", "d"),
        ("{{ var('missing', default=2) }}", 2),
        ("{{ env_var('HOME') }}", "/home"),
        ("{{ env_var('MISSING', 'd') }}", "d"),
        ("{{ var('deep').host }}", "h"),
        ("{{ var('deep')['ports'][0] }}", 80),
        ("{{ var('word') ~ 1 ~ true ~ none }}", "ha1truenull"),
        ("{{ 'big' if var('late') > 10 and not false else 'small' }}", "big"),
        ("{{ 1 in var('list') or 1 < 2 < 3 }}", True),
        ("{{ var('list') | join('-') | upper }}", "1-B"),
        ("{{ ' a' | trim | replace('a', 'bc') }}", "bc"),
        ("{{ var('late') is number }}", True),
        ("{{ var('late') }} ", "15 "),
        ("{{ var('late') }}m", "15m"),
        ("{% if var('late') > 99 %}a{% elif var('flag') %}b{% else %}c{% endif %}", "b"),
        ("{% if false %}a{% endif %}", ""),
        ("x {%- if true %} y {%- endif %}", "x y"),
        ("{# nothing #}x", "x"),
        ("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{{ '{{' }} x", "{{ x"),
    ],
)
def test_template_gives_its_value_with_its_type(template, value):
    node, diagnostics = rendered(f'a: "{template}"\n')
    assert [found.message for found in diagnostics] == []
    assert node["a"].value == value
    assert isinstance(value, type(node["a"].value)) or type(node["a"].value) is FromEnvironment


def test_text_of_a_native_value_is_as_yaml_writes_it():
    node, _ = rendered("a: \"{{ var('flag') }}\"\nb: \"{{ var('late') }}\"\nc: \"{{ var('none') }}\"\n")
    assert [node[key].text for key in "abc"] == ["true", "15", "null"]


def test_list_or_mapping_becomes_nodes_at_the_template():
    node, _ = rendered("a: \"{{ var('deep') }}\"\nb: \"{{ var('list') }}\"\n")
    assert isinstance(node["a"], MappingNode)
    assert isinstance(node["b"], SequenceNode)
    assert node.to_python() == {"a": {"host": "h", "ports": [80]}, "b": [1, "b"]}
    assert node["a"]["ports"][0].position == Position("file.yml", 1, 4, 23)


@pytest.mark.parametrize(
    ("template", "code"),
    [
        ("{{ 1 + }}", "HW101"),
        ("{{ 1 2 }}", "HW101"),
        ("{{ }}", "HW101"),
        ("{{ x", "HW101"),
        ("{% if true %}", "HW101"),
        ("{% endif %}", "HW101"),
        ("{% if %}{% endif %}", "HW101"),
        ("{# x", "HW101"),
        ("{{ ? }}", "HW101"),
        ("{{ var('lates') }}", "HW102"),
        ("{{ env_var('HOMES') }}", "HW103"),
        ("{{ late }}", "HW104"),
        ("{{ range(9) }}", "HW104"),
        ("{{ self }}", "HW104"),
        ("{% for x in var('list') %}{% endfor %}", "HW105"),
        ("{% set x = 1 %}", "HW105"),
        ("{% macro x() %}{% endmacro %}", "HW105"),
        ("{% include 'x' %}", "HW105"),
        ("{% import 'x' as y %}", "HW105"),
        ("{% %}", "HW105"),
        ("{{ ''.__class__ }}", "HW106"),
        ("{{ var.__globals__ }}", "HW106"),
        ("{{ var('list').append(1) }}", "HW106"),
        ("{{ var('word').format(1) }}", "HW106"),
        ("{{ 9 ** 9 }}", "HW106"),
        ("{{ var('word') * 3 }}", "HW106"),
        ("{{ var('list') * 3 }}", "HW106"),
        ("{{ var('word')[1:] }}", "HW106"),
        ("{{ var('word') | center(9) }}", "HW106"),
        ("{{ var('late') | default(1) }}", "HW106"),
        ("{{ var('late') is defined }}", "HW106"),
        ("{{ var }}", "HW106"),
        ("{{ var('long') ~ var('long') }}", "HW107"),
        ("{{ var('long') + var('long') }}", "HW107"),
        ("{{ var('long') }}{{ var('long') }}", "HW107"),
        ("{{ var('long') | replace('x', var('long')) }}", "HW107"),
        ("{{ " + " * ".join(["99999999"] * 50) + " }}", "HW107"),
        ("{{ 1" + "0" * 5_000 + " }}", "HW107"),
        ("{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}", "HW107"),
        ("{{ " + "not " * 2_000 + "1 }}", "HW107"),
        ("{{ 1 }}" + "x" * 10_000, "HW107"),
        ("{{ 1 / 0 }}", "HW108"),
        ("{{ 1 + 'a' }}", "HW108"),
        ("{{ '%999999999d' % 1 }}", "HW108"),
        ("{{ 1 < 'a' }}", "HW108"),
        ("{{ var('deep').hots }}", "HW108"),
        ("{{ var('list')[7] }}", "HW108"),
        ("{{ var() }}", "HW108"),
        ("{{ var(1) }}", "HW108"),
        ("{{ var('a', 1, 2) }}", "HW108"),
        ("{{ var('a', x=2) }}", "HW108"),
        ("x{{ var('list') }}", "HW108"),
        ("{{ 'a' | int }}", "HW108"),
        ("{{ (1e308 * 1e308) | int }}", "HW108"),
    ],
)
def test_template_that_is_refused_has_its_code_and_leaves_a_broken_value(template, code):
    node, diagnostics = rendered(f'a: "{template}"\n')
    assert [found.code for found in diagnostics] == [code]
    assert node["a"].broken
    assert node["a"].value is None


def test_each_scalar_with_a_problem_is_reported():
    _, diagnostics = rendered('a: x {{ b }}\nc: ["{{ d }}", x]\n"{{ e }}": 1\n')
    assert [(found.code, found.position.line) for found in diagnostics] == [("HW104", 1), ("HW104", 2), ("HW109", 3)]


def test_rendered_text_leads_back_through_jinja_and_block_scalars():
    node, _ = rendered("a: |\n  dep > {{ var('late') }}\n  {%- if true %} and {{ var('word') }} < b{% endif %}\n")
    scalar = node["a"]
    assert scalar.text == "dep > 15 and ha < b\n"
    places = {word: scalar.position_at(scalar.text.index(word)) for word in ("dep", "15", "and", "ha", "b")}
    assert {word: (at.line, at.column) for word, at in places.items()} == {
        "dep": (2, 3),
        "15": (2, 9),
        "and": (3, 18),
        "ha": (3, 22),
        "b": (3, 42),
    }
    assert places["15"].end_column == 26
    whole = scalar.position_at(0, scalar.text.index("15") + 2)
    assert (whole.column, whole.end_column) == (3, 26)


def test_syntax_error_is_placed_at_its_expression():
    _, diagnostics = rendered("a: |\n  {{ var('late') }}\n  and {{ 1 + }} x\n")
    (found,) = diagnostics
    assert found.position == Position("file.yml", 3, 7, 16)


def test_short_file_of_templates_does_not_unfold_into_a_huge_one():
    items = ", ".join("\"{{ var('list') }}\"" for _ in range(40_000))
    diagnostics = Diagnostics()
    node = read_yaml(SourceFile("file.yml", f"a: [{items}]\n"), diagnostics)
    render(node, {"list": list(range(1_000))}, diagnostics, {})
    assert {found.code for found in diagnostics} == {"HW107"}


def test_tree_without_templates_stays_the_same_and_one_with_them_shares_the_rest() -> None:
    node = read_yaml(SourceFile("file.yml", "a: [1, {b: c}]\nd: [x]\ne: '{{ 1 + 1 }}'\n"), Diagnostics())
    assert isinstance(node, MappingNode)
    rendered = render(node, {}, Diagnostics())
    assert isinstance(rendered, MappingNode)
    assert [rendered[key] is node[key] for key in "ade"] == [True, True, False]
    assert render(node["a"], {}, Diagnostics()) is node["a"]
