"""REPLACE_RANGE in the model of trace conformance: parts of another table, in place of a range of
blocks or beside what is there."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harness.conform import copies, mutations
from harness.conform.agreed import agreed
from harness.conform.entries import LogEntry, MutationEntry, PartName
from harness.conform.model import Model
from harness.conform.replica import Replica
from harness.conform.rules import Departure
from harness.conform.txnlog import Change, ChangeKind, Txn
from tests.server_protocols import V25

HEAD = b"format version: 4\ncreate_time: 2026-11-27 14:14:02\nsource replica: ch1\nblock_id: \n"
OLD, COPY = PartName.named("1_1_1_0"), PartName.named("1_3_3_1")
RANGE = PartName.named("1_0_2_999999999_999999999")
INSERT = LogEntry("get", "ch1", OLD)
FROM: Mapping[str, Any] = {"copied": ("1_5_9_1",), "origin": "harness_1_t"}
REPLACE = LogEntry("REPLACE_RANGE", "ch1", None, copies=(COPY,), range=RANGE, **FROM)
ATTACH = LogEntry("REPLACE_RANGE", "ch1", None, copies=(COPY,), **FROM)
DROP = LogEntry("drop", "ch2", PartName.named("1_0_3_999999999_999999999"))


def written(gone: str, new: str) -> bytes:
    """Return an entry as 25.8 writes it."""
    lines = (
        "REPLACE_RANGE",
        f"drop_range_name: {gone}",
        "from_database: harness_1_t",
        "from_table: t",
        "source_parts: ['1_5_9_1']",
        f"new_parts: {new}",
        "part_checksums: ['C0FFEE']",
        "columns_version: -1",
        "",
    )
    return HEAD + "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("gone", "new", "read"),
    [
        (RANGE.name, "['1_3_3_1']", REPLACE),
        ("1_0_0_999999999_999999999", "['1_3_3_1']", ATTACH),
        ("1_0_0_999999999_999999999", "[]", LogEntry("REPLACE_RANGE", "ch1", None, **FROM)),
    ],
)
def test_an_entry_says_what_it_makes_and_what_it_replaces(
    gone: str, new: str, read: LogEntry
) -> None:
    assert LogEntry.read(written(gone, new)) == read


def test_a_fact_says_of_which_part_of_the_other_table_each_is_a_copy() -> None:
    entry = Change(ChangeKind.CREATE, "/u/log/log-0000000003", written(RANGE.name, "['1_3_3_1']"))
    holds = Change(ChangeKind.CREATE, "/u/replicas/ch1/parts/1_3_3_1")
    assert agreed("/u", [Txn(7, 1, 5, (holds, entry), ends_session=False)]) == [
        ["assign", 7, "REPLACE_RANGE", "ch1", RANGE.name, ""],
        ["copy", 7, "1_3_3_1", "ch1", "harness_1_t", "1_5_9_1"],
        ["hold", 7, "1_3_3_1", "ch1", 5],
    ]


def replaced(entry: LogEntry = REPLACE) -> Model:
    """Return a model in which ch1 inserted a part and then copied another one. ch2 has the first
    part, and both entries in its queue."""
    replicas = {
        "ch1": Replica("ch1", session=1, pointer=0),
        "ch2": Replica("ch2", session=2, pointer=0),
    }
    model = Model(V25, replicas=replicas, many_leaders=True)
    model.append(0, INSERT)
    model.insert(INSERT, {}, {OLD.name})
    model.append(1, entry)
    copies.receive(model, entry, {COPY.name}, 1)
    model.pull_log("ch2", 2, {"queue-0": INSERT, "queue-1": entry})
    model.get_part("ch2", OLD)
    model.finish_entry("ch2", "queue-0")
    return model


def test_a_replica_makes_the_copies_and_removes_what_they_replace() -> None:
    model = replaced()
    model.get_part("ch2", COPY)
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-1")
    assert model.replicas["ch2"].parts.keys() == {COPY.name}
    assert model.replicas["ch1"].parts.keys() == {OLD.name, COPY.name}


def test_what_is_attached_is_beside_what_was_there() -> None:
    model = replaced(ATTACH)
    model.get_part("ch2", COPY)
    model.finish_entry("ch2", "queue-1")
    assert model.replicas["ch2"].parts.keys() == {OLD.name, COPY.name}


def test_a_mutation_is_finished_where_what_lacks_it_is_about_to_be_replaced() -> None:
    """ch2 has not executed the REPLACE, whose range has its old part."""
    model = replaced()
    mutations.add(model, "0000000000", MutationEntry("ch2", {"1": 3}))
    mutations.finish(model, "ch2", "0000000000")
    assert model.replicas["ch2"].mutated == "0000000000"


def test_a_mutation_is_not_finished_where_what_lacks_it_stays() -> None:
    model = replaced(ATTACH)
    mutations.add(model, "0000000000", MutationEntry("ch2", {"1": 3}))
    with pytest.raises(Departure, match="ch2 still has 1_1_1_0"):
        mutations.finish(model, "ch2", "0000000000")


def test_a_drop_takes_a_copy_that_is_not_made_yet_from_the_queue() -> None:
    model = replaced()
    model.append(2, DROP)
    model.pull_log("ch2", 3, {"queue-2": DROP})
    model.finish_entry("ch2", "queue-1")
    model.remove_part("ch2", OLD.name)
    model.finish_entry("ch2", "queue-2")
    assert not model.replicas["ch2"].parts


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda m: m.finish_entry("ch2", "queue-1"), "ch2 does not have 1_3_3_1 after it"),
        (
            lambda m: (m.get_part("ch2", COPY), m.finish_entry("ch2", "queue-1")),
            "ch2 still has 1_1_1_0 after it was dropped",
        ),
        (lambda m: m.append(2, REPLACE), "1_3_3_1 was created before"),
        (lambda m: copies.receive(m, ATTACH, set(), 1), "it comes with nobody"),
        (
            lambda m: m.append(
                2, LogEntry("REPLACE_RANGE", "ch1", None, copies=(OLD,), range=RANGE)
            ),
            "1_1_1_0 was created before",
        ),
        (
            lambda m: m.append(
                2,
                LogEntry(
                    "REPLACE_RANGE",
                    "ch1",
                    None,
                    copies=(PartName.named("1_4_4_0"),),
                    range=PartName.named("1_0_5_999999999_999999999"),
                ),
            ),
            "1_4_4_0 is in the range that it replaces",
        ),
        (
            lambda m: m.get_part("ch2", PartName.named("1_9_9_0")),
            "1_9_9_0 is in no entry of the log",
        ),
    ],
)
def test_what_a_statement_may_not_do(step: Callable[[Model], object], why: str) -> None:
    with pytest.raises(Departure) as raised:
        step(replaced())
    assert str(raised.value) == why
