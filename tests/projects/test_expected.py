"""The expectations are held to facts of the data that can be looked up, so that they do not drift with the product."""

import pytest

from headwater.tests.projects.expected import STREAMS, TABLES, Flights, too_late


@pytest.fixture(scope="module")
def week():
    return Flights(days=7)


@pytest.mark.parametrize("output", sorted({**TABLES, **STREAMS}))
def test_output_of_a_week_has_rows(week, output):
    assert {**TABLES, **STREAMS}[output](week)


def test_whole_year_has_all_flights():
    assert len(Flights().flights) == 336_776


def test_weather_counts_each_flight_with_an_observation_once(week):
    observed = set(zip(week.weather["origin"], week.weather["time_hour"], strict=True))
    flights = sum(key in observed for key in zip(week.flights["origin"], week.flights["time_hour"], strict=True))
    assert sum(row["flights"] for row in TABLES["weather_impact"](week).values()) == flights


def test_late_departures_are_those_that_no_window_counted(week):
    updates = STREAMS["departures_by_hour"](week)
    counted = sum(len(records) for records in updates.values())
    assert counted + too_late(week)["by_hour"] == week.flights["dep_delay"].notna().sum()
    assert too_late(week)["by_hour"] > 100


def test_each_update_counts_one_more_and_never_goes_back_in_time(week):
    for records in STREAMS["departures_by_hour"](week).values():
        assert [row["departures"] for _, row in records] == list(range(1, len(records) + 1))
        assert [ts for ts, _ in records] == sorted(ts for ts, _ in records)


def test_each_plane_is_parked_once(week):
    planes = {key for key, _ in STREAMS["plane_moves"](week).items()}
    assert sum(row["planes"] for row in TABLES["parked_by_airport"](week).values()) == len(planes)


def test_a_movement_is_in_four_windows(week):
    flown = week.flights["dep_time"].notna().sum()
    assert sum(row["movements"] for row in TABLES["airport_movements"](week).values()) == flown * 2 * 4
