"""The table of all kinds of change (`docs/changing.md`): each has tests, which show its verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.tests.projects.changes.deployed import Change

TESTS_FOLDER = Path(__file__).parents[2]
PAGE = TESTS_FOLDER.parent / "docs" / "changing.md"
FILES = Path(__file__).with_name("flights")
TABLE = PAGE.read_text("utf-8").partition("## Kinds of change\n")[2].partition("\n## ")[0]
VERDICTS = dict(re.findall(r"^\| (.+?) \| (.+?) \|.*\|$", TABLE.partition("|---|")[2], re.MULTILINE))
"""A kind of change -> the cell with its verdict."""

TESTS = {
    "a store added": ("store_added",),
    "a store removed together with all flows of its subtopology": ("store_removed",),
    "a store removed otherwise, or renamed without `was`": (
        "store_renamed",
        "flow_removed",
    ),
    "a store's key, columns, type or partition count": (
        "store_key",
        "store_key_column",
        "window_removed",
        "aggregate_added",
        "repartition_partitions",
    ),
    "aggregates of a store: added, dropped, another function or column": (
        "aggregate_added",
        "aggregate_dropped",
        "aggregate_function",
    ),
    "a window's size or advance": (
        "window_size",
        "window_advance",
    ),
    "`within` or `type` of a join of streams; `until` of `suppress`, now `for`": (
        "cli/test_changed_joins.py::test_changed_join_or_suppress_gives_the_result_of_a_fresh_project",
    ),
    "the grace of a join of streams": (
        "cli/test_changed_joins.py::test_changed_join_or_suppress_gives_the_result_of_a_fresh_project",
        "cli/test_changed_joins.py::test_changed_join_goes_on_with_what_is_there",
    ),
    "`values` of a join of streams; `type` or `values` of a join of tables, also by a foreign key": (
        "cli/test_changed_joins.py::test_changed_join_or_suppress_gives_the_result_of_a_fresh_project",
        "cli/test_changed_joins.py::test_changed_join_goes_on_with_what_is_there",
    ),
    "`by` of a join by a foreign key": (
        "cli/test_changed_joins.py::test_changed_join_or_suppress_gives_the_result_of_a_fresh_project",
        "cli/test_changed_joins.py::test_changed_join_does_not_go_on_with_what_it_would_mistake",
    ),
    "the stream of a join of streams": (
        "cli/test_changed_joins.py::test_changed_join_or_suppress_gives_the_result_of_a_fresh_project",
        "cli/test_changed_joins.py::test_changed_join_does_not_go_on_with_what_it_would_mistake",
    ),
    "a store's changelog switched on": ("changelog_switched_on",),
    "a store's changelog switched off": ("changelog_switched_off",),
    "a store's grace or retention": (
        "window_grace",
        "store_retention",
        "cli/test_changed_results.py::test_changed_result_is_that_of_a_fresh_project_or_goes_on",
    ),
    "the retention of a [processor's](processors.md#stores) window or session store": (
        "runtime/changes/test_comparison.py::test_other_retention_of_windows_that_a_processor_gives_is_another_store",
    ),
    "a version of Headwater that orders the rows of such a store in another way": (
        "runtime/changes/test_comparison.py::test_rows_that_an_earlier_version_kept_by_shorter_segments_are_told",
    ),
    "a store's backend": (
        "store_backend",
        "runtime/changes/test_comparison.py::test_backend_of_a_store_without_changelog_cannot_change",
    ),
    "a filter, an expression, a branch, a route, the values of a join: any step": (
        "filter",
        "filter_removed",
        "expression",
        "branch",
        "join_values",
        "join_type",
        "variable",
        "cli/test_changed_results.py::test_changed_result_is_that_of_a_fresh_project_or_goes_on",
        "api/test_routes.py::test_plan_tells_what_of_a_route_has_changed",
    ),
    "the expression that an aggregate reads (`sum(price)`, now `sum(price * 2)`), of the same type": (
        "aggregate_expression",
        "cli/test_changed_results.py::test_changed_result_is_that_of_a_fresh_project_or_goes_on",
    ),
    "a filter, `key_by`, expression or join in front of an `aggregate` of a table; the table itself": (
        "cli/test_changed_groups.py::test_groups_of_a_table_do_not_go_on_where_they_would_lose_what_they_were_not_given",
        "cli/test_changed_groups.py::test_groups_of_a_table_go_on_where_they_lose_what_they_were_given",
    ),
    "a flow added, next to flows that have read the same records": (
        "flow_added",
        "cli/test_changed_results.py::test_changed_result_is_that_of_a_fresh_project_or_goes_on",
    ),
    "a flow added that reads topics which the topology has not read, and writes none that it has written": (
        "flow_added_that_reads_another_topic",
    ),
    "a flow removed": (
        "flow_without_store_removed",
        "runtime/changes/test_comparison.py::test_flow_that_is_gone_counts_for_all_records_where_others_write_its_topic",
    ),
    "a flow removed, and added again after a run without it, with the same steps or others": (
        "cli/test_returned_flows.py::test_flow_that_comes_back_goes_on_where_the_plan_says_behind_the_records_that_it_counts",
        "cli/test_returned_flows.py::test_flow_that_comes_back_begins_with_nothing_after_the_command_that_the_plan_names",
    ),
    "a step written in another way, steps moved in the file, a comment, a description, the order of flows": (
        "step_written_otherwise",
        "moved_lines",
        "steps_in_another_order",
        "flow_renamed",
    ),
    "`on_error` of a flow or topic": (
        "on_error",
        "cli/test_setting_changes.py::test_changed_setting_is_named_with_what_comes_of_it_and_the_run_goes_on",
    ),
    "the code of a [Python function](functions.md#when-the-code-changes)": (
        "api/test_functions.py::test_changed_code_is_what_runs_next_and_a_plan_says_so",
        "cli/test_changed_groups.py::test_plan_says_that_groups_lose_what_other_code_makes_of_a_row",
    ),
    "`emit`": ("emit",),
    "`for`, `max_records` or `when_full` of `suppress`": (
        "runtime/operators/test_suppress.py::test_changed_settings_count_for_changes_that_wait",
    ),
    "a topic's `cleanup` or `retention`": ("topic_cleanup_and_retention",),
    "a topic's `timestamp`": (
        "cli/test_setting_changes.py::test_changed_setting_is_named_with_what_comes_of_it_and_the_run_goes_on",
    ),
    "a setting of `assignment`; the restore strategy; options of a store's backend; `cleanup` of a changelog": (
        "assignor_and_restore",
        "changelog_cleanup",
    ),
    "a description, the version of the project, settings of a target (clients, epochs)": (
        "description",
        "target",
    ),
    "a topology added": (
        "topology_added",
        "topology_added_from_the_last_record_on",
        "topology_added_that_reads_another",
    ),
    "the `start` of a topic that was read before": ("fed_topic_read_from_the_last_record_on",),
    "a topology removed": ("topology_removed",),
    "a topology, flow, table, store or step renamed, with [`was`](#renaming)": (
        "topology_renamed_with_was",
        "first_flow_renamed_with_was",
        "table_renamed_with_was",
        "store_renamed_with_was",
        "step_renamed_with_was",
    ),
    "a topology renamed, without `was`": ("topology_renamed",),
    "a seed added": ("seed_added",),
    "a seed changed": ("seed_of_other_records",),
    "a store in another subtopology (a `key_by` before its step, flows joined into one)": (
        "store_in_another_subtopology",
    ),
    "a store that another flow or step fills (two flows exchange their stores)": (
        "cli/plans/test_stores_that_change_places.py::test_stores_that_change_places_are_computed_again",
    ),
    "the first flow of a subtopology renamed, without `was`, or a step that has a name; a step that gets one": (
        "first_flow_renamed",
        "step_named",
    ),
    "value columns of a topic dropped, reordered or widened; added to an external topic": (
        "column_of_a_fed_topic_dropped",
        "columns_of_a_fed_topic_in_another_order",
        "column_of_a_fed_topic_widened",
        "column_added_to_a_fed_topic",
    ),
    "a column added to a topic that the topology writes": (
        "column_computed",
        "cli/test_changed_results.py::test_changed_result_is_that_of_a_fresh_project_or_goes_on",
    ),
    "a column added to a topic that only repartitions": (
        "column_of_a_repartition_topic",
        "runtime/local/test_changed_columns.py::test_repartition_topic_gets_a_column_once_nothing_is_on_its_way_in_it",
    ),
    "a value column of a topic narrowed, or of another type": ("column_of_a_fed_topic_narrowed",),
    "a seed that gives the same records, with the present columns (an empty column added, a type widened)": (
        "seed_of_the_same_records",
        "column_added_to_a_fed_topic",
    ),
    "a seed that gives other records": ("seed_of_other_records",),
    "key or partition count of a topic that the topology writes": (
        "output_partitions",
        "store_key_column",
    ),
    "a flow moved to another topology, with its topic and store; a topology split, or joined with another one": (
        "flow_moved_to_another_topology",
        "runtime/local/test_moved_flows.py::test_result_after_a_move_is_that_of_a_project_that_was_so_from_the_start",
    ),
    "partition count of an external topic, seeded or appended to": (
        "partitions_of_a_fed_topic_and_all_its_readers",
        "partitions_of_a_fed_topic",
    ),
    "key of an external topic": (
        "runtime/local/test_repartitioned_topics.py::test_other_key_puts_records_where_it_belongs",
        "cli/test_ways_out.py::test_each_command_that_a_refusal_names_has_the_project_run_again",
    ),
    "`windowed` of an external topic": (
        "runtime/changes/test_inputs.py::test_topic_declared_otherwise_than_its_records_is_refused_with_a_way_out",
    ),
    "more partitions of a topic in [Kafka](kafka.md) that is read": (
        "runtime/local/test_kafka_changes.py::test_added_partitions_are_copied_by_the_run_that_sees_them",
    ),
    "a topic in Kafka that was deleted and created again": (
        "runtime/local/test_kafka_changes.py::test_topic_that_was_created_again_is_not_copied_until_it_is_moved",
    ),
    "a seed that gives the same records, of a topic with another partition count or key": (
        "partitions_of_a_fed_topic_and_all_its_readers",
    ),
    "a topic that a topology has written, external now (its topology removed, for example)": (
        "cli/test_other_writers.py::test_topic_of_a_removed_topology_goes_on_with_its_records_as_fed_ones",
    ),
    "an external topic, written by a topology now": (
        "cli/test_other_writers.py::test_topic_with_appended_records_is_not_written_before_they_are_somewhere_else",
    ),
    "a topology removed, and added again later": (
        "cli/test_other_writers.py::test_topology_that_was_removed_and_comes_back_goes_on_with_what_has_come_meanwhile",
    ),
    "an external topic, fully refreshed": (
        "runtime/changes/test_comparison.py::test_topic_that_was_fully_refreshed_has_other_records_at_the_positions_consumed",
    ),
    "a topic that a flow reads or writes: one more, one less, another one": (
        "topic_read_besides",
        "output_under_another_name",
        "output_written_besides",
    ),
}
"""A kind of change -> its tests: files of changes in `flights`, and test functions elsewhere."""


def verdicts(change: Change) -> set[str]:
    """Those of the topologies and of the whole; a new topology counts as compatible."""
    shown = re.findall(r"^[├└]── \w+  (compatible|replace|error|no change|new)\b", change.plan, re.MULTILINE)
    words = {"new": "compatible", "no change": "nothing"}
    return {change.verdict, *(words.get(word, word) for word in shown)}


def test_every_kind_on_the_page_has_tests() -> None:
    assert list(VERDICTS) == list(TESTS)


@pytest.mark.parametrize("kind", TESTS)
def test_tests_of_a_kind_show_its_verdict(kind: str) -> None:
    for name in TESTS[kind]:
        path, _, function = name.partition("::")
        if function:
            assert f"def {function}(" in (TESTS_FOLDER / path).read_text()
        else:
            change = Change.read(FILES / f"{path}.yml")
            assert any(verdict in VERDICTS[kind] for verdict in verdicts(change)), path


def test_every_change_is_of_a_kind() -> None:
    named = {name for names in TESTS.values() for name in names}
    assert [path.stem for path in sorted(FILES.iterdir()) if path.stem not in named] == []
