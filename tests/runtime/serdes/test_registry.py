"""The client of schema registries, with a real one; and what a registry does that is down, or that lets nobody in."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from headwater.errors import UnavailableError
from headwater.runtime.ir.topology import SchemaRegistry
from headwater.runtime.serdes import registry as registries
from headwater.runtime.serdes.framing import (
    IncompatibleSchemaError,
    SchemaOptions,
    framed,
    registered,
    unframed,
)
from headwater.runtime.serdes.registry import (
    Registry,
    RegistryError,
    RegistryLoginError,
    RegistryTlsError,
    RegistryUnreachableError,
    Schema,
    SchemaReference,
    SchemaType,
)
from headwater.runtime.serdes.serde import PayloadSpec, Role
from headwater.tests.kafka.registry import RegistryServer

pytestmark = pytest.mark.kafka


def avro(name: str, /, **fields: object) -> Schema:
    text = {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}
    return Schema(SchemaType.AVRO, json.dumps(text))


@pytest.fixture
def registry(schema_registry: RegistryServer) -> Registry:
    return Registry(SchemaRegistry(schema_registry.url))


@pytest.fixture
def subject() -> str:
    return f"ops/orders-{uuid.uuid4().hex[:8]}-value"


def test_schema_is_registered_once_and_found_by_number_and_subject(registry: Registry, subject: str) -> None:
    schema = avro("Order", id="long")
    assert (registry.latest(subject), registry.number_of(subject, schema)) == (None, None)

    number = registered(registry, subject, schema)
    again = registered(registry, subject, schema)

    latest = registry.latest(subject)
    assert again == number
    assert latest is not None
    assert (latest.id, latest.version, registry.schema(number)) == (number, 1, schema)
    assert registry.schema(number + 1_000_000) is None


def test_incompatible_schema_is_not_registered_and_the_reason_is_told(
    registry: Registry, schema_registry: RegistryServer
) -> None:
    subject = f"orders-{uuid.uuid4().hex[:8]}-value"
    first = registered(registry, subject, avro("Order", id="long"))
    schema_registry.set_compatibility(subject, "BACKWARD")

    with pytest.raises(
        IncompatibleSchemaError, match=f"subject {subject}.*STRING not compatible with writer type: LONG"
    ):
        registered(registry, subject, avro("Order", id="string"))

    latest = registry.latest(subject)
    assert latest is not None
    assert latest.id == first


def test_imported_schemas_come_with_those_that_they_import(registry: Registry, subject: str) -> None:
    texts = [avro("City", name="string"), avro("Address", city="City"), avro("Order", address="Address")]
    references: tuple[SchemaReference, ...] = ()
    for text in texts:
        schema = Schema(SchemaType.AVRO, text.text, references)
        name = json.loads(text.text)["name"]
        number = registered(registry, f"{subject}-{name}", schema)
        references = (SchemaReference(name, f"{subject}-{name}", 1),)

    found = registry.schema(number)

    assert found is not None
    assert list(registry.imported(found).items()) == [("City", texts[0].text), ("Address", texts[1].text)]


def test_wrong_address_is_no_missing_schema(schema_registry: RegistryServer) -> None:
    with pytest.raises(RegistryError, match=r"status 404.*correct `url`"):
        Registry(SchemaRegistry(schema_registry.url.replace("ccompat", "nothing"))).latest("x")


def test_missing_number_is_not_asked_for_again_at_once() -> None:
    asked = list[str]()

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b'{"error_code": 40403, "message": "Schema not found"}')

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry = Registry(SchemaRegistry(f"http://127.0.0.1:{server.server_port}"))
        assert [registry.schema(number) for number in (7, 7, 8, 7)] == [None] * 4
        server.shutdown()
    assert asked == ["/schemas/ids/7", "/schemas/ids/8"]


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"{}", b'{"schema": "", "schemaType": "WSDL", "id": "x"}'],
    ids=["html", "list", "empty", "other"],
)
def test_answer_of_another_service_is_an_error_of_the_registry(body: bytes) -> None:
    class Other(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry = Registry(SchemaRegistry(f"http://127.0.0.1:{server.server_port}"))
        for ask in (
            lambda: registry.schema(1),
            lambda: registry.latest("x"),
            lambda: registry.number_of("x", avro("Order")),
            lambda: registry.incompatibilities("x", avro("Order")),
            lambda: registry.register("x", avro("Order")),
        ):
            with pytest.raises(RegistryError, match=r"is not that of a schema registry.*correct `url`"):
                ask()
        server.shutdown()


def test_registry_that_is_down_is_unavailable_and_another_address_helps(
    schema_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "PATIENCE", 0.0)
    down = "http://127.0.0.1:1"

    with pytest.raises(RegistryUnreachableError, match="does not answer: Connection refused") as failed:
        Registry(SchemaRegistry(down)).schema(1)

    assert isinstance(failed.value, UnavailableError)
    assert Registry(SchemaRegistry(f"{down}, {schema_registry.url}")).latest("nobody") is None


# A server before the registry that wants a password, with TLS or without.

_USER = "shop", "hush-registry"


@contextmanager
def guarded(server: RegistryServer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    wanted = f"Basic {base64.b64encode(':'.join(_USER).encode()).decode()}"

    class Guard(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = 401, b"{}"
            if self.headers["Authorization"] == wanted:
                try:
                    with urllib.request.urlopen(f"{server.url}{self.path}") as answer:
                        status, body = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, body = error.code, error.read()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    guard = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    if tls is not None:
        guard.socket = tls.wrap_socket(guard.socket, server_side=True)
    threading.Thread(target=guard.serve_forever, daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{guard.server_port}"
    finally:
        guard.shutdown()
        guard.server_close()


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would wait for a registry fails instead."""

    def sleep(_: float) -> None:
        raise AssertionError("waits for the registry")

    monkeypatch.setattr(registries, "time", SimpleNamespace(**vars(registries.time) | {"sleep": sleep}))


