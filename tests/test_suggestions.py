from __future__ import annotations

from headwater.suggestions import closest, did_you_mean, guess


def test_misspelt_word_is_guessed_whatever_its_case() -> None:
    assert did_you_mean("flihgts", ["flights", "airlines"]) == "Did you mean 'flights'?"
    assert did_you_mean("ORDERS", ["orders"]) == "Did you mean 'orders'?"
    assert guess("kil", ["kill", "add"], "known: kill, add") == "did you mean 'kill'?"


def test_of_words_equally_close_one_with_the_same_first_letter_is_guessed() -> None:
    assert did_you_mean("reed", ["seed", "read"]) == "Did you mean 'read'?"
    assert did_you_mean("reed", ["read", "seed"]) == "Did you mean 'read'?"


def test_word_like_nothing_known_is_not_guessed() -> None:
    assert did_you_mean("zzz", ["flights"]) is None
    assert guess("zzz", ["kill"], "known: kill") == "known: kill"


def test_word_that_nobody_types_is_not_compared() -> None:
    assert closest("flights" * 50, ["flights" * 50]) == ()


def test_several_guesses_come_best_first() -> None:
    assert closest("balanced_cuont", ["balanced", "sticky", "balanced_count"], most=3) == ("balanced_count", "balanced")
