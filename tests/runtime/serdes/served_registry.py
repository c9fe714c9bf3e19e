"""A schema registry in this process, behind Confluent's API, for tests without Java. All schemas are compatible."""

from __future__ import annotations

import json
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from headwater.runtime.ir.topology import SchemaRegistry


class _Subjects:
    """Schemas by number, and the numbers of each subject's versions."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.versions: dict[str, list[int]] = {}

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema)
        versions = self.versions.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method: str, path: list[str], schema: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a request, None if what it asks for does not exist."""
        match method, path:
            case "GET", ["schemas", "ids", number]:
                return self.schemas[int(number)] if int(number) < len(self.schemas) else None
            case "GET", ["subjects", subject, "versions", version] if subject in self.versions:
                numbers = self.versions[subject]
                at = len(numbers) if version == "latest" else int(version)
                number = numbers[at - 1]
                return {"subject": subject, "id": number, "version": at, **self.schemas[number]}
            case "POST", ["subjects", subject] if schema in self.schemas:
                number = self.schemas.index(schema)
                return {"id": number} if number in self.versions.get(subject, []) else None
            case "POST", ["subjects", subject, "versions"]:
                return {"id": self.register(subject, schema)}
            case "POST", ["compatibility", *_]:
                return {"is_compatible": True}
        return None


@cache
def served_registry() -> SchemaRegistry:
    """The settings of a registry, which ends with this process."""
    subjects = _Subjects()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            schema = json.loads(self.rfile.read(length) or b"{}")
            path = [unquote(part) for part in self.path.partition("?")[0].strip("/").split("/")]
            answer = subjects.answer(self.command, path, schema)
            body = json.dumps({"error_code": 40401} if answer is None else answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return SchemaRegistry(f"http://127.0.0.1:{server.server_address[1]}")
