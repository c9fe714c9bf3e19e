"""What Spark's analyzer once said of the expressions of these tests, kept in `verdicts.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headwater.runtime.expressions.analyzer import Rejection, Request, Verdict

VERDICTS = Path(__file__).with_name("verdicts.json")


def recorded() -> dict[Request, Verdict]:
    """The verdicts of the file, by expression and columns."""
    entries = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else []
    return {
        (entry["expression"], entry["columns"]): entry["type"] if "type" in entry else refusal(entry["refused"])
        for entry in entries
    }


def refusal(fields: Mapping[str, Any]) -> Rejection:
    """A refusal of its fields as plain data."""
    return Rejection(**{**fields, "further": tuple(map(refusal, fields.get("further", ())))})


def record(verdicts: Mapping[Request, Verdict]) -> None:
    """Write the file."""
    entries = [
        {"expression": expression, "columns": columns}
        | ({"type": verdict} if isinstance(verdict, str) else {"refused": asdict(verdict)})
        for (expression, columns), verdict in sorted(verdicts.items())
    ]
    VERDICTS.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n")
