from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.reading.source import MappingNode, ScalarNode, SequenceNode, SourceFile
from headwater.compiler.reading.yaml_loader import Limits, read_yaml


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text", "text"),
        ("n", "n"),
        ("y", "y"),
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-12", -12),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("10m", "10m"),
        ("1.2.3", "1.2.3"),
        ("dep_delay > 15", "dep_delay > 15"),
        ("count(*)", "count(*)"),
        ("<<", "<<"),
        ("12 AND 13", "12 AND 13"),
    ],
)
def test_plain_word_has_the_value_that_yaml_versions_agree_on(read, word, value):
    found = read(f"a: {word}\n")
    assert found.codes == []
    assert found.scalar("a").value == value
    assert type(found.scalar("a").value) is type(value)
    assert found.scalar("a").text == word


@pytest.mark.parametrize("word", ["yes", "No", "ON", "off"])
def test_word_that_some_read_as_boolean_is_refused_plain_and_taken_quoted(read, word):
    assert read(f"a: {word}").codes == ["HW013"]
    assert read(f"a: {word}").scalar("a").broken
    assert read(f"a: '{word}'").scalar("a").value == word


@pytest.mark.parametrize("word", ["012", "0o14", "0b11", "1_000", "0x_f", "1:30", "-190:20:30", "007.5"])
def test_number_that_some_read_differently_is_refused(read, word):
    assert read(f"a: {word}").codes == ["HW014"]


@pytest.mark.parametrize("word", ["2013-01-01", "2013-01-01T10:00:00Z", "2013-1-1 10:00:00"])
def test_bare_date_is_refused(read, word):
    assert read(f"a: {word}").codes == ["HW015"]


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "[a]", "{a: b}", ""])
def test_key_that_is_no_text_is_refused(read, key):
    assert read(f"? {key}\n: 1\n").codes == ["HW022"]


def test_json_is_read_as_yaml(read):
    found = read('{"a": [1, 2.5, true, null, "yes"], "b": {"c": "\\u00e9"}}')
    assert found.codes == []
    assert found.node.to_python() == {"a": [1, 2.5, True, None, "yes"], "b": {"c": "é"}}


def test_several_problems_of_one_file_are_all_found(read):
    assert read("a: yes\nb: 012\nb: 1\nc: !x 1\nd: {{ e }}\n").codes == ["HW013", "HW014", "HW012", "HW016", "HW024"]


def test_value_after_a_broken_one_is_still_read(read):
    found = read("a: {{ x }} > 1\nb: 2\n")
    assert found.scalar("a").broken
    assert found.scalar("b").value == 2


def test_expression_in_quotes_within_a_flow_mapping_is_not_split(read):
    found = read("a: {b: 'coalesce(x, 0)', c: 1}\n")
    assert found.codes == []
    assert found.node.to_python() == {"a": {"b": "coalesce(x, 0)", "c": 1}}


def test_every_split_expression_of_a_flow_mapping_is_reported_once(read):
    found = read("a: {b: f(x, g(y, 1), 0), c: h(x, 0), d: 1}\n")
    assert [(item.code, item.message) for item in found.diagnostics] == [
        ("HW023", "YAML splits 'f(x, g(y, 1), 0)' at its comma."),
        ("HW023", "YAML splits 'h(x, 0)' at its comma."),
    ]
    assert found.node.to_python() == {"a": {"b": None, "c": None, "d": 1}}


def test_plain_expression_before_a_comment_knows_where_it_was_cut(read):
    found = read("a: x #> 3\nb: x  # y\nc: 'x' # y\nd: x#y\n")
    assert found.scalar("a").text == "x"
    assert found.scalar("a").cut_by_comment == Position("file.yml", 1, 6)
    assert found.scalar("b").cut_by_comment == Position("file.yml", 2, 7)
    assert found.scalar("c").cut_by_comment is None
    assert found.scalar("d").cut_by_comment is None


def test_positions_of_keys_values_and_collections_are_those_of_the_file(read):
    found = read("a:\n  - b: 10\n    'c': \"x\"\nd: [e]\n")
    root = found.node
    assert isinstance(root, MappingNode)
    assert root.key_position("a") == Position("file.yml", 1, 1, 2)
    items = root["a"]
    assert isinstance(items, SequenceNode)
    assert items.position == Position("file.yml", 2, 3)
    assert items[0].position == Position("file.yml", 2, 5)
    assert items[0]["b"].position == Position("file.yml", 2, 8, 10)
    assert items[0].key_position("c") == Position("file.yml", 3, 5, 8)
    assert items[0]["c"].position == Position("file.yml", 3, 10, 13)
    assert root["d"].position == Position("file.yml", 4, 4)


