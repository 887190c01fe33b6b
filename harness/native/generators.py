"""Generates the calls of a history and gives them to workers (`crates/generators`)."""

from harness.native._native import Assigned, Combinator, Scheduler

__all__ = ["Assigned", "Combinator", "Scheduler"]
