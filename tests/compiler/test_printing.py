from __future__ import annotations

import json

from headwater.compiler.diagnostics import (
    Diagnostic,
    Diagnostics,
    Position,
    Severity,
    as_github,
    as_json,
    as_text,
    did_you_mean,
    styled,
)

SOURCES = {"a.yml": "first: 1\nsecond:\tto > 2\n漢字: xx\n"}


def finding(line: int, column: int, end: int | None = None, **changes):
    values = {"code": "HW203", "severity": Severity.ERROR, "message": "No.", "hint": None} | changes
    return Diagnostic(position=Position(values.pop("file", "a.yml"), line, column, end), **values)


def test_text_shows_place_line_range_and_hint():
    shown = as_text([finding(2, 9, 15, hint="Do this.")], SOURCES)
    assert shown == ("a.yml:2:9: error HW203: No.\n  | second: to > 2\n  |         ^~~~~~\n  hint: Do this.\n1 error\n")


def test_text_underlines_wide_characters_in_full():
    shown = as_text([finding(3, 1, 3), finding(3, 5, 7)], SOURCES)
    assert "  | 漢字: xx\n  | ^~~~\n" in shown
    assert "  | 漢字: xx\n  |       ^~\n" in shown


def test_text_of_a_place_behind_the_line_or_the_file_has_no_false_mark():
    assert "  | first: 1\n  |         ^\n" in as_text([finding(1, 99)], SOURCES)
    assert as_text([finding(9, 1)], SOURCES) == "a.yml:9:1: error HW203: No.\n1 error\n"
    assert as_text([finding(1, 1, file="b.yml")], SOURCES) == "b.yml:1:1: error HW203: No.\n1 error\n"


def test_text_counts_errors_and_warnings():
    found = [finding(1, 1), finding(2, 1), finding(3, 1, severity=Severity.WARNING)]
    assert as_text(found, {}).endswith("2 errors, 1 warning\n")
    assert as_text([], SOURCES) == ""


def test_text_of_a_long_line_is_cut_around_the_range():
    shown = as_text([finding(1, 5_000, 5_003)], {"a.yml": "x" * 4_999 + "abc" + "y" * 5_000}).splitlines()
    assert max(map(len, shown)) < 200
    mark = shown[2].index("^")
    assert shown[1][mark : mark + 3] == "abc"
    assert shown[2][mark:] == "^~~"


def test_text_lets_no_control_character_through():
    shown = as_text([finding(1, 1, message="\x1b[2J\u202e")], {"a.yml": "\x1b]0;title\x07"})
    assert not any(char in shown for char in "\x1b\x07\u202e")


def test_text_has_styles_only_when_asked():
    found = [finding(1, 1, hint="Do this.")]
    shown = styled(found, SOURCES)
    assert shown.plain == as_text(found, SOURCES)
    assert {(shown.plain[span.start : span.end], span.style) for span in shown.spans} >= {
        ("error HW203:", "bold red"),
        ("hint:", "cyan"),
    }


def test_base_goes_before_file_names():
    found = [finding(1, 1)]
    assert as_text(found, SOURCES, base="projects/x").startswith("projects/x/a.yml:1:1:")
    assert json.loads(as_json(found, base="projects/x/"))["diagnostics"][0]["file"] == "projects/x/a.yml"
    assert as_github(found, base=".").startswith("::error file=a.yml,")


def test_json_holds_every_field():
    content = json.loads(as_json([finding(2, 3, 5, hint="Dö."), finding(3, 1, severity=Severity.WARNING)]))
    assert content["errors"] == 1
    assert content["warnings"] == 1
    assert content["diagnostics"][0] == {
        "code": "HW203",
        "severity": "error",
        "file": "a.yml",
        "line": 2,
        "column": 3,
        "end_column": 5,
        "message": "No.",
        "hint": "Dö.",
    }


def test_github_escapes_what_would_end_a_property_or_a_message():
    shown = as_github([finding(2, 3, file="a,b:c%.yml", message="100%, no:\nnever", hint="Do.")])
    assert shown == "::error file=a%2Cb%3Ac%25.yml,line=2,col=3,title=HW203::100%25, no:%0Anever%0ADo.\n"


def test_github_knows_warnings_and_ranges():
    shown = as_github([finding(2, 3, 9, severity=Severity.WARNING)])
    assert shown == "::warning file=a.yml,line=2,col=3,endColumn=9,title=HW203::No.\n"


def test_finding_about_an_option_has_its_name_and_no_line():
    found = [Diagnostic("HW009", Severity.ERROR, Position.option("--target"), "There is no target 'x'.")]
    assert as_text(found, SOURCES, base="../shop") == "--target: error HW009: There is no target 'x'.\n1 error\n"
    (told,) = json.loads(as_json(found, base="../shop"))["diagnostics"]
    assert (told["file"], told["line"], told["column"], told["end_column"]) == ("--target", None, None, None)
    assert as_github(found, base="../shop") == "::error title=HW009 --target::There is no target 'x'.\n"


def test_diagnostics_come_sorted_by_place_and_once_each():
    diagnostics = Diagnostics()
    diagnostics.add("HW204", Position("b.yml", 1, 1), "x")
    diagnostics.add("HW203", Position("a.yml", 10, 1), "x")
    diagnostics.add("HW203", Position("a.yml", 2, 5), "x")
    diagnostics.add("HW203", Position("a.yml", 2, 5), "x")
    diagnostics.add("HW202", Position("a.yml", 2, 5), "x")
    assert [(found.position.file, found.position.line, found.code) for found in diagnostics] == [
        ("a.yml", 2, "HW202"),
        ("a.yml", 2, "HW203"),
        ("a.yml", 10, "HW203"),
        ("b.yml", 1, "HW204"),
    ]
    assert len(diagnostics) == 4


def test_warnings_alone_are_no_errors():
    warning = Diagnostics([finding(1, 1, severity=Severity.WARNING)])
    assert not warning.has_errors
    warning.add("HW203", Position("a.yml"), "x")
    assert warning.has_errors


def test_word_that_is_close_is_offered_and_a_far_one_is_not():
    assert did_you_mean("flihgts", ["flights", "airlines"]) == "Did you mean 'flights'?"
    assert did_you_mean("zzz", ["flights"]) is None
    assert did_you_mean("flights" * 50, ["flights" * 50]) is None
