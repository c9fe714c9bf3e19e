"""`headwater init`: creates a small project to start from."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from ...errors import HeadwaterError
from ..options import NoProjectError, find_project
from ..printing.terminal import WARNING, print_line, print_styled

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_KEPT = {"README.md", ".gitignore"}
"""Files that a new repository often has already. They are kept."""


@click.command()
@click.argument("name", required=False)
@click.option(
    "--project-dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The project's folder; default: a folder of the project's name.",
)
def command(name: str | None, directory: Path | None) -> None:
    """Start a project that builds at once.

    NAME is its name and its folder. Without NAME the project is created in this folder. It has a seeded topic and one
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
        raise HeadwaterError(f"{root / present[0]} exists already", "choose another folder; nothing was written")
    with suppress(NoProjectError):
        around = find_project(root.resolve().parent)
        message = f"{root} lies inside the project {around}: commands use one of the two, the nearest"
        print_styled(WARNING, message, err=True)
    for target, text in texts.items():
        path = root / target
        if target in kept:
            print_line(f"  {path}: exists, kept")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print_line(f"  {path}")
    from ...compiler.emit.target import write_editor_schemas

    write_editor_schemas(root / "target")
    if ".gitignore" in kept:
        print_line(f"Add to {root / '.gitignore'}: {' '.join(texts['.gitignore'].split())}")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    print_line(f"Project {name} is ready: {enter}headwater build")


def _texts(folder: Traversable, name: str, below: str = "") -> list[tuple[str, str]]:
    """The path in the project and the text of each file of the scaffold. `.j2` files contain the project's name."""
    texts = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            texts += _texts(entry, name, f"{below}{entry.name}/")
            continue
        text = entry.read_text("utf-8")
        if entry.name.endswith(".j2"):
            text = text.replace("{{ name }}", name)
        target = ".gitignore" if entry.name == "gitignore" else entry.name.removesuffix(".j2")
        texts.append((below + target, text))
    return texts
