"""The schemas of a project's files as editors need them: they see the files before Jinja is rendered.

`schemas/*.json` say what a file is once it is rendered. Here each value may also be a text with Jinja in it. The files
are written to `target/`, where the first line of each of a project's files names its schema.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from ... import schemas
from ...private_files import make_folder

FILES = ("project", "profiles", "topics", "topology", "tests")
"""The schemas of the files that people write."""

FOLDER = ".schemas"
"""Where they are in `target/`. No topology has this name."""

_JINJA = {"type": "string", "pattern": r"\{[{%]"}
_SHOWN = ("title", "description")


def editor_schema(name: str) -> dict[str, Any]:
    """The schema of a kind of file, with Jinja where the compiler takes it: in every value, in no key."""
    content = json.loads(resources.files(schemas).joinpath(f"{name}.json").read_text(encoding="utf-8"))
    with_jinja: dict[str, Any] = _within(content)
    return with_jinja | {"definitions": with_jinja["definitions"] | {"jinja": _JINJA}}


def editor_schemas() -> dict[str, str]:
    """The text of each file, by its name."""
    return {f"{name}.json": json.dumps(editor_schema(name), indent=2) + "\n" for name in FILES}


def write_editor_schemas(target: Path) -> None:
    """Write the schemas below the folder of generated files. What has this content already is not written."""
    folder = target / FOLDER
    make_folder(target)
    make_folder(folder)
    for name, text in editor_schemas().items():
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text:
            (folder / name).write_text(text, "utf-8")


def _within(schema: Any) -> Any:
    """A schema with Jinja in the values that it holds."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key, part in schema.items():
        match key:
            case "properties":
                made[key] = {name: _value(each) for name, each in part.items()}
            case "additionalProperties" | "items":
                made[key] = _value(part)
            case "definitions":
                made[key] = {name: _within(each) for name, each in part.items()}
            case "then" | "else":
                made[key] = _within(part)
    return made


def _value(schema: Any) -> Any:
    """The schema of a value that may be written with Jinja."""
    if not isinstance(schema, dict):
        return schema
    shown = {key: schema[key] for key in _SHOWN if key in schema}
    return {**shown, "if": {"$ref": "#/definitions/jinja"}, "then": {}, "else": _within(schema)}
