"""A proxy before a server of S3: it counts requests, loses answers, refuses requests and leaves conditions out."""

from __future__ import annotations

import http.client
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from headwater.tests.s3_server import S3Server

LOSE = "lose"
"""The server does what it is asked for, and nobody hears of it."""

CUT = "cut"
"""Nobody answers, and nothing is done."""


IGNORE = "ignore"
"""The server does as if it knew no conditions: an object that is there is replaced."""


HANG = "hang"
"""Nobody answers, and the connection stays open."""

BREAK = "break"
"""The server does what it is asked for, and its answer ends in the middle."""


@dataclass(frozen=True)
class Refusal:
    """An answer of the store's own. `done`: the server has done what it was asked for all the same."""

    status: int
    code: str
    done: bool = False

    def text(self, path: str) -> str:
        """The body. One that comes with a good status is about one of the objects of the request."""
        error = f"<Error><Key>{path}</Key><Code>{self.code}</Code><Message>so it is</Message></Error>"
        return f"<DeleteResult>{error}</DeleteResult>" if self.status == 200 else error


@dataclass(frozen=True)
class Request:
    """`path`: without the query."""

    method: str
    path: str
    query: str
    conditional: bool


Fault = str | Refusal | None


@dataclass
class Proxy:
    """`fault`: what becomes of a request. `seen`: all requests, in their order."""

    endpoint: str
    fault: Callable[[Request], Fault] = lambda _: None
    seen: list[Request] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def counts(self) -> Counter[str]:
        """Requests by method; those that list are LIST."""
        return Counter("LIST" if "list-type" in each.query else each.method for each in self.seen)


def key_in(body: bytes) -> str:
    """The first object that a request to remove several names; empty in other requests."""
    key = re.search(rb"<Key>([^<]*)</Key>", body)
    return key[1].decode() if key else ""


@contextmanager
def proxy(server: S3Server) -> Iterator[Proxy]:
    """A proxy for a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            request = Request(self.command, parts.path, parts.query, "If-None-Match" in self.headers)
            found.seen.append(request)
            fault = found.fault(request)
            if isinstance(fault, Refusal):
                if fault.done:
                    self.forwarded(body)
                self.reply(fault.status, [], fault.text(key_in(body)).encode())
                return
            if fault == IGNORE:  # the header is signed, so it cannot be left out; but the object can be gone
                server.remove(request.path)
            if fault == HANG:
                found.ended.wait()
            if fault not in (CUT, HANG):
                status, headers, content = self.forwarded(body)
            if fault in (CUT, HANG, LOSE):
                self.close_connection = True
                return
            self.reply(status, headers, content, len(content) // 2 if fault == BREAK else 0)
            self.close_connection = self.close_connection or fault == BREAK

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = serve  # noqa: N815

        def forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upward = http.client.HTTPConnection(urlsplit(server.endpoint).netloc)
            try:
                upward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    upward.putheader(name, value)
                upward.endheaders(body)
                answer = upward.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            finally:
                upward.close()

        def reply(self, status: int, headers: list[tuple[str, str]], content: bytes, missing: int = 0) -> None:
            self.send_response_only(status)
            length = next((value for name, value in headers if name.lower() == "content-length"), str(len(content)))
            for name, value in headers:
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content[: len(content) - missing])

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    found = Proxy(f"http://127.0.0.1:{listening.server_address[1]}")
    serving = threading.Thread(target=listening.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield found
    finally:
        found.ended.set()
        listening.shutdown()
        serving.join()
        listening.server_close()
