"""Imports a project's own Python modules by their dotted names below the project's folder."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

PROJECT_FILE = "headwater.yml"


def import_from(directory: Path, name: str) -> ModuleType:
    """The module `name` of the project in `directory`, or of the environment if the project has no such module.

    The project's folder is added at the end of `sys.path` and stays there, so that its files never shadow installed
    packages. Modules of another project with the same top-level name are removed from this process first: every project
    may have a package `functions`. Raises ImportError if a module outside of all projects has the top-level name.
    """
    root = directory.resolve()
    add_last(root)
    importlib.invalidate_caches()
    top = name.partition(".")[0]
    own = PathFinder.find_spec(top, [str(root)])
    if own is not None and not _is_below(sys.modules.get(top), root):
        _unload_other_project(top)
        _load(own, root)
    return importlib.import_module(name)


def add_last(root: Path) -> None:
    """Put a project's folder on `sys.path` after everything else, but before the folders of other projects."""
    if str(root) in sys.path and not _is_project(sys.path[-1]):  # the user of this process has put it there
        return
    paths = [path for path in sys.path if path != str(root)]
    at = len(paths)
    while at and _is_project(paths[at - 1]):
        at -= 1
    sys.path[:] = [*paths[:at], str(root), *paths[at:]]


def _is_project(path: str) -> bool:
    return Path(path, PROJECT_FILE).exists()


def _load(spec: ModuleSpec, root: Path) -> None:
    """Import a top-level module from its own file: by name, Python could find another one on `sys.path` first."""
    module = sys.modules[spec.name] = module_from_spec(spec)
    if spec.loader is None:
        module.__path__ = [str(root / spec.name)]
    else:
        spec.loader.exec_module(module)


def _unload_other_project(top: str) -> None:
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        paths = _paths(sys.modules[name])
        if not any((folder / PROJECT_FILE).exists() for path in paths for folder in path.parents):
            raise ImportError(f"{top} is already a module of {paths[0] if paths else 'Python'}; rename the project's")
        del sys.modules[name]


def _is_below(module: ModuleType | None, root: Path) -> bool:
    return module is not None and any(path.is_relative_to(root) for path in _paths(module))


def _paths(module: ModuleType) -> list[Path]:
    """The module's file, or the folders of a package without a file."""
    file = getattr(module, "__file__", None)
    return [Path(path).resolve() for path in ([file] if file else getattr(module, "__path__", ()))]
