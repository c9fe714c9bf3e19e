"""The base class of Headwater's own errors, and errors of the machine: files, disks, memory."""

from __future__ import annotations

import errno
import os

from .readable_text import readable, visible

MOST_SHOWN = 600
"""The most characters of a text in a message."""

INTERRUPTED = 130
"""The exit code of a command ended by Ctrl-C: 128 plus the signal's number, as in any shell."""

_WAYS_OUT = {
    errno.ENOSPC: "make room on that disk and run again",
    errno.EDQUOT: "make room within the quota, or have it raised, and run again",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f) and run again",
    errno.ENAMETOOLONG: "give it a shorter name, or have the log and the state in a folder with a shorter path",
    errno.EACCES: "give this user the right to it, or choose another path",
    errno.EPERM: "give this user the right to it, or choose another path",
    errno.EROFS: "choose a folder that can be written, or mount this one for writing",
    errno.EMFILE: "raise the number of files that a process may open (ulimit -n)",
    errno.ENFILE: "close other programs, or raise the number of files that the system may open",
    errno.EIO: "look at the disk: the log of the system says what is wrong with it",
    errno.ENOMEM: "close other programs or give the machine more memory, or take smaller epochs (`max_bytes` and "
    "`max_records` under `epoch` in the profile)",
    errno.ENOLINK: "mount or make what it leads to, or correct the link",
    errno.ELOOP: "look at the symbolic links in that path: they lead in a circle",
    errno.EILSEQ: "rename it, or have the log and the state elsewhere (`log` and `state_dir` in the profile)",
    errno.EISDIR: "move it away: there is a folder where a file belongs",
    errno.ENOTDIR: "move it away: there is a file where a folder belongs",
    errno.EEXIST: "move it away: something else is in its place",
}
"""What a user can do about OS errors caused by a file, a folder or a disk."""


class HeadwaterError(Exception):
    """An error that a user can act on. `message` says what happened, `hint` how to fix it.

    Only this class and its subclasses are shown as a sentence; any other error is a bug and keeps its stack trace. In
    both texts, values of environment variables that a profile names are hidden, and unreadable characters are escaped.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = readable(message)
        self.hint = None if hint is None else readable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"


class UnavailableError(HeadwaterError):
    """A service outside does not answer. It may be over soon, so a lasting run waits for it."""


class MachineError(HeadwaterError):
    """The operating system rejected an operation on a file or a folder. No record and no project file is the cause.

    `path`: the file or folder, None if the system does not name it. `errno`: the system's error number.
    """

    def __init__(self, path: str | None, number: int | None, reason: str) -> None:
        super().__init__(f"{visible(path)}: {reason}" if path else reason, _WAYS_OUT.get(number or 0))
        self.path = path
        self.errno = number

    @staticmethod
    def explains(error: OSError) -> bool:
        """Whether the cause is a file, a folder or a disk. An ENOENT does not count: it may be a bug of Headwater."""
        return error.errno in _WAYS_OUT

    @classmethod
    def from_error(cls, error: OSError | MemoryError, path: str | os.PathLike[str] | None = None) -> MachineError:
        """The OS error as a MachineError. `path` is used if the error names no file."""
        if isinstance(error, MemoryError):
            detail = f" ({error})" if str(error) else ""
            return cls(None, errno.ENOMEM, f"there is not enough memory{detail}")
        paths = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
        where = " -> ".join(paths) or (None if path is None else os.fspath(path))
        return cls(where, error.errno, error.strerror or str(error) or type(error).__name__)


def shortened(text: str, most: int = MOST_SHOWN) -> str:
    """The text; of a long one its beginning, its end and its length."""
    text = readable(text)  # before it is cut: a part of a hidden value would not be recognised
    if len(text) <= most:
        return text
    return f"{text[: most * 2 // 3]} ... ({len(text):,} characters) ... {text[-most // 3 :]}"
