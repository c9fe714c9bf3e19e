import pytest

from headwater.tests.conformance.notation import Token, parse_input, parse_output, parse_token, token_of


def test_token_without_topic_goes_to_the_one_meant():
    assert parse_token("a:1@10", "A") == Token("A", "a", "1", 10)


def test_token_with_nulls_and_topic_has_none_for_each():
    assert parse_token("T.~:~@2", "A") == Token("T", None, None, 2)


def test_token_with_window_has_its_bounds():
    assert parse_token("P.a[8,18):23@13", "O") == Token("P", "a", "23", 13, (8, 18))


def test_tilde_before_more_text_is_text():
    assert parse_token("T.3:~4@40", "A").value == "~4"


@pytest.mark.parametrize("text", ["a:1", "a@1", ":1@2", "[", "a[0,10:1@2"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="not a record"):
        parse_token(text, "A")


def test_records_of_one_topic_in_a_row_share_a_batch():
    batches = parse_input("a:1@1 a:2@2 T.a:x@3 a:3@4")
    assert [[token.value for token in batch] for batch in batches] == [["1", "2"], ["x"], ["3"]]


def test_brackets_keep_their_records_together_and_apart_from_others():
    batches = parse_input("[ a:1@1 T.a:x@2 ] [ a:2@3 ] a:3@4")
    assert [[token.value for token in batch] for batch in batches] == [["1", "x"], ["2"], ["3"]]


def test_output_is_split_by_topic_and_ends_with_the_drop_count():
    topics, dropped = parse_output("a:1@1 P.a:2@2 a:3@3 d=4")
    assert {name: [token.value for token in tokens] for name, tokens in topics.items()} == {"O": ["1", "3"], "P": ["2"]}
    assert dropped == 4


def test_output_without_drop_count_is_refused():
    with pytest.raises(ValueError, match="no drop count"):
        parse_output("a:1@1")


def test_record_becomes_a_token():
    key = {"k": "a", "window_start": 0, "window_end": 10}
    assert token_of("O", key, {"v": 1, "found": None}, 5) == Token("O", "a", "1-", 5, (0, 10))


def test_array_is_written_element_by_element():
    assert token_of("O", None, {"cat": ["1", "~"]}, 5) == Token("O", None, "1~", 5)


def test_null_value_and_row_of_nulls_differ():
    assert token_of("O", {"k": "a"}, None, 5).value is None
    assert token_of("O", {"k": "a"}, {"v": None}, 5).value == "-"
