"""Mutations and ALTERs as steps of the model.

`traces/mutations.txnlog.tar.gz` is what one ZooKeeper server of a real run wrote: ClickHouse
25.8.2.1, three replicas, inserts beside mutations and merges, no faults.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.conform import mutations
from harness.conform.ensemble import read_archive
from harness.conform.entries import LogEntry, MutationEntry, PartName
from harness.conform.model import Model
from harness.conform.replay import replay, tables
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from tests.server_protocols import V25

TRACE = Path(__file__).parent / "traces" / "mutations.txnlog.tar.gz"
OLD, NEW = PartName.named("1_1_1_0"), PartName.named("1_1_1_0_2")
LATER = PartName.named("1_3_3_0")
INSERTS = [LogEntry("get", "ch1", part) for part in (OLD, LATER)]
MUTATE = LogEntry("mutate", "ch2", NEW, (OLD,))


def test_a_real_trace_with_mutations_conforms() -> None:
    txns = read_archive(TRACE)
    replayed = replay(tables(txns)[-1], txns, V25)
    assert (replayed.stopped, replayed.departures) == (None, {})
    steps = ("Mutation", "AssignMutation", "AssignMerge", "FinishMutations")
    assert [replayed.actions[step] for step in steps] == [6, 21, 12, 15]


def mutated() -> Model:
    """Return a model in which ch1 inserted a part before a mutation with the number 2, and one
    after it. ch2 has both."""
    parts = {part.name: part for part in (OLD, LATER)}
    replicas = {n: Replica(n, session=i, pointer=0) for i, n in enumerate(("ch1", "ch2"))}
    model = Model(V25, replicas=replicas, many_leaders=True)
    model.append(0, INSERTS[0])
    model.insert(INSERTS[0], {}, {OLD.name})
    mutations.add(model, "0000000000", MutationEntry("ch1", {"1": 2}))
    model.append(1, INSERTS[1])
    model.insert(INSERTS[1], {}, {LATER.name})
    replicas["ch2"].parts |= parts
    return model


def test_a_replica_has_finished_a_mutation_when_no_older_part_is_left() -> None:
    model = mutated()
    with pytest.raises(Departure, match="ch2 still has 1_1_1_0"):
        mutations.finish(model, "ch2", "0000000000")
    model.append(2, MUTATE)
    model.pull_log("ch2", 3, {"queue-0": INSERTS[0], "queue-1": INSERTS[1], "queue-2": MUTATE})
    model.get_part("ch2", NEW)
    model.remove_part("ch2", OLD.name)
    mutations.finish(model, "ch2", "0000000000")
    assert model.replicas["ch2"].parts.keys() == {NEW.name, LATER.name}


def of_no_mutation(model: Model) -> None:
    model.append(2, LogEntry("mutate", "ch2", PartName.named("1_1_1_0_3"), (OLD,)))


def of_later_rows(model: Model) -> None:
    model.append(2, LogEntry("mutate", "ch2", PartName.named("1_3_3_0_2"), (LATER,)))


def twice(model: Model) -> None:
    model.append(2, MUTATE)
    model.append(3, LogEntry("mutate", "ch2", PartName.named("1_1_1_1_2"), (OLD,)))


def with_an_old_number(model: Model) -> None:
    mutations.add(model, "0000000001", MutationEntry("ch2", {"1": 2}))


def pointer_back(model: Model) -> None:
    model.replicas["ch2"].parts.clear()
    mutations.add(model, "0000000001", MutationEntry("ch2", {"1": 4}))
    mutations.finish(model, "ch2", "0000000001")
    mutations.finish(model, "ch2", "0000000000")


def altered_out_of_order(model: Model) -> None:
    alters = [LogEntry("alter", "ch1", None, alter_version=version) for version in (1, 2)]
    model.append(2, alters[0])
    model.append(3, alters[1])
    entries = [*INSERTS, *alters]
    model.pull_log("ch2", 4, {f"queue-{i}": entry for i, entry in enumerate(entries)})
    model.finish_entry("ch2", "queue-3")


def altered_back(model: Model) -> None:
    model.append(2, LogEntry("alter", "ch1", None, alter_version=2))
    model.append(3, LogEntry("alter", "ch1", None, alter_version=1))


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (of_no_mutation, "no mutation has the number 3"),
        (of_later_rows, "1_3_3_0 is newer than mutation 2"),
        (twice, "1_1_1_0 is already replaced by entry 2"),
        (with_an_old_number, "its number 2 in 1 follows 2"),
        (pointer_back, "its mutation_pointer goes back from 0000000001"),
        (altered_out_of_order, "version 1 is not in force yet"),
        (altered_back, "version 1 after version 2"),
    ],
)
def test_another_step_is_a_departure(step: Callable[[Model], None], why: str) -> None:
    with pytest.raises(Departure) as caught:
        step(mutated())
    assert str(caught.value) == why
