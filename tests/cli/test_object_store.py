"""Commands on a project with its log on a real server of S3, and what they say when something is wrong."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from headwater.runtime.log.object_store import objects
from headwater.tests.s3_proxy import Refusal, proxy
from headwater.tests.s3_server import NOBODY, READER, WRITER, S3Server

PROFILE = """\
shop:
  target: s3
  targets:
    s3:
      log:
        type: object_store
        uri: "{uri}"
        endpoint: "{endpoint}"
        access_key_id: "{{{{ env_var('KEY') }}}}"
        secret_access_key: "{{{{ env_var('SECRET') }}}}"
        look_every: 250ms
        description: Where the shop keeps its records.
"""
SALE = {"key": {"order_id": 99}, "value": {"product": "tea", "quantity": 3, "price": 4.5, "ordered_at": "2024-05-02"}}


@pytest.fixture
def on_s3(shop: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that says where the log is, and with which credentials."""
    uri = s3.uri(uuid.uuid4().hex)

    def given(key: tuple[str, str] = WRITER, uri: str = uri, endpoint: str = s3.endpoint) -> None:
        (shop / "profiles.yml").write_text(PROFILE.format(uri=uri, endpoint=endpoint))
        monkeypatch.setenv("KEY", key[0])
        monkeypatch.setenv("SECRET", key[1])

    given()
    return given


def test_commands_work_on_a_log_in_an_object_store_and_no_secret_is_anywhere(
    shop: Path, headwater: Callable[..., Result], on_s3: Callable[..., None]
) -> None:
    said = [headwater("compile"), headwater("seed"), headwater("seed", "orders", "--append", stdin=json.dumps(SALE))]
    said.append(headwater("read", "orders", "--format", "json"))
    assert len(said[-1].output.splitlines()) == 11
    said += [headwater("tasks"), headwater("debug", "log"), headwater("parse")]
    said.append(headwater("log", "verify"))
    assert [(each.exit_code, each.output) for each in said if each.exit_code] == []
    assert "object_store at s3://headwater/" in said[-3].output
    assert "shop-seed: whole: 2 commits" in said[-1].output
    files = [path for path in shop.rglob("*") if path.is_file()]
    assert [str(path) for path in files if b"hush" in path.read_bytes()] == []
    assert "hush" not in "".join(each.output for each in said)


@pytest.mark.parametrize(
    ("given", "words", "way_out"),
    [
        ({"key": (WRITER[0], "hush-wrong")}, "does not accept the credentials", "AWS_SECRET_ACCESS_KEY"),
        ({"key": READER}, "may not do what a log needs", "put and delete objects"),
        ({"uri": "s3://nothing/shop"}, "there is no such bucket", "make the bucket"),
        ({"endpoint": NOBODY}, "does not answer", "look whether it runs"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_a_way_out_and_without_a_secret(
    headwater: Callable[..., Result],
    on_s3: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    words: str,
    way_out: str,
) -> None:
    monkeypatch.setattr(objects, "FIRST_PATIENCE", timedelta(milliseconds=200))
    on_s3(**given)
    done = headwater("seed")
    assert (done.exit_code, len(done.output.splitlines())) == (1, 2)
    assert words in done.output.splitlines()[0]
    assert way_out in done.output.splitlines()[1]
    assert "hush" not in done.output


@pytest.mark.parametrize(
    "command",
    ["log verify", "log ls", "log clean", "read orders", "tasks", "plan", "seed", "ls --orphans"],
)
def test_missing_right_to_list_is_one_sentence_and_no_empty_log(
    headwater: Callable[..., Result], on_s3: Callable[..., None], s3: S3Server, command: str
) -> None:
    headwater("seed")
    with proxy(s3) as between:
        on_s3(endpoint=between.endpoint)
        between.fault = lambda request: Refusal(403, "AccessDenied") if "list-type" in request.query else None
        done = headwater(*command.split())

    assert (done.exit_code, done.stdout) == (1, "")
    sentence, way_out = done.stderr.splitlines()
    assert "may not do what a log needs" in sentence
    assert "list" in way_out


def test_option_that_is_misspelt_is_reported_at_its_place(
    shop: Path, headwater: Callable[..., Result], on_s3: Callable[..., None]
) -> None:
    path = shop / "profiles.yml"
    path.write_text(path.read_text().replace("look_every: 250ms", "look_every: soon"))
    message = "profiles.yml:11:21: error HW602: The log 'object_store' does not accept the option"
    assert message in headwater("compile").output
    path.write_text(path.read_text().replace("look_every: soon", "lookevery: 1s"))
    assert "profiles.yml:11:9: error HW2" in headwater("compile").output
    path.write_text(path.read_text().replace("        uri:", "        # uri:"))
    assert "'uri' is a required property" in headwater("compile").output


def test_empty_prefix_is_told_with_the_place_that_was_looked_at(
    headwater: Callable[..., Result], on_s3: Callable[..., None], s3: S3Server
) -> None:
    headwater("seed")
    on_s3(uri=s3.uri("another-prefix"))

    for said in (headwater("log", "verify"), headwater("log", "ls")):
        assert said.stdout == "nothing was committed to the log yet\n"
        assert said.stderr.startswith(f"searched {s3.uri('another-prefix')}: it lists no commits, and no files of this")
        assert "correct `log:` in profiles.yml" in said.stderr
