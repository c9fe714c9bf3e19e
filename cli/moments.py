"""Times on a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click


class Moment(click.ParamType[int]):
    """Milliseconds since 1970, or an ISO 8601 time, in UTC if it has no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The milliseconds."""
        text = str(value)
        if re.fullmatch("-?[0-9]{1,18}", text):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither milliseconds nor a time such as 2024-05-01T08:00:00Z", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
