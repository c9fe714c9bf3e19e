from __future__ import annotations

import os

import pytest

from headwater.compiler.diagnostics import Diagnostics, Position
from headwater.compiler.reading.load import load_project
from headwater.compiler.reading.source import MappingNode, ScalarNode, SequenceNode

TOPIC = "topics:\n  {name}:\n    partitions: 1\n    value: {{a: int}}\n"
TOPOLOGY = "topology: {name}\nflows:\n  f:\n    from: t\n"


def load(root, **options):
    diagnostics = Diagnostics()
    return load_project(root, diagnostics, **options), [(found.code, str(found.position)) for found in diagnostics]


def test_project_is_loaded_with_its_topics_and_topologies_in_order_of_files(project):
    root = project(
        {
            "topics/b.yml": TOPIC.format(name="one"),
            "topics/a.yaml": TOPIC.format(name="two"),
            "topics/deeper/c.yml": TOPIC.format(name="three"),
            "topics/notes.md": "not yaml: [",
            "topics/CAPITALS.YML": TOPIC.format(name="four"),
            "topics/.hidden.yml": "not yaml: [",
            "topologies/x.yml": TOPOLOGY.format(name="x"),
        }
    )
    loaded, found = load(root)
    assert found == []
    assert (loaded.name, loaded.version) == ("example", "1.0")
    assert [(topic.name.text, topic.file) for topic in loaded.topics] == [
        ("four", "topics/CAPITALS.YML"),
        ("two", "topics/a.yaml"),
        ("one", "topics/b.yml"),
        ("three", "topics/deeper/c.yml"),
    ]
    assert [(topology.name.text, topology.file) for topology in loaded.topologies] == [("x", "topologies/x.yml")]
    assert set(loaded.sources) == {
        "headwater.yml",
        "profiles.yml",
        "topics/CAPITALS.YML",
        "topics/a.yaml",
        "topics/b.yml",
        "topics/deeper/c.yml",
        "topologies/x.yml",
    }


def test_variables_of_the_command_line_go_before_those_of_the_project(project):
    root = project(
        {
            "headwater.yml": 'name: example\nversion: "1.0"\nvars: {late: 15, far: 100}\n',
            "topologies/x.yml": TOPOLOGY.format(name="x") + "    steps: [{filter: \"a > {{ var('late') }}\"}]\n",
            "topologies/y.yml": TOPOLOGY.format(name="\"y{{ var('far') }}\""),
        }
    )
    loaded, found = load(root, vars={"late": 30})
    assert found == []
    assert dict(loaded.vars) == {"late": 30, "far": 100}
    steps = loaded.topologies[0].node["flows"]["f"]["steps"]
    assert steps[0]["filter"].text == "a > 30"


def test_project_file_sees_the_command_line_only(project):
    text = 'name: example\nversion: "7"\nvars: {a: "{{ var(\'b\', 1) }}", b: 2}\n'
    loaded, found = load(project({"headwater.yml": text}), environment={"a": "3"})
    assert found == [("HW035", "headwater.yml:3:8")]  # nothing uses it
    assert loaded.version == "7"
    assert dict(loaded.vars) == {"a": 1, "b": 2}


def test_default_target_of_the_profile_of_the_projects_name_is_chosen(project):
    loaded, found = load(project({}))
    assert found == []
    assert (loaded.profile_name, loaded.target_name) == ("example", "local")
    assert loaded.target.to_python() == {"clients": 1}


def test_target_of_the_command_line_goes_before_the_default(project):
    loaded, found = load(project({}), target="large")
    assert found == []
    assert (loaded.target_name, loaded.target.to_python()) == ("large", {"clients": 4})


def test_target_that_is_not_chosen_is_checked_but_not_rendered(project):
    profiles = """\
        example:
          target: "{{ env_var('TARGET') }}"
          targets:
            local: {state_dir: "{{ env_var('HOME') }}/state"}
            production: {clients: "{{ env_var('CLIENTS') | int }}", state_dir: "{{ env_var('DISK') }}", log: 1}
        other:
          target: "{{ env_var('OTHER') }}"
          targets: {a: {}}
        """
    root = project({"profiles.yml": profiles})
    loaded, found = load(root, environment={"TARGET": "local", "HOME": "/home"})
    assert found == [("HW203", "profiles.yml:5:102")]
    assert loaded.target.to_python() == {"state_dir": "/home/state"}
    _, found = load(root, target="production", environment={"TARGET": "local", "DISK": "/disk"})
    assert [code for code, _ in found] == ["HW103", "HW203"]


@pytest.mark.parametrize(
    ("options", "found"),
    [({"target": "larg"}, ("HW009", "--target")), ({"profile": "other"}, ("HW008", "--profile"))],
)
def test_unknown_choice_of_the_command_line_is_reported_at_its_option(project, options, found):
    loaded, all_found = load(project({}), **options)
    assert all_found == [found]
    assert loaded.target is None


