"""Checks the modules that `plugins:` of headwater.yml names: they exist, are Python, and can be imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from collections.abc import Mapping as AbstractMapping
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path

from ...unusable_paths import leaves
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..language.python_functions import report_outside
from ..reading.nodes import Node, Scalar, Sequence

_MOST_BYTES = 500_000
"""A longer module is data written by a program; only the import checks it."""

_WAY_OUT = "Fix it there, or leave the plugin out with -p no:<name>."


def check_modules(
    plugins: Node | None,
    root: Path,
    without: Collection[str],
    failures: Callable[[], AbstractMapping[str, str]] | None,
    diagnostics: Diagnostics,
) -> bool:
    """Report modules that are missing or are no Python and, with `failures`, those that cannot be imported.

    `without`: modules that are left out. Returns whether all are fine. Without `failures` nothing is imported.
    """
    items = plugins.items if isinstance(plugins, Sequence) else ()
    named = [each for each in items if isinstance(each, Scalar) and isinstance(each.value, str)]
    named = [each for each in named if each.text not in without]
    faulty = [each for each in named if not _is_python(each, root, diagnostics)]
    if faulty:
        return False
    failed = failures() if failures is not None and named else {}
    for each in named:
        if each.text in failed:
            message = f"The module '{each.text}' cannot be imported: {failed[each.text]}."
            diagnostics.add("HW604", each.position, message, _WAY_OUT)
    return not failed


def check_left_out(plugins: Node | None, without: Collection[str], diagnostics: Diagnostics) -> None:
    """Report plugins that the command line leaves out, and that nobody would have used."""
    if not without:
        return
    from ...plugins.manager import BUILTINS, ENTRY_POINTS

    items = plugins.items if isinstance(plugins, Sequence) else ()
    known = [*BUILTINS, *(each.name for each in entry_points(group=ENTRY_POINTS))]
    known += [each.text for each in items if isinstance(each, Scalar)]
    for name in without:
        if name not in known:
            hint = did_you_mean(name, known) or "Leave the option out."
            diagnostics.add("HW040", Position.option("-p"), f"There is no plugin '{name}' to leave out.", hint)


def _is_python(module: Scalar, root: Path, diagnostics: Diagnostics) -> bool:
    """Whether a module of the project parses; reports it if not. Installed modules and packages without a file pass."""
    place = root.joinpath(*module.text.split("."))
    file = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
    if file is None:
        top = module.text.partition(".")[0]
        own = (root / top).is_dir() or (root / f"{top}.py").is_file()
        if place.is_dir() or (not own and PathFinder.find_spec(top) is not None):
            return True
        known = [".".join(path.relative_to(root).with_suffix("").parts) for path in sorted(root.glob("*/*.py"))]
        hint = did_you_mean(module.text, known) or "Modules have dotted names: plugins.mine is plugins/mine.py."
        diagnostics.add("HW603", module.position, f"There is no module '{module.text}'.", hint)
        return False
    if leaves(root, file):
        report_outside(file.relative_to(root).as_posix(), module.position, diagnostics)
        return False
    try:
        if file.stat().st_size <= _MOST_BYTES:
            ast.parse(file.read_bytes(), file.relative_to(root).as_posix())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason: object = error
        if isinstance(error, SyntaxError):
            reason = f"{error.msg} ({error.filename}:{error.lineno})"
        message = f"The module '{module.text}' cannot be read as Python: {reason}."
        diagnostics.add("HW604", module.position, message, _WAY_OUT)
        return False
    return True
