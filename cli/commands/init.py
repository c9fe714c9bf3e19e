"""`headwater init`: makes a small project to start from."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from ...errors import HeadwaterError
from ..options import NoProjectError, find_project
from ..printing.terminal import WARNING, say, tell

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEPT = {"README.md", ".gitignore"}
"""Files that a new repository often has. They are not overwritten."""


@click.command()
@click.argument("name", required=False)
@click.option(
    "--project-dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to put it (a folder of the project's name, if not given).",
)
def command(name: str | None, directory: Path | None) -> None:
    """Start a project that builds at once.

    NAME is its name and its folder. Without NAME the project is made in this folder. It has a topic with a seed and one
    topology.
    """
    root = directory or Path(name or ".")
    name = name or re.sub(r"\W", "_", root.resolve().name, flags=re.ASCII)
    if not _NAME.fullmatch(name):
        raise click.BadParameter("use letters, digits and _, not starting with a digit", param_hint="NAME")
    scaffold = files("headwater.templates") / "init"
    texts = dict(_texts(scaffold, name))
    kept = {target for target in _KEPT & texts.keys() if (root / target).exists()}
    present = sorted(target for target in texts.keys() - kept if (root / target).exists())
    if present:
        raise HeadwaterError(f"{root / present[0]} is there already", "choose another folder; nothing was written")
    with suppress(NoProjectError):
        around = find_project(root.resolve().parent)
        message = f"{root} lies inside the project {around}: a command in one of them does not know of the other"
        say(WARNING, message, err=True)
    for target, text in texts.items():
        path = root / target
        if target in kept:
            tell(f"  {path}: yours, kept as it is")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        tell(f"  {path}")
    from ...compiler.emit.target import write_editor_schemas

    write_editor_schemas(root / "target")
    if ".gitignore" in kept:
        tell(f"Add to {root / '.gitignore'}: {' '.join(texts['.gitignore'].split())}")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    tell(f"Project {name} is ready: {enter}headwater build")


def _texts(folder: Traversable, name: str, below: str = "") -> list[tuple[str, str]]:
    """Each file of the scaffold: its path in the project and its text. `.j2` files hold the project's name."""
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _texts(entry, name, f"{below}{entry.name}/")
            continue
        text = entry.read_text("utf-8")
        if entry.name.endswith(".j2"):
            text = text.replace("{{ name }}", name)
        target = ".gitignore" if entry.name == "gitignore" else entry.name.removesuffix(".j2")
        found.append((below + target, text))
    return found
