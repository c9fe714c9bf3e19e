from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.runtime.state.machine import (
    NetworkFileSystemError,
    boot_id,
    file_system,
    reject_network_file_system,
    started_at,
)

MOUNTED = [("/", "ext4"), ("/mnt", "ext4"), ("/mnt/share", "nfs4"), ("/mnt/share/disk", "xfs"), ("/mnt", "overlay")]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv", "ext4"),
        ("/mnt/other", "overlay"),
        ("/mnt/shared", "overlay"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/a/b", "nfs4"),
        ("/mnt/share/disk/a", "xfs"),
    ],
)
def test_path_lies_on_the_deepest_and_latest_mount_over_it(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTED) == kind


def test_state_on_a_network_file_system_is_refused_with_its_kind() -> None:
    with pytest.raises(NetworkFileSystemError, match=r"/mnt/share/state.*nfs4.*local disk"):
        reject_network_file_system(Path("/mnt/share/state"), MOUNTED)


def test_state_on_a_local_disk_is_taken(tmp_path: Path) -> None:
    reject_network_file_system(Path("/mnt/share/disk"), MOUNTED)
    reject_network_file_system(tmp_path)


def test_boot_id_stays_and_is_not_empty() -> None:
    assert boot_id() == boot_id() != ""


def test_start_of_a_process_is_known_while_it_lives() -> None:
    assert started_at(os.getpid()) is not None
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert started_at(child) is None