@pytest.mark.parametrize(
    ("text", "wanted", "line", "column"),
    [
        ("a: x + yy\n", "yy", 1, 8),
        ("a: 'it''s yy'\n", "yy", 1, 11),
        ('a: "x\\t\\u00e9 yy"\n', "yy", 1, 15),
        ('a: "x \\\n   yy"\n', "yy", 2, 4),
        ("a: x\n  and yy\n", "yy", 2, 7),
        ("a: 'x\n\n  and yy'\n", "yy", 3, 7),
        ("a: |\n  x\n    and yy\n", "yy", 3, 9),
        ("a: |2-\n    x\n  yy\n", "yy", 3, 3),
        ("a: >\n  x\n\n  and yy\n", "yy", 4, 7),
        ("a: >-\n  x\n    more\n  yy\n", "yy", 4, 3),
        ("a: |\r\n  x\r\n  yy\r\n", "yy", 3, 3),
        ("é: 'ß' \nb: |\n  yy\n", "yy", 3, 3),
    ],
)
def test_offset_in_a_scalar_leads_to_its_place_in_every_style(read, text, wanted, line, column):
    root = read(text).node
    scalar = root["b"] if "b" in root else root["a"]
    at = scalar.text.index(wanted)
    assert scalar.position_at(at, at + 2) == Position("file.yml", line, column, column + 2)


def test_offset_behind_the_end_leads_behind_the_end(read):
    assert read("a: x +\n").scalar("a").position_at(3) == Position("file.yml", 1, 7)


@given(st.text(st.sampled_from("ab(' \n\"\\\té,")), st.sampled_from(["'", '"', "|", ">"]))
def test_visible_characters_of_any_text_are_found_where_they_stand(text: str, style: str):
    """Holds for what PyYAML itself writes: each visible character is at its place, or is an escape there."""
    import yaml

    written = yaml.dump({"k": text}, default_style=style, allow_unicode=True)
    lines = written.split("\n")
    root = read_yaml(SourceFile("f", written), Diagnostics())
    scalar = root["k"] if isinstance(root, MappingNode) and "k" in root else None
    assert isinstance(scalar, ScalarNode)
    assert scalar.text == text
    for offset, char in enumerate(scalar.text):
        if not char.isspace():
            at = scalar.position_at(offset)
            assert lines[at.line - 1][at.column - 1] in (char, "\\")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: *b\n", "HW010"),
        ("a: &b [*b]\n", "HW017"),
        ("a: [x\n", "HW010"),
        ("a: @x\n", "HW010"),
        ("a:\n\tb: 1\n", "HW011"),
        ("a: \x01\n", "HW005"),
        ("<<: {a: 1}\n", "HW020"),
        ("a: 1\n---\nb: 1\n", "HW021"),
        ("", "HW025"),
        ("---\n", "HW025"),
        ("a: !!str 1\n", "HW016"),
        ("a: !!python/name:os.system\n", "HW016"),
        ("? {{ x }}\n: 1\n", "HW024"),
        ("{% if x %}\na: 1\n{% endif %}\n", "HW024"),
    ],
)
def test_text_that_is_refused_has_its_code(read, text, code):
    assert read(text).codes == [code]


def test_alias_gives_the_value_of_its_anchor(read):
    found = read("a: &x {b: 1}\nc: *x\n")
    assert found.codes == []
    assert found.node.to_python() == {"a": {"b": 1}, "c": {"b": 1}}


def test_aliases_are_counted_with_what_they_repeat():
    text = "a: &a [1, 1]\nb: [*a, *a]\n"
    for nodes, codes in ((15, []), (9, ["HW017"])):
        diagnostics = Diagnostics()
        read_yaml(SourceFile("f", text), diagnostics, Limits(nodes=nodes))
        assert [found.code for found in diagnostics] == codes


def test_aliases_are_as_deep_as_what_they_repeat():
    diagnostics = Diagnostics()
    read_yaml(SourceFile("f", "a: &a [[[1]]]\nb: [[*a]]\n"), diagnostics, Limits(depth=5))
    assert [found.code for found in diagnostics] == ["HW018"]


@given(st.text(st.sampled_from("ab: -[]{}'\"|>#&*!%@,?\n\t1{{%")))
def test_no_text_makes_the_loader_fail(text: str):
    diagnostics = Diagnostics()
    node = read_yaml(SourceFile("f", text), diagnostics)
    assert node is not None or len(diagnostics) > 0


def test_file_that_is_read_again_has_its_findings_again_and_one_that_changed_its_own(read) -> None:
    faulty = "a: yes\n"
    first = read(faulty).codes
    assert first == ["HW013"]
    assert read("a: no one\n").codes == []
    assert read(faulty).codes == first
