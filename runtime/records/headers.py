"""Headers of records, as JSON in the column `_headers`.

Most are an object of texts by name: `{"source": "web"}`. Kafka allows more: a name several times, a null value, bytes
that are no text. Such headers are an array of pairs in their order; a value is a text, null, or bytes as base64:

    [["source", "web"], ["source", "app"], ["trace", {"base64": "AP8="}], ["end", null]]
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""One encoder for all records: `json.dumps` makes one for each."""

Headers = Sequence[tuple[str, bytes | None]]
"""Headers as Kafka has them: pairs of a name and a value, in their order."""


def headers_text(headers: Headers) -> str | None:
    """The JSON of headers; None without any."""
    if not headers:
        return None
    pairs = [(name, _plain(value)) for name, value in headers]
    by_name = dict(pairs)
    simple = len(by_name) == len(pairs) and all(isinstance(value, str) for value in by_name.values())
    return _encoded(by_name if simple else pairs)


def kafka_headers(text: str | None) -> Headers:
    """The headers in a JSON of `headers_text`."""
    found = json.loads(text) if text else {}
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, _bytes(value)) for name, value in pairs]


class TextHeaders(dict[str, str]):
    """The headers of a record that are texts, by name: of several with one name the last, as Kafka's `lastHeader`.

    `source`: the JSON with all headers. A record that is passed on with these texts unchanged keeps them all.
    """

    def __init__(self, source: str | None) -> None:
        found = json.loads(source) if source else {}
        super().__init__(found if isinstance(found, dict) else [pair for pair in found if isinstance(pair[1], str)])
        self.source = source

    def copy(self) -> TextHeaders:
        """A copy that knows its source."""
        copied = TextHeaders(None)
        copied.update(self)
        copied.source = self.source
        return copied

    @property
    def unchanged(self) -> bool:
        """Whether these are the texts of the source."""
        return self == TextHeaders(self.source)


def checked_headers(given: Any) -> str | None:
    """The JSON of headers that a user gives: an object of texts, or an array of pairs. Raises ValueError."""
    if given is None or given in ({}, []):
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    kinds = (str,) if isinstance(given, Mapping) else (str, NoneType, dict)
    try:
        for name, value in pairs:
            if not isinstance(name, str) or not isinstance(value, kinds):
                raise ValueError
            if isinstance(value, dict):
                (encoded,) = (value[key] for key in value if key == "base64")
                base64.b64decode(encoded, validate=True)
        text = _encoded(given)
        text.encode()
    except (ValueError, TypeError) as error:
        raise ValueError("neither an object of texts nor an array of pairs") from error
    return text


def _plain(value: bytes | None) -> str | dict[str, str] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])
