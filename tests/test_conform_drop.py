"""DROP PARTITION in the model of trace conformance: a range of blocks, which the replicas remove
when they execute its entry; and parts that are gone without one."""

from collections.abc import Callable

import pytest

from harness.conform.entries import LogEntry, PartName
from harness.conform.model import Model
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from tests.server_protocols import V18, V25

HEAD = b"format version: 4\ncreate_time: 2026-11-24 14:14:02\nsource replica: ch1\nblock_id: \n"
OLD, NEW = PartName.named("1_1_1_0"), PartName.named("1_3_3_0")
RANGE = PartName.named("1_0_2_999999999")
INSERT, LATER = LogEntry("get", "ch1", OLD), LogEntry("get", "ch1", NEW)
DROP = LogEntry("drop", "ch1", RANGE)


def test_the_entries_of_both_formats_are_read() -> None:
    assert LogEntry.read(HEAD + b"drop\n1_0_2_999999999\n") == DROP
    newer = LogEntry.read(HEAD + b"detach\n1_0_2_999999999_999999999\n")
    assert newer.part is not None
    assert (newer.kind, newer.part.partition, newer.part.high) == ("detach", "1", 2)
    assert newer.part.covers(OLD)
    assert not newer.part.covers(NEW)


def dropped() -> Model:
    """Return a model in which ch1 inserted a part, dropped the partition, and inserted another
    part. ch2 has the first part, and all three entries in its queue."""
    replicas = {
        "ch1": Replica("ch1", session=1, pointer=0),
        "ch2": Replica("ch2", session=2, pointer=0),
    }
    model = Model(V25, replicas=replicas, many_leaders=True)
    model.append(0, INSERT)
    model.insert(INSERT, {}, {OLD.name})
    model.append(1, DROP)
    model.append(2, LATER)
    model.insert(LATER, {}, {NEW.name})
    model.pull_log("ch2", 3, {"queue-0": INSERT, "queue-1": DROP, "queue-2": LATER})
    model.get_part("ch2", OLD)
    return model


def test_a_replica_drops_what_the_log_had_made_before_and_nothing_else() -> None:
    model = dropped()
    model.finish_entry("ch2", "queue-0")
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-1")
    model.get_part("ch2", NEW)
    model.finish_entry("ch2", "queue-2")
    assert model.replicas["ch2"].parts.keys() == {NEW.name}


def test_a_drop_takes_the_entries_of_its_range_from_the_queue_even_of_a_fetch_under_way() -> None:
    model = dropped()
    del model.replicas["ch2"].parts[OLD.name]
    model.finish_entry("ch2", "queue-0")
    model.get_part("ch2", OLD)
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-1")
    assert model.replicas["ch2"].dropped == {OLD.name}


def test_an_insert_that_is_logged_after_a_drop_of_its_number_may_be_lost_to_it() -> None:
    """It took its number before the drop and committed after it: ch2 finishes its entry without the
    part, which nobody has any more."""
    model = dropped()
    late = LogEntry("get", "ch1", PartName.named("1_2_2_0"))
    model.append(3, late)
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-1")
    model.pull_log("ch2", 4, {"queue-3": late})
    model.finish_entry("ch2", "queue-3")
    assert "1_2_2_0" not in model.replicas["ch2"].parts


def test_a_drop_misses_an_insert_whose_session_was_lost() -> None:
    """ch1 has not heard that its insert was committed when it executes the drop, and shows the part
    afterwards: 25.8 does so."""
    model = dropped()
    entries = {"queue-0": INSERT, "queue-1": DROP, "queue-2": LATER}
    model.pull_log("ch1", 3, entries)
    with pytest.raises(Departure, match="ch1 still has 1_1_1_0 after it was dropped"):
        model.finish_entry("ch1", "queue-1", session=0)
    model.replicas["ch1"].queue["queue-1"] = DROP
    assert model.finish_entry("ch1", "queue-1", session=7) == (OLD.name,)
    model.remove_part("ch1", OLD.name)


def keeps_it(model: Model) -> None:
    model.finish_entry("ch2", "queue-1")


def takes_it_again(model: Model) -> None:
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-1")
    model.get_part("ch2", OLD)


def takes_more(model: Model) -> None:
    model.get_part("ch2", NEW)
    model.remove_part("ch2", NEW.name)


def merges_it(model: Model) -> None:
    model.append(3, LogEntry("merge", "ch1", PartName.named("1_1_3_1"), (OLD, NEW)))


def by_a_follower(model: Model) -> None:
    model.protocol, model.many_leaders = V18, False
    model.add_candidate("leader_election-0", "ch2", 2)
    model.append(3, DROP)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (keeps_it, "ch2 still has 1_1_1_0 after it was dropped"),
        (takes_it_again, "1_1_1_0 comes back after it was dropped"),
        (takes_more, "ch2 loses 1_3_3_0, and none of its parts covers it"),
        (merges_it, "1_1_1_0 was dropped before the merge was assigned"),
        (by_a_follower, "ch1 drops a partition while ch2 leads"),
    ],
)
def test_another_step_is_a_departure(step: Callable[[Model], None], why: str) -> None:
    model = dropped()
    with pytest.raises(Departure) as caught:
        step(model)
    assert str(caught.value) == why


def test_a_part_that_no_replica_has_any_more_is_given_up() -> None:
    model = dropped()
    model.replicas["ch2"].queue.pop("queue-1")
    del model.replicas["ch2"].parts[OLD.name]
    assert model.give_up("ch2", "queue-0") is None
    del model.replicas["ch1"].parts[OLD.name]
    assert model.give_up("ch2", "queue-0") == OLD.name
    assert "queue-0" not in model.replicas["ch2"].queue
    assert model.give_up("ch2", "queue-2") is None


def test_a_part_that_a_drop_removes_is_not_removed_ahead_of_its_merge() -> None:
    merged = LogEntry("merge", "ch1", PartName.named("1_1_1_1"), (OLD,))
    model = dropped()
    model.replicas["ch2"].queue["queue-3"] = merged
    assert not model.remove_ahead("ch2", OLD.name)
    del model.replicas["ch2"].queue["queue-1"]
    assert model.remove_ahead("ch2", OLD.name)
