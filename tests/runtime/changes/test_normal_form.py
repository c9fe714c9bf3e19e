"""Two texts have one normal form only if they compute the same."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headwater.runtime.changes.normal_form import normal_form


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("filter x is not null and s in ('a')", "filter x IS NOT  NULL AND s IN ('a')"),
        ("filter coalesce(s, 'x') = 'y'", "filter COALESCE(s,'x')='y'"),
        ("filter cast(x as double) > 1e3", "filter CAST(x AS DOUBLE) > 1E3"),
        ("filter s = 'a' and s <> 'it''s'", '''filter s == "a" and s != "it's"'''),
        ("filter x > 1 and y", "filter (x > 1) and (y)"),
        ("filter x > 1", "filter ((x > 1))"),
        ("filter x > 1 or y and z", "filter x > 1 or (y and z)"),
        ("filter a * b + c - 1 > d", "filter ((a * b) + c) - 1 > (d)"),
        ("filter a + (b - c)", "filter a + ((b) - c)"),
        ("filter not a = b", "filter NOT (a = b)"),
        ("filter not not b", "filter not (not b)"),
        ("filter a and not b", "filter a and (not b)"),
        ("filter a + b between 1 and 2", "filter (a + b) BETWEEN 1 AND 2"),
        ("filter x is null and y", "filter (x is null) and y"),
        ("filter x not in (1, 2) and y", "filter (x not in (1, 2)) and y"),
        ("select a: case when x > 1 then y else z end", "select a: CASE WHEN (x > 1) THEN (y) ELSE z END"),
        ("key_by k: f(x, y + 1), m: z", "key_by k: F((x), (y + 1)), m: (z)"),
        ("filter x > -1", "filter x>-1"),
        ("filter x = 'a'", "filter `x` = 'a'"),
        ("sum(if(x > 1, 1, 0))", "SUM(IF((x > 1), 1, 0))"),
        ("select n: s.name[0].x + 1", "select n: (s.name[0].x) + 1"),
        ("filter interval 1 day > i", "filter INTERVAL 1 DAY > i"),
    ],
)
def test_texts_that_are_written_in_another_way_are_the_same(text: str, other: str) -> None:
    assert normal_form(text) == normal_form(other)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("filter s = 'a'", "filter s = 'A'"),
        ("filter x > 1", "filter x > 2"),
        ("filter x > 1", "filter x > 1.0"),
        ("filter x > 1", "filter x > 1L"),
        ("filter `true`", "filter true"),
        ("filter `null` is null", "filter null is null"),
        ("filter '5' = s", "filter + '5' = s"),
        ("filter s = 'it''s'", "filter s = 'it' 's'"),
        ("filter (a or b) and c", "filter a or b and c"),
        ("filter a and (b or c)", "filter a and b or c"),
        ("filter not (a and b)", "filter not a and b"),
        ("filter (not a) = b", "filter not a = b"),
        ("filter (a = b) = c", "filter a = (b = c)"),
        ("filter a - (b - c) > 0", "filter a - b - c > 0"),
        ("filter a / (b * c) > 0", "filter a / b * c > 0"),
        ("filter -(a + b) > 0", "filter -a + b > 0"),
        ("filter (a, b) in ((1, 2))", "filter a, b in (1, 2)"),
        ("filter x between 1 and (2 or y)", "filter x between 1 and 2 or y"),
        ("filter x between 1 and (a = b)", "filter x between 1 and a = b"),
        ("filter x in (1)", "filter x in 1"),
        ("filter (a).b = 1", "filter a.b = 1"),
        ("filter (a = b) is null", "filter a = b is null"),
        ("filter (a | b) + 1 > 0", "filter a | b + 1 > 0"),
        ("filter (-2147483648) > x", "filter -(2147483648) > x"),
        ("select a: f(x)", "select a: f"),
        ("select a: x, b: y", "select b: y, a: x"),
        ("from Orders", "from orders"),
        ("filter x like ('a' || 'b')", "filter x like 'a' || 'b' || 'c'"),
        (r"filter s = '\A'", r"filter s = '\a'"),
    ],
)
def test_texts_that_compute_something_else_differ(text: str, other: str) -> None:
    assert normal_form(text) != normal_form(other)


@dataclass(frozen=True)
class Tree:
    """An expression: an operator or a function, and what it is applied to."""

    word: str
    parts: tuple[Tree, ...] = ()


LEVELS = {"or": 1, "and": 2, "not": 3, "=": 4, "<": 4, "like": 4, "between": 4, "is null": 4, "in": 4}
LEVELS |= {"+": 8, "-": 8, "||": 8, "*": 9, "div": 9, "|": 5, "neg": 10}
CHAINED = {"or", "and", "+", "-", "||", "*", "div", "|"}
LEAVES = st.sampled_from(["x", "y", "s.f", "1", "1.5", "'a'", "'A'", "null", "`true`"]).map(Tree)


def _trees(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    two, one = st.tuples(parts, parts), st.tuples(parts)
    binary = st.sampled_from(["or", "and", "=", "<", "like", "+", "-", "||", "*", "div", "|"])
    return st.one_of(
        st.builds(Tree, binary, two),
        st.builds(Tree, st.sampled_from(["not", "neg", "is null", "f", "case"]), one),
        st.builds(Tree, st.sampled_from(["in", "f"]), two),
        st.builds(Tree, st.just("between"), st.tuples(parts, parts, parts)),
    )


TREES = st.recursive(LEAVES, _trees, max_leaves=8)


def written(tree: Tree, draw, level: int = 0) -> str:
    """The tree as SQL, with the parentheses that it needs at a level, and with some more, spaces and capitals."""
    own = LEVELS.get(tree.word, 11)
    word = tree.word.upper() if draw(st.booleans()) else tree.word
    parts = tree.parts
    if not parts:
        text = tree.word
    elif tree.word == "f":
        text = f"{word}({', '.join(written(each, draw) for each in parts)})"
    elif tree.word == "case":
        when = "CASE WHEN" if draw(st.booleans()) else "case when"
        text = f"{when} {written(parts[0], draw)} then 1 end"
    elif tree.word == "not":
        text = f"{word} {written(parts[0], draw, own)}"
    elif tree.word == "neg":
        text = f"- {written(parts[0], draw, 11)}"
    elif tree.word == "is null":
        text = f"{written(parts[0], draw, own + 1)} {word}"
    elif tree.word == "in":
        text = f"{written(parts[0], draw, own + 1)} {word} ({written(parts[1], draw)})"
    elif tree.word == "between":
        first, second, third = (written(each, draw, own + 1) for each in parts)
        text = f"{first} {word} {second} AND {third}"
    else:
        first = written(parts[0], draw, own if tree.word in CHAINED else own + 1)
        text = f"{first} {word} {written(parts[1], draw, own + 1)}"
    if own < level or draw(st.integers(0, 4)) == 0:
        return f"({text})"
    return text


@given(st.data(), TREES, TREES)
def test_no_two_expressions_share_a_normal_form(data: st.DataObject, tree: Tree, other: Tree) -> None:
    assume(tree != other)
    texts = [f"filter {written(each, data.draw)}" for each in (tree, other)]
    assert normal_form(texts[0]) != normal_form(texts[1]), texts


JUDGED = ("or", "and", "not", "=", "<", "like", "+", "-", "||", "*", "div", "f", "is null", "in")


@given(st.data(), TREES)
def test_expression_has_one_normal_form_however_it_is_written(data: st.DataObject, tree: Tree) -> None:
    left = [tree]
    while left:
        each = left.pop()
        assume(each.word in JUDGED or not each.parts)
        left += each.parts
    first, second = (normal_form(f"filter {written(tree, data.draw)}") for _ in range(2))
    assert first == second
