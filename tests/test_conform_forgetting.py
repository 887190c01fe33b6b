"""FORGET PARTITION in the model of trace conformance: the parts and mutations of the partition are
numbered anew, and a replica that has yet to execute a drop of before may lose what is inserted
after it."""

import pytest

from harness.conform import forgetting, mutations
from harness.conform.entries import LogEntry, MutationEntry, PartName
from harness.conform.model import Model
from harness.conform.replay import TableReplay
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from harness.conform.txnlog import Change, ChangeKind, Txn
from tests.server_protocols import V25

PART = PartName.named("1_0_0_0")
RANGE = PartName.named("1_0_0_999999999_999999999")
INSERT = LogEntry("get", "ch1", PART)
DROP = LogEntry("drop", "ch1", RANGE)


def emptied(*, forgets: bool) -> Model:
    """Return a model in which ch1 inserted a part into partition 1 and dropped it, and the
    partition was forgotten. ch2 has the part, and the drop in its queue."""
    replicas = {
        "ch1": Replica("ch1", session=1, pointer=0),
        "ch2": Replica("ch2", session=2, pointer=0),
    }
    model = Model(V25, replicas=replicas, many_leaders=True)
    model.append(0, INSERT)
    model.insert(INSERT, {}, {PART.name})
    mutations.add(model, "0000000000", MutationEntry("ch1", {"1": 1}))
    model.append(1, DROP)
    model.pull_log("ch1", 2, {"queue-0": INSERT, "queue-1": DROP})
    model.finish_entry("ch1", "queue-0")
    model.remove_part("ch1", PART.name)
    model.finish_entry("ch1", "queue-1")
    model.pull_log("ch2", 2, {"queue-0": INSERT, "queue-1": DROP})
    model.get_part("ch2", PART)
    model.finish_entry("ch2", "queue-0")
    if forgets:
        forgetting.forget(model, "1")
    return model


def test_names_and_mutations_come_again_in_a_forgotten_partition() -> None:
    model = emptied(forgets=True)
    model.append(2, INSERT)
    model.insert(INSERT, {}, {PART.name})
    mutations.add(model, "0000000001", MutationEntry("ch1", {"1": 1}))
    mutated = PartName.named("1_0_0_0_1")
    model.append(3, LogEntry("mutate", "ch1", mutated, (PART,)))
    model.pull_log("ch1", 4, {"queue-2": INSERT, "queue-3": model.log[3]})
    model.finish_entry("ch1", "queue-2")
    model.get_part("ch1", mutated)
    model.finish_entry("ch1", "queue-3")
    mutations.finish(model, "ch1", "0000000001")
    assert model.replicas["ch1"].parts.keys() == {PART.name, mutated.name}


@pytest.mark.parametrize("part", [PART, PartName.named("1_1_1_0")])
def test_a_part_is_made_once(part: PartName) -> None:
    model = emptied(forgets=True)
    entry = LogEntry("get", "ch1", part)
    model.append(2, entry)
    with pytest.raises(Departure, match=f"{part.name} was created before"):
        model.append(3, entry)


def test_nothing_comes_again_in_another_partition() -> None:
    model = emptied(forgets=False)
    forgetting.forget(model, "2")
    with pytest.raises(Departure, match="1_0_0_0 was created before"):
        model.append(2, INSERT)
    with pytest.raises(Departure, match="its number 1 in 1 follows 1"):
        mutations.add(model, "0000000001", MutationEntry("ch1", {"1": 1}))


def test_a_mutation_of_before_says_nothing_of_the_new_blocks() -> None:
    model = emptied(forgets=True)
    model.append(2, INSERT)
    model.insert(INSERT, {}, {PART.name})
    mutations.finish(model, "ch1", "0000000000")
    mutations.add(model, "0000000001", MutationEntry("ch1", {"1": 1}))
    with pytest.raises(Departure, match="ch1 still has 1_0_0_0"):
        mutations.finish(model, "ch1", "0000000001")


def test_a_replica_that_executed_the_drop_before_gets_what_is_inserted_after() -> None:
    model = emptied(forgets=True)
    model.append(2, INSERT)
    model.pull_log("ch1", 3, {"queue-2": INSERT})
    with pytest.raises(Departure, match="ch1 does not have 1_0_0_0 after it"):
        model.finish_entry("ch1", "queue-2")


def changes(*made: Change) -> Txn:
    return Txn(0x10, 2, 1_000, made, ends_session=False)


def test_a_drop_of_before_that_takes_the_new_part_is_a_departure() -> None:
    replay = TableReplay("/t", V25)
    replay.model = emptied(forgets=False)
    replay.take(changes(Change(ChangeKind.DELETE, "/t/block_numbers/1")))
    model = replay.model
    model.append(2, INSERT)
    model.pull_log("ch2", 3, {"queue-2": INSERT})
    model.remove_part("ch2", PART.name)
    found = replay.take(changes(Change(ChangeKind.DELETE, "/t/replicas/ch2/queue/queue-2")))
    assert found == ["ForgetMissed"]
    model.finish_entry("ch2", "queue-1")
    assert not model.replicas["ch2"].parts


def test_a_later_drop_of_the_same_range_may_take_it() -> None:
    replay = TableReplay("/t", V25)
    replay.model = model = emptied(forgets=True)
    model.append(2, INSERT)
    model.append(3, DROP)
    model.pull_log("ch2", 4, {"queue-2": INSERT, "queue-3": DROP})
    model.remove_part("ch2", PART.name)
    path = "/t/replicas/ch2/queue/queue-2"
    assert not replay.take(changes(Change(ChangeKind.DELETE, path)))
