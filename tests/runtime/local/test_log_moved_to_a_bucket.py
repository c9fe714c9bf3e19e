"""A copy of an embedded log is an object store's log: as files of a folder, and once they are uploaded to a bucket."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from obstore.store import LocalStore, S3Store

from headwater.runtime.driver import stopping as purging
from headwater.runtime.ir.topology import PluginRef
from headwater.runtime.log.inspection.copying import copy_log
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.state_parts import folded as folding
from headwater.tests.runtime.local.local_application import LocalApplication
from headwater.tests.runtime.local.summing import PARTITIONS, RECORDS, SUMS, WORDS, fed, last_sums, summed_by_text
from headwater.tests.s3_server import BUCKET, S3Server


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> LocalApplication:
    """An application on an embedded log with all that a log may have: merged and purged segments, snapshots of commits
    and of stores, removed commits. No test changes it.
    """
    app = fed(LocalApplication(tmp_path_factory.mktemp("original"), summed_by_text(), clean=True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(purging, "PURGE_SECONDS", 0.0)
        patched.setattr(folding, "SNAPSHOT_EVERY", 5)
        app.run(max_records=8)
    commits = {path.suffix: int(path.stem) for path in sorted((app.path / "log" / "commits" / "test-app").iterdir())}
    assert commits[".snapshot"] >= 5
    return app


def moved(app: LocalApplication, path: Path, uri: str, **options: str) -> LocalApplication:
    """The same application on another log, and with stores of its own below a folder."""
    path.mkdir()
    return LocalApplication(path, app.parts, PluginRef("object_store", {"uri": uri, **options}), clean=True)


def goes_on(app: LocalApplication, runs: int) -> None:
    """One more record of each key, which is added to what was there before."""
    before = len(app.read(SUMS))
    for partition in range(PARTITIONS):
        app.append(WORDS, [((f"k{partition}",), (1000,), RECORDS)], partition)
    assert app.run().error is None
    assert len(app.read(SUMS)) == before + PARTITIONS
    whole = RECORDS + runs, sum(range(RECORDS)) + 1000 * runs
    assert last_sums(app) == {f"k{partition}": whole for partition in range(PARTITIONS)}
    assert [damage.what for each in Verification(app.log).run() for damage in each.damages] == []


def upload(folder: Path, server: S3Server, prefix: str) -> None:
    """As `aws s3 cp --recursive` does it: plain puts of all files, in any order."""
    options = server.options
    bucket = S3Store(BUCKET, config={**options}, client_options={"allow_http": True})  # type: ignore[typeddict-item]
    here = LocalStore(folder)
    for page in here.list():
        for each in page:
            bucket.put(f"{prefix}/{each['path']}", bytes(here.get(each["path"]).bytes()))


def test_copy_of_a_log_is_gone_on_with_as_an_object_store_in_its_folder_and_in_a_bucket(
    original: LocalApplication, s3: S3Server, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy_log(original.log, copy)

    in_folder = moved(original, tmp_path / "in-folder", copy.as_uri())
    assert in_folder.read(SUMS) == original.read(SUMS)
    assert in_folder.log.identity() == original.log.identity()
    goes_on(in_folder, 1)

    uri = s3.uri(uuid.uuid4().hex)
    upload(copy, s3, urlsplit(uri).path.strip("/"))
    in_bucket = moved(original, tmp_path / "in-bucket", uri, **s3.options)
    assert in_bucket.read(SUMS) == in_folder.read(SUMS)
    goes_on(in_bucket, 2)


def test_state_of_an_embedded_log_goes_on_with_its_copy_in_a_bucket(
    original: LocalApplication, s3: S3Server, tmp_path: Path
) -> None:
    copy, uri = tmp_path / "copy", s3.uri(uuid.uuid4().hex)
    copy_log(original.log, copy)
    upload(copy, s3, urlsplit(uri).path.strip("/"))
    in_bucket = moved(original, tmp_path / "in-bucket", uri, **s3.options)
    shutil.copytree(original.path / "state", in_bucket.path / "state")
    goes_on(in_bucket, 1)
