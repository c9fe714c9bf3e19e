"""Ways to log in at the broker of the tests: SCRAM, tokens of an OIDC issuer, certificates of clients."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
CLIENT = "shop-client"
"""The name in the client's certificate."""

_ISSUER, _AUDIENCE = "https://issuer.example", "kafka"


def _openssl(*words: str | Path, given: bytes | None = None) -> bytes:
    return subprocess.run(["openssl", *words], check=True, capture_output=True, input=given).stdout


def make_keys(folder: Path) -> None:
    """`client.key` and `client.pem` of a client; `issuer.key` of an OIDC issuer, and its public key in `jwks.json`."""
    key, certificate = folder / "client.key", folder / "client.pem"
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={CLIENT}")
    _openssl(*words, "-keyout", key, "-out", certificate)
    _openssl("genrsa", "-out", folder / "issuer.key", "2048")
    modulus = _openssl("rsa", "-in", folder / "issuer.key", "-noout", "-modulus").decode().partition("=")[2]
    public = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "e": "AQAB", "n": _text(bytes.fromhex(modulus))}
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))


def listeners(login: int, certified: int) -> str:
    """The addresses of both listeners."""
    return f"LOGIN://127.0.0.1:{login},CERTIFIED://127.0.0.1:{certified}"


PROTOCOLS = "LOGIN:SASL_SSL,CERTIFIED:SSL"


def settings(folder: Path) -> Mapping[str, str]:
    """Settings of the broker for both listeners."""
    oauth, scram = "listener.name.login.oauthbearer", "org.apache.kafka.common.security.scram.ScramLoginModule"
    classes = "org.apache.kafka.common.security.oauthbearer"
    return {
        "listener.name.login.sasl.enabled.mechanisms": ",".join((*SCRAM, "OAUTHBEARER")),
        **{f"listener.name.login.{name.lower()}.sasl.jaas.config": f"{scram} required;" for name in SCRAM},
        f"{oauth}.sasl.jaas.config": f"{classes}.OAuthBearerLoginModule required;",
        f"{oauth}.sasl.server.callback.handler.class": f"{classes}.OAuthBearerValidatorCallbackHandler",
        f"{oauth}.sasl.oauthbearer.jwks.endpoint.url": _keys_of_the_issuer(folder),
        f"{oauth}.sasl.oauthbearer.expected.audience": _AUDIENCE,
        f"{oauth}.sasl.oauthbearer.expected.issuer": _ISSUER,
        "listener.name.certified.ssl.client.auth": "required",
        "listener.name.certified.ssl.truststore.type": "PEM",
        "listener.name.certified.ssl.truststore.location": f"{folder}/client.pem",
    }


def flags(folder: Path) -> tuple[str, ...]:
    """Flags of Java, without which the broker reads no keys of issuers."""
    return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={_keys_of_the_issuer(folder)}",)


def _keys_of_the_issuer(folder: Path) -> str:
    return f"file://{folder.resolve()}/jwks.json"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def oidc_issuer(keys: Path, secrets: Mapping[str, str]) -> Iterator[str]:
    """An HTTP server that gives tokens for the secrets of clients (`client_credentials`). Its address.

    `keys`: the folder of `make_keys`. `secrets`: by the id of the client, which is its name for the broker.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            name, _, secret = base64.b64decode(self.headers["Authorization"].split()[1]).decode().partition(":")
            if form["grant_type"] != ["client_credentials"] or secrets.get(name) != secret:
                self._answer(401, {"error": "invalid_client"})
                return
            self._answer(200, {"access_token": _token(keys, name), "token_type": "Bearer", "expires_in": 300})

        def _answer(self, status: int, answer: Mapping[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _token(keys: Path, name: str) -> str:
    now = int(time.time())
    claims = {"sub": name, "iss": _ISSUER, "aud": _AUDIENCE, "iat": now - 5, "exp": now + 300}
    parts = ({"alg": "RS256", "kid": "1", "typ": "JWT"}, claims)
    signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
    signature = _openssl("dgst", "-sha256", "-sign", keys / "issuer.key", given=signed.encode())
    return f"{signed}.{_text(signature)}"
