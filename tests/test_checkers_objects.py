"""Objects of an object store: literal histories, whole verdicts."""

import pytest
from checkers_cases import fault, history, insert, rest
from checkers_cases import final as final_read
from checkers_cases import read as call
from hypothesis import given
from hypothesis import strategies as st

from checkers.replication.objects import Objects
from harness.core.verdict import Status

SHARED = {"0_0_0_0": {"data.bin": "k1", "checksums.txt": "k2"}}
OWN = {"0_0_0_0": {"data.bin": "k3", "checksums.txt": "k4"}}
STORED = {"k1": 100, "k2": 20}
LOCKS = {"0_0_0_0": {"k2": ["ch1", "ch2"]}}
EACH = {"0_0_0_0": {"k2": ["ch1"], "k4": ["ch2"]}}


def told(f, value, at, node="ch1", process=0):
    events = call(process, (), at, at + 1, node=node, f=f, key=None)
    events[1].op["value"] = value
    return events


def look(at, node="ch1", parts=SHARED, *, f="final-objects", missing=(), held=(), requests=()):
    count = sum(map(len, parts.values()))
    value = {"parts": parts, "held": [*held], "references": count, "missing": dict(missing)}
    return told(f, {**value, "requests": dict(requests)}, at, node)


def store(at=40, objects=STORED, locks=LOCKS, requests=()):
    value = {"objects": objects, "locks": locks, "requests": dict(requests)}
    return told("final-store", value, at)


def request(method, source, ago_s, status=200, **fault):
    return {"method": method, "source": source, "status": status, "ago_s": ago_s, **fault}


def ended(*calls, second=SHARED, reads=((7,), (7,)), held=(), **stored):
    """Return an insert of 7, rest, reads on two replicas, and one look at each of them and at the
    object store."""
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
        "orphans_by_writer": {},
        "locks": 2,
        "parts_without_lock": 0,
        "doubts": [],
        "anomalies": {},
    }


@pytest.mark.parametrize(
    ("to_check", "part", "kinds", "doubt"),
    [
        (1, "1_0_0_0", {}, ["part 1_0_0_0 is on ch1 only, to be checked"]),
        (0, "1_0_0_0", {"unlocked": 1}, []),
        (1, "1_0_1_1", {"unlocked": 1}, []),
    ],
)
def test_a_part_that_may_not_be_committed_needs_no_lock(to_check, part, kinds, doubt):
    h = history(
        insert(0, 7, 0, 1),
        rest(10, ch1={"to_check": to_check}, ch2={}),
        final_read(0, (7,), 20, 21),
        final_read(1, (7,), 20, 21, node="ch2"),
        look(30, parts={**SHARED, part: {"data.bin": "k9"}}),
        look(32, "ch2"),
        store(objects={**STORED, "k9": 300}),
    )
    verdict = Objects(zero_copy=True).check(h)
    assert (verdict.figures["anomalies"], verdict.figures["doubts"]) == (kinds, doubt)
    assert verdict.status is (Status.INVALID if kinds else Status.UNKNOWN)


def test_the_control_has_objects_of_each_replica():
    both = {**STORED, "k3": 100, "k4": 20}
    h = ended(second=OWN, objects=both, locks=EACH)
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
            ended(locks={**LOCKS, "0_1_1_0": {"k9": ["ch2"]}}),
            "ch2 holds the lock of part 0_1_1_0, which it does not have (op #13 at 0.041 s)",
            (11, 13),
        ),
        (
            ended(locks={"0_0_0_0": {"k2": ["ch1"]}}),
            "ch2 has part 0_0_0_0 on the store without a lock (op #13 at 0.041 s)",
            (11, 13),
        ),
        (
            ended(second=OWN, objects={**STORED, "k3": 1, "k4": 1}, locks=EACH),
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


def test_a_witness_says_who_wrote_and_who_deleted_an_object():
    requests = {
        "k9": [
            request("PUT", "ch1", 0.035),
            request("POST", "ch2", 0.02, 503, fault="store-errors"),
            request("DELETE", "ch2", 0.01, None, fault="store-down"),
        ]
    }
    verdict = Objects(zero_copy=True).check(ended(objects={**STORED, "k9": 300}, requests=requests))
    assert verdict.summary == (
        "no replica refers to k9, of 300 bytes; the store's log has PUT by ch1 at 0.006 s: 200; "
        "POST by ch2 at 0.021 s: 503, store-errors; DELETE by ch2 at 0.031 s: not done, store-down "
        "(op #13 at 0.041 s)"
    )
    assert verdict.figures["orphans_by_writer"] == {"ch1, delete failed": 1}


def test_objects_of_detached_parts_and_rows_of_dropped_keys_are_no_violation():
    drop = call(2, (), 3, 4, "info", f="drop")
    h = ended(drop, held=["k9"], reads=((), ()), objects={**STORED, "k9": 300})
    verdict = Objects(zero_copy=True).check(h)
    assert (verdict.status, verdict.summary) == (
        Status.UNKNOWN,
        "no object or no row was checked",
    )


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([call(2, (7,), 3, 4, f="reattach")], Status.INVALID),
        ([call(2, (), 3, 4, f="reattach")], Status.UNKNOWN),
        ([call(2, None, 3, 4, "info", f="reattach")], Status.UNKNOWN),
        (
            [call(2, (7,), 3, 4, f="reattach"), call(2, None, 5, None, f="reattach")],
            Status.UNKNOWN,
        ),
    ],
)
def test_a_row_of_a_reattached_key_is_judged_if_each_call_saw_it_and_ended_ok(calls, status):
    verdict = Objects(zero_copy=True).check(ended(*calls, reads=((7,), ())))
    assert verdict.status is status


