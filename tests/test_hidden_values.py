"""Values of environment variables that a profile names are hidden in messages, in the forms that these may have."""

from __future__ import annotations

import json

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.errors import HeadwaterError, shortened
from headwater.hidden_values import HiddenValues, hidden_value, hide

AT = "profiles.yml:7"


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("sesame-open", "there is no log 'sesame-open'", "there is no log '***'"),
        ("sesame-open", "pre-sesame-opened", "pre-***ed"),
        ("Sesame-Open.example", "cannot reach sesame-open.example:80", "cannot reach ***:80"),
        ("sesame\nopen 'it'", repr("sesame\nopen 'it'"), '"***"'),
        ('sesame\nopen "it"', json.dumps({"a": 'sesame\nopen "it"'}), '{"a": "***"}'),
        ("sesame open/it", "GET /a?b=sesame%20open%2Fit", "GET /a?b=***"),
        ("sesame open/it", "GET /sesame%20open/it", "GET /***"),
        ("/data//sesame/", "/data/sesame/log cannot be written", "***/log cannot be written"),
        ("48712391ms", "every 48712391 ms, 48,712,391 ms, 48_712_391", "every *** ms, *** ms, ***"),
        ("https://me:sesame-open@host.example/x", "host.example refuses sesame-open", "*** refuses ***"),
        ("one-line-of\nan-other-line", "bad key: an-other-line", "bad key: ***"),
        ("task", "task 0_1 has failed", "task 0_1 has failed"),
        ("task", "there is no log 'task'", "there is no log '***'"),
        ("2", "2 records, not '2'", "2 records, not '2'"),
        ("embedded", "embedded at /log", "embedded at /log"),
        ("", "nothing ''", "nothing ''"),
    ],
)
def test_value_is_hidden_as_it_is_written(value: str, text: str, shown: str) -> None:
    values = HiddenValues()
    values.add(value)

    assert values.hide(text) == shown


def test_longer_value_is_hidden_before_one_that_it_begins_with() -> None:
    values = HiddenValues()
    for value in ("sesame-open", "sesame-opened-again"):
        values.add(value)

    assert values.hide("sesame-opened-again, sesame-open") == "***, ***"


def test_short_value_is_hidden_as_a_word_in_findings_of_its_line() -> None:
    values = HiddenValues()
    values.add("512", AT)

    assert values.hide("512ms is not 512 or x512", AT) == "512ms is not *** or x512"
    assert values.hide("512 records, not '512'", "profiles.yml:8") == "512 records, not '512'"


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("kafka.example:9092,b.example:9092", "no broker at b.example:9092", "no broker at b.example:9092"),
        ("kafka.example", "no broker at kafka.example:9092", "no broker at kafka.example:9092"),
        ("kafka.example", "the user kafka.example", "the user ***"),
        ("the-kafka.example:9092-password", "the-kafka.example:9092-password", "***"),
        ("b.ex:1", "nobody at 'b.ex:1'", "nobody at 'b.ex:1'"),
    ],
)
def test_addresses_are_shown_and_what_contains_them_is_not(value: str, text: str, shown: str) -> None:
    values = HiddenValues()
    values.show("kafka.example:9092,b.example:9092,b.ex:1")
    values.add(value)

    assert values.hide(text) == shown


def test_forgotten_values_are_shown() -> None:
    values = HiddenValues()
    values.add("sesame-open")
    values.add("512", AT)
    values.forget()

    assert values.hide("sesame-open", AT) == "sesame-open"
    assert values.hide("512", AT) == "512"


def test_findings_and_errors_hide_values_before_they_are_cut() -> None:
    hidden_value("sesame-of-the-process" * 50, AT)
    diagnostics = Diagnostics()
    diagnostics.add("HW601", Position("profiles.yml", 7), "There is no " + "sesame-of-the-process" * 50, "Not it.")
    error = HeadwaterError("there is no " + "sesame-of-the-process" * 50, "sesame-of-the-process" * 50)

    (found,) = diagnostics
    assert found.message == "There is no ***"
    assert (error.message, error.hint, str(error), error.args) == (
        "there is no ***",
        "***",
        "there is no *** (***)",
        ("there is no ***",),
    )
    assert shortened("sesame-of-the-process" * 50) == hide("sesame-of-the-process" * 50) == "***"
