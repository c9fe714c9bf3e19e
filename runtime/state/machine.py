"""The machine: its current boot, its processes, and the file system of a path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import psutil

from ...errors import HeadwaterError

_NETWORK_FILE_SYSTEMS = (
    frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"})
    | {"nfs3", "nfs4", "ocfs2", "orangefs", "smb", "smb2", "smb3", "smbfs"}
    | {f"fuse.{name}" for name in ("blobfuse", "blobfuse2", "ceph", "gcsfuse", "glusterfs", "goofys", "juicefs")}
    | {f"fuse.{name}" for name in ("rclone", "s3fs", "sshfs")}
)

_STARTED = 22
"""The field of /proc/<pid>/stat with the start time of a process, in clock ticks since the boot: see proc(5)."""


class NetworkFileSystemError(HeadwaterError):
    """A state directory is on a network file system: `path`, `kind`. Memory maps and locks are not consistent there."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(f"state_dir {path} is on a network file system ({kind})", "choose a path on a local disk")
        self.path = path
        self.kind = kind


@cache
def boot_id() -> str:
    """Identifies the current boot of the operating system. After another boot, unsynced writes may be lost."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{int(psutil.boot_time())}"


def started_at(pid: int, *, since_1970: bool = False) -> float | None:
    """The start time of a process, in seconds; None if the process has ended. Pid and start time identify a process.

    On Linux since the boot, because a time since 1970 changes whenever the clock is set. Elsewhere, or if `since_1970`,
    since 1970. A zombie counts as ended: in a container its parent may never collect its exit code.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return _since_boot(pid) if psutil.LINUX and not since_1970 else float(process.create_time())
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None


def _since_boot(pid: int) -> float:
    """The value of /proc. psutil adds the time of the boot to it, which the system derives from the clock."""
    _, _, after_the_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    return int(after_the_name.split()[_STARTED - 3]) / os.sysconf("SC_CLK_TCK")


def mounts() -> list[tuple[str, str]]:
    """Mount point and file system of all mounts."""
    return [(mount.mountpoint, mount.fstype) for mount in psutil.disk_partitions(all=True)]


def file_system(path: Path, mounted: Iterable[tuple[str, str]]) -> str:
    """The file system of `path`; empty if unknown. `mounted`: see `mounts`."""
    within = os.path.join(path.resolve(), "")
    folders = ((os.path.join(point, ""), kind) for point, kind in mounted)
    over = [(len(folder), kind) for folder, kind in folders if within.startswith(folder)]
    # Of two file systems mounted on the same point, the later one is visible.
    return max(reversed(over), key=lambda mount: mount[0])[1] if over else ""


def reject_network_file_system(path: Path, mounted: Iterable[tuple[str, str]] | None = None) -> None:
    """Raise NetworkFileSystemError if `path` is on a network file system."""
    kind = file_system(path, mounts() if mounted is None else mounted)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise NetworkFileSystemError(path, kind)
