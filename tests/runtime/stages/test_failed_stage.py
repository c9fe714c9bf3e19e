"""Errors of stages cross processes as text, whatever their own text is."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from headwater.runtime.engine.failed_stage import StageFailedError, with_facts


def failing(error: Exception, cause: Exception | None) -> Iterator[int]:
    yield 1
    raise error from cause


@pytest.mark.parametrize(
    ("error", "cause", "told"),
    [
        (ValueError("odd \udc80\x1b"), None, "ValueError: odd \\udc80\\x1b"),
        (RuntimeError("outer"), ValueError("odd \ud800"), "RuntimeError: outer"),
    ],
)
def test_error_whose_text_no_file_takes_crosses_processes(error: Exception, cause: Exception, told: str) -> None:
    with pytest.raises(StageFailedError) as raised:
        list(with_facts(failing(error, cause)))

    assert raised.value.facts.cause == told
    "".join(traceback.format_exception(raised.value)).encode()  # as a worker of Spark writes it


def test_error_with_a_text_keeps_its_traceback() -> None:
    with pytest.raises(StageFailedError) as raised:
        list(with_facts(failing(ValueError("naïve"), None)))

    assert "in failing" in "".join(traceback.format_exception(raised.value))
