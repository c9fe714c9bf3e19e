"""Each operator is its declaration with a `run`: what the compiler makes is what generated code makes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import get_args

import pytest

import headwater.runtime
from headwater.runtime.ir.declarations import Declaration


@pytest.mark.parametrize("declared", get_args(Declaration), ids=lambda declared: declared.__name__)
def test_declaration_is_an_operator_that_generated_code_can_import(declared: type) -> None:
    operator = getattr(headwater.runtime, declared.__name__)
    assert issubclass(operator, declared)
    assert callable(operator.run)
    assert fields(operator) == fields(declared)


def test_declarations_alone_load_no_arrow() -> None:
    code = "import sys, headwater.runtime.ir.declarations; print({'numpy', 'pyarrow'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
