"""Every way to log in works for all clients of a run, and every refusal is told within seconds, without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.main import main
from headwater.tests.kafka.broker import USERS, KafkaBroker
from headwater.tests.kafka.copying import produced, read_all
from headwater.tests.kafka.identities import oidc_issuer
from headwater.tests.kafka.shop import debug, reported, shop_project

pytestmark = pytest.mark.kafka

SCRAM = """          security:
            protocol: sasl_ssl
            mechanism: {mechanism}
            username: shop
            password: "{{{{ env_var('HUSHED') }}}}"
            ca: ca.pem
"""
CERTIFICATE = """          security:
            protocol: ssl
            ca: ca.pem
            certificate: {keys}/client.pem
            key: "{{{{ env_var('HUSHED_KEY') }}}}"
"""
OIDC = """          security: {{protocol: sasl_ssl, mechanism: OAUTHBEARER, ca: ca.pem}}
          client:
            sasl.oauthbearer.client.id: shop
            sasl.oauthbearer.client.secret: "{{{{ env_var('HUSHED') }}}}"
            sasl.oauthbearer.token.endpoint.url: {issuer}
"""
SECRET = "hushed-secret-of-shop"


@pytest.fixture(scope="module")
def issuer(kafka: KafkaBroker) -> Iterator[str]:
    with oidc_issuer(Path(kafka.keys), {"shop": SECRET}) as address:
        yield address


@pytest.fixture
def topics(kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A topic with a record, and one to write, for a project in `tmp_path`. The environment has all secrets."""
    monkeypatch.setenv("HUSHED", USERS["shop"])
    monkeypatch.setenv("HUSHED_KEY", Path(kafka.keys, "client.key").read_text())
    (tmp_path / "ca.pem").write_text(kafka.certificate)
    read, written = kafka.topic(), kafka.topic()
    produced(kafka, read, [("a", {"quantity": 1})])
    return read, written


def security(kafka: KafkaBroker, login: str, issuer: str) -> str:
    form = {"OAUTHBEARER": OIDC, "certificate": CERTIFICATE}.get(login, SCRAM)
    return form.format(mechanism=login, issuer=issuer, keys=kafka.keys)


@pytest.mark.parametrize("login", ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
def test_every_login_reaches_topics_groups_and_transactions(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    issuer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
) -> None:
    if login == "OAUTHBEARER":
        monkeypatch.setenv("HUSHED", SECRET)
    servers = kafka.certified if login == "certificate" else kafka.login
    result = debug(tmp_path, servers, *topics, "--format", "json", security=security(kafka, login, issuer))

    assert result.exit_code == 0, result.output
    report = reported(result)
    assert report["topics"]["orders"]["samples"][0]["value"] == {"quantity": 1}
    assert all(right["allowed"] for topic in report["topics"].values() for right in topic["rights"])


@pytest.mark.parametrize(
    ("login", "cause", "way_out"),
    [
        ("SCRAM-SHA-512", "invalid credentials", "correct `username`, `password` or `mechanism`"),
        ("OAUTHBEARER", "invalid_client", "sasl.oauthbearer.client.secret"),
        ("certificate", "alert bad certificate", "`certificate` and `key`"),
        ("ca", "certificate could not be verified", "correct `ca`"),
    ],
)
def test_refusal_is_told_with_a_way_out_and_without_the_secret(
    kafka: KafkaBroker,
    topics: tuple[str, str],
    issuer: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
    cause: str,
    way_out: str,
) -> None:
    monkeypatch.setenv("HUSHED", "hush-not-this-one")
    lines, servers = security(kafka, "SCRAM-SHA-512" if login == "ca" else login, issuer), kafka.login
    if login == "certificate":
        lines, servers = "\n".join(lines.splitlines()[:3]) + "\n", kafka.certified
    if login == "ca":
        (tmp_path / "ca.pem").write_text(Path(kafka.keys, "client.pem").read_text())
    result = debug(tmp_path, servers, *topics, security=lines)

    assert result.exit_code == 1
    assert cause in result.output
    assert way_out in result.output
    assert "hush" not in result.output


EVENT_LOG = """      spark:
        master: "local[2]"
        spark.eventLog.enabled: true
        spark.eventLog.compress: false
        spark.eventLog.dir: {root}/events
"""


@pytest.mark.spark
def test_secret_of_a_run_is_in_no_file_no_command_line_and_nothing_that_is_printed(
    kafka: KafkaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "events").mkdir()
    lines = security(kafka, "SCRAM-SHA-512", "") + EVENT_LOG.format(root=tmp_path)
    shop_project(tmp_path, kafka.login, *topics, lines)
    run = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "run",
        "--until-caught-up",
        "--log-format",
        "json",
        "--trace",
        "trace.json",
    ]
    with subprocess.Popen(run, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        printed = [process.stdout.readline()]  # the run has begun
        commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
        printed.append(process.stdout.read())
    for command in ("plan --format json", "tasks --format json", "debug kafka --format json", "log ls"):
        printed.append(CliRunner().invoke(main, [*command.split(), "--project-dir", str(tmp_path)]).output)

    assert process.returncode == 0, printed[:2]
    assert [message.value() for message in read_all(kafka, topics[1], 1)[0]] == [b'{"quantity":1}']
    assert any(b"--trace" in command for command in commands)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"trace.json", "events"} <= {path.relative_to(tmp_path).parts[0] for path in files}
    secret = USERS["shop"]
    assert [text for text in printed if secret in text] == []
    assert [command for command in commands if secret.encode() in command] == []
    assert [str(path) for path, content in files.items() if secret.encode() in content] == []
