from __future__ import annotations

import json
from importlib import resources
from itertools import combinations
from typing import Any

import jsonschema
import pytest

SCHEMAS = {
    path.name.removesuffix(".json"): json.loads(path.read_text(encoding="utf-8"))
    for path in resources.files("headwater.schemas").iterdir()
    if path.name.endswith(".json")
}
LANGUAGE = ("project", "profiles", "topics", "topology", "tests")


def objects(schema: Any) -> Any:
    """All schemas in a schema that describe mappings with fixed keys."""
    if isinstance(schema, dict):
        if "properties" in schema and "const" not in str(schema["properties"].get("type", "")):
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def test_all_files_and_artifacts_have_a_schema():
    of_the_log = {"log_cleaning", "log_contents", "log_repair", "log_verification"}
    assert set(SCHEMAS) == {
        *LANGUAGE,
        *of_the_log,
        "manifest",
        "plan",
        "removal",
        "run_results",
        "store_reset",
        "tasks",
        "test_results",
    }


def test_results_of_a_run_show_clients_as_tasks_does():
    shared = ("client", "epochs", "task", "counts", "store")
    tasks, results = (SCHEMAS[name]["definitions"] for name in ("tasks", "run_results"))
    assert {name: tasks[name] for name in shared} == {name: results[name] for name in shared}


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_is_draft_7_and_has_an_id(name):
    jsonschema.Draft7Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "http://json-schema.org/draft-07/schema#"
    # A name beside the file itself: editors resolve it wherever the file is.
    assert SCHEMAS[name]["$id"] == (f"{name}.json" if name in LANGUAGE else f"urn:headwater:schema:{name}")


@pytest.mark.parametrize("name", LANGUAGE)
def test_every_object_refuses_unknown_keys_and_takes_the_free_ones(name):
    closed = [schema for schema in objects(SCHEMAS[name]) if schema.get("additionalProperties") is False]
    assert closed
    for schema in closed:
        assert {"description", "tags", "meta"} <= set(schema["properties"])
    open_ = [schema for schema in objects(SCHEMAS[name]) if "additionalProperties" not in schema]
    assert all(set(schema["properties"]) in ({"type"}, {"values"}) for schema in open_)  # the parts of if/then


@pytest.mark.parametrize("name", LANGUAGE)
def test_alternatives_are_of_keys_only_so_that_messages_stay_precise(name):
    def alternatives(schema: Any) -> Any:
        if isinstance(schema, dict):
            assert "anyOf" not in schema
            yield from schema.get("oneOf", [])
            for value in schema.values():
                yield from alternatives(value)
        elif isinstance(schema, list):
            for value in schema:
                yield from alternatives(value)

    assert all(set(choice) == {"required"} for choice in alternatives(SCHEMAS[name]))


def test_definitions_that_schemas_share_are_the_same_in_each():
    for one, other in combinations(LANGUAGE, 2):
        shared = SCHEMAS[one].get("definitions", {}).keys() & SCHEMAS[other].get("definitions", {}).keys()
        for name in shared:
            assert SCHEMAS[one]["definitions"][name] == SCHEMAS[other]["definitions"][name]
