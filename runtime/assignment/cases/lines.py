"""Answers a stream of cases, one on each line. A case is read, answered and forgotten before the next one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any, BinaryIO

from ....errors import HeadwaterError
from ....plugins.errors import named
from ..api.assignor import TaskAssignor
from ..api.cluster import UnknownLagError
from .cases import Answer, Case, answer, case_from_json, case_id
from .strict_json import CaseError, parse

LONGEST_LINE = 256 * 2**20
"""Bytes. 10,000 stateful tasks on 200 clients, each with its lag, are about 30 MB."""

_BOM = b"\xef\xbb\xbf"

Assignors = Callable[[str, Mapping[str, Any]], TaskAssignor]
"""Makes an assignor from its name and options."""


def answers(lines: BinaryIO, assignors: Assignors, longest: int = LONGEST_LINE) -> Iterator[str]:
    """Yield a line of JSON for each line that is not blank. Errors of a case are in its answer."""
    for number, line in _lines(lines, longest):
        found = (
            _bad(number, None, f"longer than {longest:,} bytes") if line is None else _answer(number, line, assignors)
        )
        # ASCII, as a case may have texts that no encoding can show.
        yield json.dumps(found.to_json())


def _lines(file: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """Lines that are not blank, with their numbers from 1 on; None instead of a line that is too long."""
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) > longest and not line.endswith(b"\n"):
            # The rest of the line is read in pieces, so that no line can exhaust the memory.
            while line and not line.endswith(b"\n"):
                line = file.readline(2**20)
            yield number, None
            continue
        if number == 1:
            line = line.removeprefix(_BOM)
        if line := line.strip(b" \t\r\n"):
            yield number, line


def _answer(number: int, line: bytes, assignors: Assignors) -> Answer:
    value = None
    try:
        value = parse(line)
        case = case_from_json(value)
    except CaseError as error:
        return _bad(number, case_id(value), error.message)
    try:
        return _assigned(case, assignors)
    except HeadwaterError as error:
        return Answer(case.id, error=str(error))
    except UnknownLagError as error:
        return Answer(case.id, error=str(error))
    except Exception as error:  # an assignor is anybody's code, and the other cases do not depend on it
        return Answer(case.id, error=f"the assignor {case.assignor} failed: {named(error)}")


def _assigned(case: Case, assignors: Assignors) -> Answer:
    with redirect_stdout(sys.stderr):  # what an assignor prints is no answer
        return answer(case, assignors(case.assignor, case.options))


def _bad(number: int, name: str | int | None, problem: str) -> Answer:
    return Answer(name, error=f"line {number}: {problem}", line=number)
