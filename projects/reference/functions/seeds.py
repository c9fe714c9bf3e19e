"""A day of a city with bicycles to rent. Everything follows from seeds of random numbers, so each day is the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

DAY = datetime(2026, 5, 4, tzinfo=UTC)
STATIONS = {"pier": "harbour", "market": "harbour", "tower": "hills", "park": "south", "campus": "south"}
MODELS = ("swift", "cargo", "spark")
BIKES = [f"bike-{number}" for number in range(12)]
CUSTOMERS = [f"customer-{number}" for number in range(10)]

Rows = Iterator[dict[str, Any]]


def trips() -> Rows:
    """Most trips begin where the one before has ended. A station that opens later is in no table."""
    random, where = Random(1), dict.fromkeys(BIKES, "pier")
    for at in times(random, 240, timedelta(minutes=12)):
        bike = random.choice(BIKES)
        origin = where[bike] if random.random() < 0.8 else random.choice([*STATIONS])
        station = where[bike] = random.choice([*STATIONS, "depot"])
        kind = "electric" if BIKES.index(bike) % 3 == 0 else "classic"
        places = {"origin": origin, "station": station}
        yield {"bike": bike, **places, "kind": kind, "minutes": random.randrange(60), "ended_at": at}


def stations() -> Rows:
    """All stations before the first trip; one gets another name at noon."""
    for station, district in STATIONS.items():
        yield {"station": station, "name": station.title(), "district": district, "changed_at": DAY}
    yield {"station": "pier", "name": "Old Pier", "district": "harbour", "changed_at": DAY + timedelta(hours=12)}


def bikes() -> Rows:
    """Bicycles; the model of the last one is not known."""
    random = Random(2)
    for bike in BIKES:
        yield {"bike": bike, "model": "unknown" if bike == BIKES[-1] else random.choice(MODELS), "bought_at": DAY}


def models() -> Rows:
    """Models, and one that is renamed."""
    for number, model in enumerate(MODELS):
        yield {"model": model, "name": model.title(), "kilograms": 14.5 + 8 * number, "changed_at": DAY}
    yield {"model": "cargo", "name": "Cargo II", "kilograms": 21.0, "changed_at": DAY + timedelta(hours=9)}


def reservations() -> Rows:
    """Reservations, most of which are kept: see `unlocks`."""
    random = Random(3)
    for at in times(random, 80, timedelta(minutes=30)):
        yield {"customer": random.choice(CUSTOMERS), "station": random.choice([*STATIONS]), "at": at}


def unlocks() -> Rows:
    """An unlock for most reservations, up to 20 minutes later."""
    random = Random(4)
    for reserved in reservations():
        if random.random() < 0.8:
            at = reserved["at"] + timedelta(minutes=random.randrange(20))
            yield {"customer": reserved["customer"], "bike": random.choice(BIKES), "at": at}


def taps() -> Rows:
    """Taps of customers in the app."""
    random = Random(5)
    for at in times(random, 300, timedelta(minutes=8)):
        yield {"customer": random.choice(CUSTOMERS), "screen": random.choice(("map", "bike", "bill")), "at": at}


def payments() -> Rows:
    """Payments, some of which are not valid."""
    random = Random(6)
    for at in times(random, 80, timedelta(minutes=30)):
        cents = random.choice((str(random.randrange(100, 3000)), "250", "12.5", "free", "99999999", None))
        yield {"customer": random.choice(CUSTOMERS), "cents": cents, "at": at}


def signals() -> Rows:
    """Signals of locks. Few of them are in the order of a theft."""
    random = Random(7)
    for at in times(random, 300, timedelta(minutes=2)):
        yield {"bike": random.choice(BIKES[:3]), "signal": random.choice(("shaken", "cut", "moved")), "at": at}


def times(random: Random, count: int, most: timedelta) -> Iterator[datetime]:
    """So many times from six in the morning on, in order, with at most this between two."""
    at = DAY + timedelta(hours=6)
    for _ in range(count):
        at += most * random.random()
        yield at.replace(microsecond=at.microsecond // 1000 * 1000)