@pytest.mark.usefixtures("no_pause")
def test_refused_login_is_told_at_once_and_without_the_password(schema_registry: RegistryServer) -> None:
    user, password = _USER
    with guarded(schema_registry) as url:
        with pytest.raises(RegistryLoginError, match="does not accept the login") as failed:
            Registry(SchemaRegistry(url, user, "hush-wrong")).latest("nobody")
        known = Registry(SchemaRegistry(url, user, password)).latest("nobody")

    assert known is None
    assert "hush" not in str(failed.value) + repr(SchemaRegistry(url, user, password))


@pytest.mark.usefixtures("no_pause")
def test_registry_with_a_certificate_of_its_own_needs_ca(schema_registry: RegistryServer, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    names = ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*words, *names], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)

    with guarded(schema_registry, tls) as url:
        with pytest.raises(RegistryTlsError, match=r"TLS fails: self-signed certificate.*`ca`"):
            Registry(SchemaRegistry(url, *_USER)).latest("nobody")
        known = Registry(SchemaRegistry(url, *_USER, certificate.read_text())).latest("nobody")

    assert known is None


# Payloads and subjects, which need no registry.


def test_payload_begins_with_the_number_of_its_schema() -> None:
    bodies = pa.array([b"a", None, b""], pa.binary())

    payloads = framed(bodies, 258)
    parts = unframed(payloads)

    assert payloads.to_pylist() == [b"\0\0\0\1\2a", None, b"\0\0\0\1\2"]
    assert (parts.numbers.tolist(), parts.errors) == ([258, -1, 258], {})
    assert [(number, parts.bodies(rows).to_pylist()) for number, rows in parts.groups()] == [(258, [b"a", b""])]


def test_payload_without_a_number_is_an_error_of_its_row() -> None:
    payloads = pa.array([b"", b"\0\0\0\1", b'{"a": 1}', b"\0\0\0\0\7x", b"\0\xff\0\0\0", None], pa.binary())

    parts = unframed(payloads)

    assert parts.numbers.tolist() == [-1, -1, -1, 7, -1, -1]
    assert parts.errors == {
        0: "0 bytes are too few: a payload begins with the number of its schema, in 5 bytes",
        1: "4 bytes are too few: a payload begins with the number of its schema, in 5 bytes",
        2: "the first byte is 0x7b, not 0x00: it was written without a schema registry",
        4: "-16777216 is no number of a schema",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "ops-value"),
        ({"subject": "flights"}, "flights"),
        ({"subject_name_strategy": "record"}, "shop.Order"),
        ({"subject_name_strategy": "topic_record"}, "ops-shop.Order"),
    ],
)
def test_subject_has_the_name_that_its_strategy_says(options: dict[str, str], expected: str) -> None:
    assert SchemaOptions.of(**options).subject_of(PayloadSpec("ops", Role.VALUE, {}), "shop.Order") == expected
