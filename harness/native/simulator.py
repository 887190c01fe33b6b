"""Simulates ZooKeeper and ClickHouse servers on virtual time (`crates/simulator`)."""

from harness.native._native import (
    FETCH_NS,
    Assigned,
    Combinator,
    Disks,
    Interpreter,
    Machines,
    Members,
    Scheduler,
    Simulation,
)

__all__ = [
    "FETCH_NS",
    "Assigned",
    "Combinator",
    "Disks",
    "Interpreter",
    "Machines",
    "Members",
    "Scheduler",
    "Simulation",
]
