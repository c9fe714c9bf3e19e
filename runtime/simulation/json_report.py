"""A simulation as plain data, which `headwater simulate --format json` prints."""

from __future__ import annotations

from typing import Any

from .measures import MEASURES
from .report import Round, Simulation


def to_json(simulation: Simulation) -> dict[str, Any]:
    """All rounds and results. Times are ms, sizes bytes and records."""
    assumed, application = simulation.assumptions, simulation.application
    return {
        "topology": application.name,
        "assignor": application.assignor,
        "tasks": len(application.tasks),
        "measured": application.measured,
        "assumptions": {
            "restore_records_per_second": assumed.restore.records,
            "restore_bytes_per_second": assumed.restore.bytes,
            "task_records": assumed.size.records,
            "task_bytes": assumed.size.bytes,
            "updates_per_second": assumed.updates,
            "replication": assumed.replication,
        },
        "rounds": [_round(simulation, each) for each in simulation.rounds],
        "results": {name: measure.of(simulation) for name, measure in MEASURES.items()},
    }


def _round(simulation: Simulation, of: Round) -> dict[str, Any]:
    return {
        "round": of.number,
        "event": of.event_text,
        "cause": of.cause,
        "at_ms": of.at_ms,
        "until_ms": of.until_ms,
        "settled": of.settled,
        "followup_ms": of.followup_ms,
        "clients": {
            client.name: {
                "threads": client.threads,
                "rack": client.rack,
                "active": [str(task) for task in of.placements[client.name].active],
                "standby": [str(task) for task in of.placements[client.name].standby],
                "restoring": [str(task) for name, task in sorted(of.restoring) if name == client.name],
            }
            for client in of.clients
        },
        "moves": [
            {"task": str(move.task), "from": move.source, "to": move.target, "down_ms": round(move.down_ms)}
            for move in of.moves
        ],
        "unassigned": [str(task) for task in simulation.unassigned(of)],
        "new_standbys": of.new_standbys,
        "down_ms": {str(task): round(ms) for task, ms in sorted(of.restored.down.items())},
        "restored_records": round(of.restored.records),
        "restored_bytes": round(of.restored.bytes),
        "spread": round(of.spread, 3),
        "cross_rack": simulation.cross_rack(of),
    }
