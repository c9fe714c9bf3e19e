import gc
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from headwater.runtime.ir.functions import PythonCode, PythonFunction
from headwater.runtime.python_functions.errors import FunctionLoadError, FunctionRaisedError
from headwater.runtime.python_functions.loading import load


@dataclass(frozen=True)
class Project:
    """A project's folder with functions."""

    root: Path

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / "functions" / f"{name.replace('__of__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def function(self, name: str) -> PythonFunction:
        code = PythonCode.of_project(self.root, [name.partition(":")[0]])
        return PythonFunction(name, code)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "from functions.words import plain",
        "from .words import plain",
        "from functions import words; plain = words.plain",
        "from . import words; plain = words.plain",
        "import functions.words; plain = functions.words.plain",
        "import functions.words as w; plain = w.plain",
        "from functions.words import *",
        "def plain(text):\n    from functions.words import plain as late\n    return late(text)",
    ],
)
def test_modules_of_functions_import_one_another_as_they_would_in_the_project(project: Project, line: str) -> None:
    project.write(
        words="def plain(text):\n    return text.lower()\n", text=f"{line}\ndef slug(text):\n    return plain(text)\n"
    )
    assert load(project.function("functions.text:slug"))("AB") == "ab"


def test_packages_below_functions_have_modules_of_their_own(project: Project) -> None:
    project.write(
        deep__of__inner="from ..words import plain\nfrom . import here\n",
        deep____of____init__="",
        words="plain = str.upper\n",
    )
    project.write(deep__of__here="x = 1\n")
    assert load(project.function("functions.deep.inner:plain"))("a") == "A"


def test_two_versions_run_in_one_process_without_mixing(project: Project) -> None:
    project.write(words="name = 'first'\n", text="def slug():\n    from functions.words import name\n    return name\n")
    first = project.function("functions.text:slug")
    before = load(first)
    project.write(words="name = 'second'\n")
    second = project.function("functions.text:slug")
    assert (load(second)(), before(), load(first)()) == ("second", "first", "first")
    assert load(first) is before
    assert first.digest != second.digest


def test_only_what_a_function_depends_on_changes_its_digest(project: Project) -> None:
    project.write(words="x = 1\n", other="y = 1\n", text="from .words import x\ndef slug():\n    return x\n")
    before = project.function("functions.text:slug")
    project.write(other="y = 2\n", seed="z = 1\n")
    assert project.function("functions.text:slug").digest == before.digest
    project.write(words="x = 2\n")
    assert project.function("functions.text:slug").digest != before.digest


def test_code_beside_generated_code_is_the_projects(project: Project, tmp_path: Path) -> None:
    project.write(words="x = 1\n", text="from .words import x\n", other="y = 1\n")
    code = project.function("functions.text:x").code
    assert [path for path, _ in code.files] == ["functions/text.py", "functions/words.py"]
    for path, text in code.files:
        place = tmp_path / "target" / "site" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    assert PythonCode.beside(str(tmp_path / "target" / "site" / "job.py")) == code


def test_dataclasses_and_pickled_objects_of_a_module_work(project: Project) -> None:
    project.write(
        rows="from __future__ import annotations\nimport pickle\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Point:\n    x: int\n"
        "def copied(x):\n    return pickle.loads(pickle.dumps(Point(x)))\n"
    )
    assert load(project.function("functions.rows:copied"))(3).x == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere\n", "ModuleNotFoundError: No module named 'nowhere'\n  functions/text.py:1: import nowhere"),
        ("from functions.no import x\n", "No module named 'functions.no'\n  functions/text.py:1: from functions.no"),
        ("x = 1\nraise SystemExit(3)\n", "SystemExit: 3\n  functions/text.py:2: raise SystemExit(3)"),
        ("x = (\n", "SyntaxError: '(' was never closed\n  functions/text.py:1: x = ("),
        ("def slog(): ...\n", "functions.text:slug does not exist: its module has no 'slug'"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_told_with_its_line(project: Project, text: str, said: str) -> None:
    project.write(text=text)
    for _ in range(2):  # nothing half made is left
        with pytest.raises(FunctionLoadError) as caught:
            load(project.function("functions.text:slug"))
        assert said in caught.value.message


def test_an_error_shows_the_lines_of_the_projects_files_and_no_others(project: Project) -> None:
    project.write(
        text="import json\nfrom .words import each\ndef slug(text):\n    return each(text)\n",
        words="import json\ndef each(text):\n    return json.loads(text)\n",
    )
    function = project.function("functions.text:slug")
    with pytest.raises(ValueError, match="Expecting") as caught:
        load(function)("{")
    assert FunctionRaisedError(function, caught.value).message == (
        "functions.text:slug raised JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)\n"
        "  functions/text.py:4, in slug: return each(text)\n"
        "  functions/words.py:3, in each: return json.loads(text)"
    )


def test_process_that_a_function_has_forked_may_end_itself(project: Project) -> None:
    project.write(
        text="""
import os


def status():
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    )
    assert load(project.function("functions.text:status"))() == 7


def test_other_code_may_end_its_process_where_functions_are_loaded(project: Project) -> None:
    project.write(text="def slug():\n    return 1\n")
    function = project.function("functions.text:slug")
    child = os.fork()
    if child == 0:
        load(function)()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("start", ["import os; end = os._exit", "from os import _exit as end"])
def test_module_that_ends_its_process_as_it_is_imported_is_an_error(project: Project, start: str) -> None:
    project.write(text=f"{start}\nend(0)\n")
    with pytest.raises(FunctionLoadError, match=r"ProcessExitError: os._exit\(0\) would end the whole process"):
        load(project.function("functions.text:slug"))


def test_threads_compute_digests_at_the_same_time() -> None:
    """Python before 3.11.8 cannot parse in two threads that take turns when garbage is collected."""
    text = "import functions.other\n" + "".join(f"x{n} = [{n}]\n" for n in range(50))
    code = PythonCode((("functions/own.py", text), ("functions/other.py", "")))

    def switch_threads(*_: object) -> None:
        os.stat(os.devnull)

    collected = gc.get_threshold()
    gc.callbacks.append(switch_threads)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            digests = set(threads.map(lambda _: code.digest_of("functions.own"), range(40)))
    finally:
        gc.set_threshold(*collected)
        gc.callbacks.remove(switch_threads)
    assert len(digests) == 1
