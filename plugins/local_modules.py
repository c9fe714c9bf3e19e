"""Imports a project's own Python modules, by their dotted names below the project's folder."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

PROJECT_FILE = "headwater.yml"


def import_from(directory: Path, name: str) -> ModuleType:
    """The module `name` of the project in `directory`, or of the environment if the project has none.

    The project's folder comes last on `sys.path` and stays there, so that no file of it takes the place of a package
    that somebody else imports. If this process has imported modules of another project under the same top-level name,
    they are removed: every project may have a `functions`. Raises ImportError if the top-level name is taken by a
    module that is not a project's.
    """
    root = directory.resolve()
    add_last(root)
    importlib.invalidate_caches()
    top = name.partition(".")[0]
    own = PathFinder.find_spec(top, [str(root)])
    if own is not None and not _is_below(sys.modules.get(top), root):
        _forget_another_projects(top)
        _load(own, root)
    return importlib.import_module(name)


def add_last(root: Path) -> None:
    """Have modules in a project's folder be found after all others, but before those of another project."""
    if str(root) in sys.path and not _is_project(sys.path[-1]):  # who runs this process has put it there
        return
    paths = [path for path in sys.path if path != str(root)]
    at = len(paths)
    while at and _is_project(paths[at - 1]):
        at -= 1
    sys.path[:] = [*paths[:at], str(root), *paths[at:]]


def _is_project(path: str) -> bool:
    return Path(path, PROJECT_FILE).exists()


def _load(spec: ModuleSpec, root: Path) -> None:
    """Import a top-level module from its own place: by name, another one on `sys.path` could be found first."""
    module = sys.modules[spec.name] = module_from_spec(spec)
    if spec.loader is None:
        module.__path__ = [str(root / spec.name)]
    else:
        spec.loader.exec_module(module)


def _forget_another_projects(top: str) -> None:
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        places = _places(sys.modules[name])
        if not any((folder / PROJECT_FILE).exists() for place in places for folder in place.parents):
            raise ImportError(f"{top} is a module of {places[0] if places else 'Python'} already; rename the project's")
        del sys.modules[name]


def _is_below(module: ModuleType | None, root: Path) -> bool:
    return module is not None and any(place.is_relative_to(root) for place in _places(module))


def _places(module: ModuleType) -> list[Path]:
    """The module's file, or the folders of a package without a file."""
    file = getattr(module, "__file__", None)
    return [Path(place).resolve() for place in ([file] if file else getattr(module, "__path__", ()))]
