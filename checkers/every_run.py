"""The checkers of every run, whatever its workload, and which checkers fit a history."""

from collections.abc import Collection, Iterable
from typing import Final

from checkers.availability.answers import Answers
from checkers.availability.availability import Availability
from checkers.health import Health, health_of
from checkers.replication.assigners import Assigners
from checkers.replication.conformance import Conformance, conformance_of
from checkers.replication.protocol import ReplicationRules, facts_of
from checkers.replication.temporary import Temporary
from checkers.trees import Trees, trees_of
from harness.core.history import History
from harness.core.protocols import Checker, only_reports

REPORTED: Final = (Conformance.name, Health.name, Trees.name)
"""Names of the checkers that are only reported unless a run is to fail on them."""


def every_run(fail_on: Collection[str] = ()) -> tuple[Checker, ...]:
    """Return the checkers of every run. `fail_on` names those of `REPORTED` that decide."""
    return (
        ReplicationRules(),
        Conformance(only_reports=Conformance.name not in fail_on),
        Health(only_reports=Health.name not in fail_on),
        Trees(only_reports=Trees.name not in fail_on),
    )


def applicable(checkers: Iterable[Checker], history: History) -> list[Checker]:
    """Return all of them, but `ReplicationRules` only where the history has a record with anything
    in it: that of simulated servers. They have neither ZooKeeper's log, by which `Assigners` judges
    what the rules judge there, nor directories. `REPORTED`, unless they decide, need an op
    that says it, and checkers of the answers themselves a history that lacks none."""
    recorded = bool(facts_of(history))
    unfit: tuple[type, ...] = (Assigners, Temporary) if recorded else (ReplicationRules,)
    # Whether a call was answered is what a damaged line may have said.
    unfit += (Answers, Availability) if history.damage is not None else ()
    unsaid: tuple[type, ...] = () if conformance_of(history) else (Conformance,)
    unsaid += () if health_of(history) else (Health,)
    unsaid += () if trees_of(history) else (Trees,)
    return [
        one
        for one in checkers
        if not isinstance(one, unfit) and not (isinstance(one, unsaid) and only_reports(one))
    ]
