from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.engine.execution.processing.batches import copied_headers, header_text
from headwater.runtime.records.headers import TextHeaders, checked_headers, headers_text, kafka_headers

HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3) | st.text().map(str.encode)))


@given(HEADERS)
def test_headers_of_kafka_come_back_as_they_were(headers: list[tuple[str, bytes | None]]) -> None:
    assert kafka_headers(headers_text(headers)) == headers


@given(HEADERS)
def test_headers_that_a_topic_has_may_be_given(headers: list[tuple[str, bytes | None]]) -> None:
    text = headers_text(headers)
    assert checked_headers(json.loads(text or "null")) == text


def test_texts_by_name_are_an_object() -> None:
    assert headers_text([("source", b"web"), ("trace", b"1")]) == '{"source":"web","trace":"1"}'
    assert headers_text([]) is None


def test_processor_sees_the_last_text_of_a_name_and_passes_all_headers_on() -> None:
    text = headers_text([("a", b"1"), ("a", b"2"), ("b", b"\xff"), ("c", None)])
    headers = copied_headers(TextHeaders(text))
    assert dict(headers) == {"a": "2"}
    assert header_text(headers) == text
    headers["a"] = "3"
    assert header_text(headers) == '{"a":"3"}'


@pytest.mark.parametrize(
    "wrong", [{"a": 1}, {"a": None}, "text", [["a"]], [["a", 1]], [["a", {"base64": "?"}]], [["a", {"hex": "ff"}]], 3]
)
def test_what_are_no_headers_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="neither an object of texts nor an array of pairs"):
        checked_headers(wrong)
