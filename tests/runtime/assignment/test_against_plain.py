"""The assignors place exactly as the plain ones do, which are written straight from the description and are slow."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from headwater.runtime.assignment.cluster import ApplicationState
from headwater.runtime.assignment.high_availability import HighAvailability
from headwater.runtime.assignment.sticky import Fallback, Sticky
from headwater.tests.runtime.assignment.clusters import clusters, deadlines, sets
from headwater.tests.runtime.assignment.plain.high_availability import high_availability
from headwater.tests.runtime.assignment.plain.sticky import fallback, sticky

SETTINGS = settings(suppress_health_check=list(HealthCheck))


@given(clusters())
@SETTINGS
def test_high_availability_places_as_the_plain_one(state: ApplicationState) -> None:
    expected, followup = high_availability(state)

    assignment = HighAvailability().assign(state)

    assert sets(assignment) == expected
    assert bool(deadlines(assignment)) == followup


@given(clusters())
@SETTINGS
def test_sticky_places_as_the_plain_one(state: ApplicationState) -> None:
    assert sets(Sticky().assign(state)) == sticky(state)


@given(clusters())
@SETTINGS
def test_fallback_places_as_the_plain_one(state: ApplicationState) -> None:
    assert sets(Fallback().assign(state)) == fallback(state)
