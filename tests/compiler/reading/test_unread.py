"""What a project holds that nothing reads is told once, and what may be read is not."""

from __future__ import annotations

import pytest

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.reading.load import load_project

TOPIC = "topics:\n  a:\n    partitions: 1\n    value: {n: int}\n"
SEEDED = TOPIC + "    seed: {path: seeds/a.csv}\n"
TESTS = (
    "tests:\n  - test: x\n    topology: y\n    given:\n      - topic: a\n        file: tests/rows.csv\n    expect: []\n"
)


def told(root, **options):
    diagnostics = Diagnostics()
    load_project(root, diagnostics, **{"environment": {}} | options)
    return [(found.code, str(found.position), found.hint) for found in diagnostics]


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("topics/b.yml.bak", "Give it a name that ends in .yml, or move it elsewhere."),
        ("topics/deep/b.json", "Give it a name that ends in .yml, or move it elsewhere."),
        ("topologies/b.txt", "Give it a name that ends in .yml, or move it elsewhere."),
        (
            "tests/rows2.csv",
            "Tests are in files that end in .yml; name it as the `file` of a test, or move it elsewhere.",
        ),
        ("seeds/b.csv", "Name it as the `seed` of a topic, or move it elsewhere."),
        ("functions/b.py", "Use one of its functions, import it in a module that is used, or move it elsewhere."),
        ("functions/b.PY", "Use one of its functions, import it in a module that is used, or move it elsewhere."),
        ("profile.yml", "Did you mean 'profiles.yml'?"),
        ("Profiles.YML", "Did you mean 'profiles.yml'?"),
        ("headwater.yml.old", None),
        ("topics.yml", "Move it into the folder 'topics'."),
        ("topology.yaml", "Move it into the folder 'topologies'."),
        ("topic/b.yml", "Did you mean 'topics'?"),
        ("topology/b.yml", "Did you mean 'topologies'?"),
        ("Tests/b.YML", "Did you mean 'tests'?"),
    ],
)
def test_file_that_nothing_reads_is_told_with_a_way_out(project, file, hint):
    root = project({"topics/a.yml": SEEDED, "seeds/a.csv": "n\n", "tests/a.yml": TESTS, "tests/rows.csv": "n\n"})
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text("1\n")

    place = file.rpartition("/")[0] if file.startswith(("topic/", "topology/", "Tests/")) else file
    assert told(root) == ([] if hint is None else [("HW037", f"{place}:1:1", hint)])


@pytest.mark.parametrize(
    "file",
    [
        "topics/README.md",
        "topics/.gitkeep",
        "topics/a.yml~",
        "topics/b.YML",
        "tests/conftest.py",
        "tests/deep/b.yaml",
        "tests/__pycache__/conftest.cpython-311.pyc",
        "functions/__init__.py",
        "functions/words.txt",
        "functions/shared.py",
        "docker-compose.yml",
        "test/data.json",
        "profiles.example.yml",
        "plan.json",
    ],
)
def test_file_that_is_read_or_is_for_others_is_not_told(project, file):
    used = "from functions import shared\nWORDS = open('functions/words.txt')\ndef rows(): return []\n"
    root = project(
        {"topics/a.yml": TOPIC + "    seed: {function: 'functions.seeds:rows'}\n", "functions/seeds.py": used}
    )
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(TOPIC.replace("a:", "other:") if file == "topics/b.YML" else "tests: []\n")

    assert told(root) == []


def test_files_of_a_folder_are_told_once(project):
    root = project({"topics/a.yml": TOPIC} | {f"seeds/{number}.csv": "" for number in range(9)})
    diagnostics = Diagnostics()
    load_project(root, diagnostics, environment={})

    (found,) = diagnostics
    assert str(found.position) == "seeds/0.csv:1:1"
    assert found.message == ("Nothing reads this file, and none of 8 more in seeds, such as 1.csv.")


def test_missing_seed_has_one_finding_not_also_the_file_that_was_meant(project):
    root = project({"topics/a.yml": SEEDED, "seeds/a.cvs": "n\n"})

    assert [code for code, *_ in told(root)] == ["HW027"]


def test_missing_profile_has_one_finding_with_the_file_that_was_meant(project):
    root = project({})
    (root / "profiles.yml").rename(root / "profile.yml")

    assert told(root) == [("HW001", "profiles.yml:1:1", "Did you mean 'profile.yml'?")]


def test_declared_variable_that_nothing_uses_is_told_with_the_one_that_may_be_meant(project):
    declared = 'name: example\nversion: "1.0"\nvars:\n  used: 1\n  tested: 1\n  smallest: 1\n  other: 1\n'
    steps = "topology: y\nflows:\n  f:\n    from: a\n    steps:\n"
    filters = "      - filter: n > {{ var('used') }}\n      - filter: n > {{ var('smalest', 4) }}\n"
    root = project(
        {
            "headwater.yml": declared,
            "topics/a.yml": TOPIC,
            "topologies/y.yml": steps + filters,
            "tests/y.yml": "tests:\n  - {test: \"{{ var('tested') }}\", topology: y, given: [], expect: []}\n",
        }
    )

    assert told(root) == [
        ("HW035", "headwater.yml:6:3", "Did you mean 'smalest'?"),
        ("HW035", "headwater.yml:7:3", "Remove it, or use it: {{ var('name') }}."),
    ]
    assert told(root, vars={"tested": 2})[0][1] != "--vars"


def test_environment_variable_that_looks_like_one_of_headwater_is_told(project):
    root = project({"topics/a.yml": TOPIC, "functions/f.py": "import os\nos.environ['HEADWATER_OURS']\n"})
    profiles = root / "profiles.yml"
    profiles.write_text(profiles.read_text().replace("clients: 4", "state_dir: \"{{ env_var('HEADWATER_DISK') }}\""))
    names = ("DISK", "OURS", "PROJECT_DIR", "SPARK_LOG", "SPARKLOG", "PROFILE", "SOMETHING_ELSE")
    found = told(root, environment={f"HEADWATER_{name}": "x" for name in names})

    assert [each for each in found if each[0] == "HW038"] == [
        ("HW038", "HEADWATER_PROFILE", "Use the option --profile."),
        ("HW038", "HEADWATER_SOMETHING_ELSE", "There are HEADWATER_PROJECT_DIR and HEADWATER_SPARK_LOG."),
        ("HW038", "HEADWATER_SPARKLOG", "Did you mean 'HEADWATER_SPARK_LOG'?"),
    ]
