"""The checker of what replicas write to ZooKeeper about mutations, on histories by hand."""

import pytest
from checkers_cases import Event, _call, history

from checkers.ddl.mutation_log import OBSERVE, MutationLog
from harness.core.verdict import Status
from workloads.zookeeper_looks import block_numbers, mutate_entry

FIRST, SECOND = "0000000000", "0000000001"


def look(
    at: float,
    pointer: str,
    *entries: tuple[str, str, str],
    lost: int = 0,
) -> list[Event]:
    """Return two mutations, whose numbers in partition 0 are 5 and 9, and the pointer of ch1."""
    value = {
        "pointers": {"ch1": pointer, "ch2": ""},
        "lost": {"ch1": lost, "ch2": 0},
        "mutations": {FIRST: {"0": 5}, SECOND: {"0": 9}},
        "entries": [list(entry) for entry in entries],
    }
    return _call(0, OBSERVE, at, at + 0.5, "ok", "ch1", None, None, value, None)


MUTATED = ("ch2", "0_1_4_1", "0_1_4_1_5")
GOOD = (look(1, "", MUTATED), look(2, FIRST))


@pytest.mark.parametrize(
    ("calls", "status", "kinds"),
    [
        (GOOD, Status.VALID, []),
        ((*GOOD, look(3, SECOND, ("ch1", "0_1_4_1_5", "0_1_4_1_9"))), Status.VALID, []),
        # The pointer goes back, and the replica cloned nobody, or somebody.
        ((*GOOD, look(3, "")), Status.INVALID, ["went-back"]),
        ((*GOOD, look(3, "", lost=1)), Status.VALID, []),
        # The mutated part has other blocks, a number of no mutation, or an older one.
        ((*GOOD, look(3, FIRST, ("ch1", "0_1_4_1", "0_1_4_2_5"))), Status.INVALID, ["misnamed"]),
        ((*GOOD, look(3, FIRST, ("ch1", "0_1_4_1", "0_1_4_1_7"))), Status.INVALID, ["misnamed"]),
        ((*GOOD, look(3, FIRST, ("ch1", "0_1_4_1_9", "0_1_4_1_5"))), Status.INVALID, ["misnamed"]),
        ((look(1, ""), look(2, FIRST)), Status.UNKNOWN, []),
        ((look(1, "", MUTATED), look(2, "")), Status.UNKNOWN, []),
    ],
)
def test_pointers_and_names(
    calls: tuple[list[Event], ...], status: Status, kinds: list[str]
) -> None:
    verdict = MutationLog().check(history(*calls))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == (status, kinds)


def test_the_verdict_says_who_assigned_mutations() -> None:
    assert MutationLog().check(history(*GOOD)).summary == (
        "1 log entry of mutations, by ch2 1; 1 step of mutation_pointer, none back"
    )


def test_what_servers_write_is_read() -> None:
    head = ["format version: 4", "create_time: 2026-11-24 14:14:02", "source replica: ch1"]
    entry = [*head, "block_id: ", "mutate", "0_1_1_0", "to", "0_1_1_0_5", "alter_version", "-1"]
    assert mutate_entry(entry) == ("ch1", "0_1_1_0", "0_1_1_0_5")
    assert mutate_entry([*head, "block_id: ", "get", "0_1_1_0"]) is None
    numbers = ["format version: 1", "block numbers count: 2", "0\t5", "1\t3", "commands: UPDATE …"]
    assert block_numbers(numbers) == {"0": 5, "1": 3}
