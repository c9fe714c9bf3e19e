"""Records from a file of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import HeadwaterError


def records_of(source: Any) -> list[dict[str, Any]]:
    """JSON objects, one a line, in the form that `headwater read --format json` prints. Raises HeadwaterError."""
    from ..runtime.ingest.places import numbered_lines  # load Arrow, which help does without
    from ..runtime.records.texts.values import parse_json

    records = []
    name = Path(getattr(source, "name", "<stdin>")).name
    for number, line in numbered_lines(source, name):
        if not line.strip():
            continue
        try:
            record = parse_json(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise HeadwaterError(f"{name}:{number}: this is not UTF-8", "write the records in UTF-8") from error
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise HeadwaterError(f"{name}:{number}: this is not JSON: {reason}", "give one object a line") from error
        if not isinstance(record, dict):
            raise HeadwaterError(f"{name}:{number}: a record is a JSON object", "give one object a line")
        records.append(record)
    return records