def test_step_that_is_a_bare_word_becomes_a_mapping(project):
    root = project(
        {"topologies/x.yml": TOPOLOGY.format(name="x") + "    steps:\n      - to_table\n      - to_stream:\n"}
    )
    loaded, found = load(root)
    assert found == []
    steps = loaded.topologies[0].node["flows"]["f"]["steps"]
    assert isinstance(steps, SequenceNode)
    assert [list(step) for step in steps] == [["to_table"], ["to_stream"]]
    assert isinstance(steps[0], MappingNode)
    assert steps[0].key_position("to_table") == Position("topologies/x.yml", 6, 9, 17)
    assert isinstance(steps[0]["to_table"], ScalarNode)
    assert steps[0]["to_table"].value is None


def test_without_project_file_the_yaml_of_the_others_is_still_read(project):
    loaded, found = load(project({"headwater.yml": None, "topics/a.yml": "a: yes\n"}))
    assert [code for code, _ in found] == ["HW001", "HW013"]
    assert (loaded.name, loaded.topics, loaded.target) == ("", (), None)


def test_file_that_does_not_parse_leaves_the_others(project):
    loaded, found = load(project({"topics/a.yml": "a: [", "topics/b.yml": TOPIC.format(name="b")}))
    assert [code for code, _ in found] == ["HW010"]
    assert [topic.name.text for topic in loaded.topics] == ["b"]


def test_topology_of_a_name_that_is_taken_is_left_out(project):
    files = {"topologies/a.yml": TOPOLOGY.format(name="x"), "topologies/b.yml": TOPOLOGY.format(name="x")}
    loaded, found = load(project(files))
    assert found == [("HW026", "topologies/b.yml:1:11")]
    assert [topology.file for topology in loaded.topologies] == ["topologies/a.yml"]


def test_byte_order_mark_is_no_part_of_the_text(project):
    root = project({})
    (root / "headwater.yml").write_bytes('\ufeffname: example\nversion: "1.0"\n'.encode())
    loaded, found = load(root)
    assert found == []
    assert loaded.name == "example"


@pytest.mark.parametrize("name", ["topics/a.yml", "headwater.yml"])
def test_symbolic_link_within_the_project_is_followed_and_one_out_of_it_refused(project, tmp_path, name):
    root = project({"topics/.real": TOPIC.format(name="a"), "headwater.txt": 'name: example\nversion: "1.0"\n'})
    outside = tmp_path / "outside.yml"
    outside.write_text("password: 1\n")
    inside = root / ("topics/.real" if name.startswith("topics") else "headwater.txt")
    for target, codes in ((inside, []), (outside, ["HW002"])):
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(target)
        loaded, found = load(root)
        assert [code for code, _ in found] == codes
        assert (name in loaded.sources) == (codes == [])


def test_folder_that_is_a_symbolic_link_is_refused(project, tmp_path):
    root = project({"topics/a.yml": TOPIC.format(name="a")})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.yml").write_text(TOPIC.format(name="b"))
    (root / "topics" / "linked").symlink_to(outside)
    (root / "topologies").symlink_to(outside)
    loaded, found = load(root)
    assert found == [("HW002", "topics/linked:1:1"), ("HW002", "topologies:1:1")]
    assert [topic.name.text for topic in loaded.topics] == ["a"]


def test_link_to_itself_is_refused(project):
    root = project({})
    (root / "topics").mkdir()
    (root / "topics" / "a.yml").symlink_to("a.yml")
    _, found = load(root)
    assert found == [("HW002", "topics/a.yml:1:1")]


@pytest.mark.parametrize("path", ["../x.csv", "/etc/passwd", "seeds/../../x.csv", "linked/x.csv"])
def test_seed_out_of_the_project_is_refused(project, tmp_path, path):
    root = project({"topics/a.yml": TOPIC.format(name="a") + f"    seed: {{path: {path}}}\n"})
    (root / "linked").symlink_to(tmp_path)
    _, found = load(root)
    assert [code for code, _ in found] == ["HW002"]


def test_seed_within_the_project_is_taken(project):
    root = project({"topics/a.yml": TOPIC.format(name="a") + "    seed: {path: seeds/../seeds/x.csv}\n"})
    (root / "seeds").mkdir()
    (root / "seeds" / "x.csv").touch()
    assert load(root)[1] == []


@pytest.mark.parametrize("path", ["x.csv", "no/folder/x.csv", '"topics/a.yml/x.csv"', "x" * 5_000])
def test_seed_that_is_not_there_is_a_warning(project, path):
    root = project({"topics/a.yml": TOPIC.format(name="a") + f"    seed: {{path: {path}}}\n"})
    assert [code for code, _ in load(root)[1]] == ["HW027"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission_is_reported(project):
    root = project({"topics/a.yml": TOPIC.format(name="a")})
    (root / "topics" / "a.yml").chmod(0)
    assert [code for code, _ in load(root)[1]] == ["HW006"]


def test_files_that_are_too_large_together_are_refused(project):
    root = project({})
    (root / "topics").mkdir()
    for number in range(12):
        (root / "topics" / f"{number:02}.yml").write_text("# " + "x" * 1_900_000 + f"\ntopics: {{t{number}: 1}}\n")
    found = load(root)[1]
    assert [code for code, place in found if place.startswith("topics/10")] == ["HW003"]
    assert [code for code, place in found if place.startswith("topics/09")] == ["HW203"]
