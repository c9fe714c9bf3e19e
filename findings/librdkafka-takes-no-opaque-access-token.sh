#!/bin/sh
# confluent-kafka 2.16.1 (librdkafka 2.16.0), OAUTHBEARER with sasl.oauthbearer.method=oidc: the access token has to be a JWT with the claims
# `exp` and `sub`. OAuth 2.0 promises neither: a token is "usually opaque to the client" (RFC 6749, section 1.4), and its lifetime
# is in `expires_in` beside it (section 5.1), which is not read. Other answers of the token endpoint are an error that comes by
# `error_cb` only.
#
# Seen: a JWT with both claims -> no error; an opaque token with expires_in -> "The token is invalid with less than 2 delimiters";
# a JWT without sub -> 'Expected JSON JWT response with "sub" field', without exp -> the same of "exp". With
# sasl.oauthbearer.sub.claim.name another claim serves as `sub`.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$folder/venv/bin/python" - <<'PYTHON'
import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import Producer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.dumps({"access_token": self.server.token, "token_type": "Bearer", "expires_in": 3600}).encode()
        self.server.answered = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def error(token, **settings):
    """What a client says of a token."""
    server, errors = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint), []
    server.token, server.answered = token, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    oidc = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "client",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{server.server_port}/",
    }
    broker = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
    names = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({**broker, **oidc, **names, "error_cb": errors.append, "log_level": 0})
    # With a token it connects, and there is no broker; without one it does not.
    while not any(name in ("_ALL_BROKERS_DOWN", "_TRANSPORT", "_AUTHENTICATION") for name in (e.name() for e in errors)):
        producer.poll(0.1)
    server.shutdown()
    assert server.answered
    return next((e.str().partition("token: ")[2] for e in errors if e.name() == "_AUTHENTICATION"), None)


def jwt(**claims):
    parts = {"alg": "RS256", "typ": "JWT"}, claims
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".c2ln"


hour = int(time.time()) + 3600
seen = [
    error(jwt(sub="client", exp=hour)),
    error(jwt(azp="client", exp=hour), sasl_oauthbearer_sub_claim_name="azp"),
    error("2YotnFZFEjr1zCsicMWpAA"),
    error(jwt(exp=hour)),
    error(jwt(sub="client")),
]
print(*seen, sep="\n")
assert seen == [
    None,
    None,
    "Failed to decode JWT payload: The token is invalid with less than 2 delimiters",
    'Expected JSON JWT response with "sub" field',
    'Expected JSON JWT response with "exp" field',
]
PYTHON