@pytest.mark.parametrize(
    ("rebuild", "status"),
    [
        (call(2, None, 0, 4, f="rebuild"), Status.UNKNOWN),
        (call(2, None, 2, 4, f="rebuild"), Status.INVALID),
        (call(2, None, 0, 4, f="rebuild", node="ch2"), Status.INVALID),
    ],
)
def test_a_row_acknowledged_by_a_replica_that_was_being_rebuilt_is_not_judged(rebuild, status):
    assert Objects(zero_copy=True).check(ended(rebuild, reads=((7,), ()))).status is status


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


KEYS = [f"k{i}" for i in range(5)]
FILES = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(KEYS), min_size=1)
PARTS = st.dictionaries(st.sampled_from(["p", "q"]), FILES)
HELD = st.sets(st.sampled_from(KEYS))
NODES = st.sets(st.sampled_from(["ch1", "ch2"]))


@given(
    parts=st.tuples(PARTS, PARTS),
    held=st.tuples(HELD, HELD),
    missing=st.tuples(HELD, HELD),
    objects=HELD,
    locks=st.dictionaries(st.sampled_from(["p", "q", "r"]), NODES),
    read=st.tuples(st.booleans(), st.booleans()),
    zero_copy=st.booleans(),
)
def test_the_violations_are_those_of_the_definitions(
    parts, held, missing, objects, locks, read, zero_copy
):
    nodes = ("ch1", "ch2")
    owned = {
        (node, part): files
        for node, of in zip(nodes, parts, strict=True)
        for part, files in of.items()
    }
    locked = {(node, part) for part, of in locks.items() for node in of}
    lacking = [{"p": sorted(keys)} if keys else {} for keys in missing]
    h = history(
        insert(0, 7, 0, 1),
        rest(10, ch1={}, ch2={}),
        *(
            final_read(i, (7,) if read[i] else (), 20, 21, node=node)
            for i, node in enumerate(nodes)
        ),
        *(
            look(30 + 2 * i, node, parts[i], held=sorted(held[i]), missing=lacking[i])
            for i, node in enumerate(nodes)
        ),
        store(
            objects=dict.fromkeys(sorted(objects), 1),
            locks={p: {"k": sorted(of)} for p, of in locks.items()},
        ),
    )
    used = {key for files in owned.values() for key in files.values()} | held[0] | held[1]
    both = [(a, b) for a in owned.items() for b in owned.items() if a[0][0] < b[0][0]]
    expected = {
        "dangling": bool(missing[0] or missing[1]),
        "orphan": bool(objects - used),
        "idle-lock": bool(locked - owned.keys()),
        "unlocked": zero_copy and bool(owned.keys() - locked),
        "copied": zero_copy
        and any(
            a[0][1] == b[0][1] and any(a[1].get(f, k) != k for f, k in b[1].items())
            for a, b in both
        ),
        "shared": not zero_copy and any(set(a[1].values()) & set(b[1].values()) for a, b in both),
        "lost": not all(read),
    }
    found = Objects(zero_copy=zero_copy).check(h)
    assert set(found.figures["anomalies"]) == {kind for kind, there in expected.items() if there}
    assert found.figures["anomalies"].get("orphan", 0) == len(objects - used)


STRUCK = fault(3, 5, "ch2", "disk-eio-reads", nodes=["ch2"], takes="unreadable")
REFUSED = final_read(1, None, 15, 16, node="ch2", kind="fail")


@pytest.mark.parametrize(
    ("calls", "first", "status"),
    [
        ([STRUCK, REFUSED], (7,), Status.UNKNOWN),
        ([STRUCK], (7,), Status.INVALID),
        ([REFUSED], (7,), Status.INVALID),
        ([STRUCK, REFUSED], (), Status.INVALID),
    ],
    ids=["it is fetching", "it refused nothing", "no fault struck it", "nobody has the row"],
)
def test_a_row_that_a_struck_replica_fetches_again_is_not_lost(calls, first, status):
    assert Objects(zero_copy=True).check(ended(*calls, reads=(first, ()))).status is status
