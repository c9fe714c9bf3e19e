"""What the copy of a global table was made of, noted beside it: the rows in it do not say.

The table may get another topic, or its topic other columns, while the copy stays. Then the copy is wiped, and loaded
again. Source of the layout: `.<store>.columns` beside the folder of the store, as with the notes of `synced_commit`.
"""

from __future__ import annotations

from pathlib import Path

from ....private_files import make_folder
from ...topology import GlobalTable
from ..whole_files import write_whole
from .directory import StateDirectory


def wipe_other_copy(directory: StateDirectory, path: Path, table: GlobalTable) -> None:
    """Wipe the copy at `path` unless it was made of the table's topic, with the columns of now, and note these. Copies
    without a note are wiped too.

    The note comes last: after a kill in between there is no copy that it could be wrong about. Raises OSError.
    """
    note = path.with_name(f".{path.name}.columns")
    made_of = f"{table.topic.writer or ''} {table.topic.name}: {table.store.key}; {table.store.value}"
    try:
        known = note.read_text("utf-8")
    except FileNotFoundError:
        known = ""
    if known != made_of:
        directory.remove_at(path)
        make_folder(path.parent)
        write_whole(note, made_of)
