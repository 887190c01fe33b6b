"""Objects of an object store: literal histories, whole verdicts."""

import pytest
from checkers_cases import final as final_read
from checkers_cases import history, insert, rest
from checkers_cases import read as call

from checkers.replication.objects import Objects
from harness.core.verdict import Status

SHARED = {"0_0_0_0": {"data.bin": "k1", "checksums.txt": "k2"}}
OWN = {"0_0_0_0": {"data.bin": "k3", "checksums.txt": "k4"}}
STORED = {"k1": 100, "k2": 20}
LOCKS = {"0_0_0_0": {"k2": ["ch1", "ch2"]}}


def told(f, value, at, node="ch1", process=0):
    events = call(process, (), at, at + 1, node=node, f=f, key=None)
    events[1].op["value"] = value
    return events


def look(at, node="ch1", parts=SHARED, *, f="final-objects", missing=(), held=()):
    count = sum(map(len, parts.values()))
    value = {"parts": parts, "held": [*held], "references": count, "missing": dict(missing)}
    return told(f, value, at, node)


def store(at=40, objects=STORED, locks=LOCKS):
    return told("final-store", {"objects": objects, "locks": locks}, at)


def ended(*calls, second=SHARED, reads=((7,), (7,)), held=(), **stored):
    """An insert of 7, rest, reads on two replicas, a look at each and one at the store."""
    return history(
        insert(0, 7, 0, 1),
        *calls,
        rest(10, ch1={}, ch2={}),
        final_read(0, reads[0], 20, 21),
        final_read(1, reads[1], 20, 21, node="ch2"),
        look(30),
        look(32, "ch2", second, held=held),
        store(**stored),
    )


def test_objects_that_are_there_once_are_valid():
    verdict = Objects(zero_copy=True).check(ended(look(2, f="objects")))
    assert (verdict.status, verdict.summary, verdict.checked) == (
        Status.VALID,
        "6 references in 3 looks and 1 acknowledged row on 2 replicas",
        7,
    )
    assert verdict.figures == {
        "looks": 3,
        "dangling_references": 0,
        "parts": 1,
        "objects": 2,
        "stored_bytes": 120,
        "orphaned_objects": 0,
        "orphaned_bytes": 0,
        "locks": 2,
        "parts_without_lock": 0,
        "doubts": [],
        "anomalies": {},
    }


def test_the_control_has_objects_of_each_replica():
    both = {**STORED, "k3": 100, "k4": 20}
    h = ended(second=OWN, objects=both, locks={})
    assert Objects(zero_copy=False).check(h).status is Status.VALID
    assert Objects(zero_copy=True).check(h).figures["anomalies"] == {"copied": 1}
    assert Objects(zero_copy=False).check(ended()).figures["anomalies"] == {"shared": 2}


@pytest.mark.parametrize(
    ("h", "text", "ops"),
    [
        (
            ended(look(2, f="objects", missing={"0_0_0_0": ["k1"]})),
            "active part 0_0_0_0 of ch1 refers to k1, which does not exist (op #3 at 0.003 s)",
            (3,),
        ),
        (
            ended(objects={**STORED, "k9": 300}),
            "no replica refers to k9, of 300 bytes (op #13 at 0.041 s)",
            (9, 11, 13),
        ),
        (
            ended(locks={"0_1_1_0": {"k9": ["ch2"]}}),
            "ch2 holds the lock of part 0_1_1_0, which it does not have (op #13 at 0.041 s)",
            (11, 13),
        ),
        (
            ended(second=OWN, objects={**STORED, "k3": 1, "k4": 1}),
            "part 0_0_0_0 has two copies: data.bin is k1 on ch1 and k3 on ch2 (op #11 at 0.033 s)",
            (9, 11),
        ),
        (
            ended(reads=((7,), ())),
            "ch2 does not return value 7 of key 0, which was acknowledged (op #7 at 0.021 s)",
            (1, 7),
        ),
    ],
)
def test_each_violation_has_its_witness(h, text, ops):
    verdict = Objects(zero_copy=True).check(h)
    assert (verdict.status, verdict.summary) == (Status.INVALID, text)
    assert [anomaly.ops for anomaly in verdict.anomalies] == [ops]


def test_objects_of_detached_parts_and_rows_of_dropped_keys_are_no_violation():
    drop = call(2, (), 3, 4, "info", f="drop")
    h = ended(drop, held=["k9"], reads=((), ()), objects={**STORED, "k9": 300})
    verdict = Objects(zero_copy=True).check(h)
    assert (verdict.status, verdict.summary) == (
        Status.UNKNOWN,
        "no object or no row was checked",
    )


@pytest.mark.parametrize(
    ("h", "summary"),
    [
        (
            history(insert(0, 7, 0, 1), rest(10, ch1={}, ch2={}), look(30), store()),
            "ch2 was not looked at; key 0 was not read on ch1; key 0 was not read on ch2",
        ),
        (
            history(insert(0, 7, 0, 1), rest(10, "ch1 has 2 queue entries", ch1={}), store()),
            "not at rest: ch1 has 2 queue entries; ch1 was not looked at; key 0 was not read on "
            "ch1; no object or no row was checked",
        ),
    ],
)
def test_what_was_not_seen_is_not_judged(h, summary):
    verdict = Objects(zero_copy=True).check(h)
    assert (verdict.status, verdict.summary) == (Status.UNKNOWN, summary)
    assert "orphaned_objects" not in verdict.figures


def test_a_dangling_reference_needs_no_rest():
    h = history(look(2, f="objects", missing={"0_0_0_0": ["k1"]}))
    assert Objects(zero_copy=True).check(h).status is Status.INVALID
