"""Loads functions of a project for seeds, by names such as `functions.module:name`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from traceback import extract_tb
from typing import Any

from ...errors import HeadwaterError
from ...plugins.errors import error_text, is_interrupt_or_out_of_memory
from ...plugins.local_modules import import_from
from ..log.errors import SeedError
from ..python_functions.loading import is_versioned


@contextmanager
def project_function(project_dir: Path, reference: str) -> Iterator[tuple[Callable[..., Any], str]]:
    """The function, and a hash of the project's source files that were loaded for it.

    Inside the context the project's modules can be imported, also by the function. Afterwards they are removed from
    `sys.modules`, so that the same process can load another project's `functions`. Raises SeedError.
    """
    module, _, name = reference.partition(":")
    root = module.partition(".")[0]
    others = _take_modules(root)
    path = list(sys.path)
    try:
        try:
            with raising_seed_errors(reference, project_dir):
                loaded = import_from(project_dir, module)
            function = getattr(loaded, name)
        except (ImportError, AttributeError) as error:
            raise SeedError(reference, f"cannot be loaded: {error}") from error
        yield function, _source_hash(project_dir)
    finally:
        sys.path[:] = path
        _take_modules(root)
        sys.modules.update(others)


@contextmanager
def raising_seed_errors(reference: str, project_dir: Path) -> Iterator[None]:
    """Raise errors of the project's code as SeedError, with the line that raised them."""
    try:
        yield
    except (ImportError, HeadwaterError):
        raise
    except BaseException as error:  # SystemExit too: a function may call `sys.exit`
        if isinstance(error, GeneratorExit) or is_interrupt_or_out_of_memory(error):
            raise
        frames = [
            frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(project_dir)
        ]
        location = f"{Path(frames[-1].filename).relative_to(project_dir)}:{frames[-1].lineno}" if frames else None
        raise SeedError(reference, error_text(error), location) from error


def _take_modules(root: str) -> dict[str, Any]:
    names = [name for name in sys.modules if name.partition(".")[0] == root]
    return {name: sys.modules.pop(name) for name in names}


def _source_hash(project_dir: Path) -> str:
    # Modules for functions in flows are loaded by some commands only, and do not affect a seed.
    folder = project_dir.resolve()
    files = {
        _resolved(file)
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None)) is not None and not is_versioned(name)
    }
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_relative_to(folder) and file.suffix == ".py"):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def _resolved(file: str) -> Path:
    """The real path of a module's file, cached: a process has thousands, and they do not move."""
    return Path(file).resolve()
