"""The checkers of DDL tasks, of Distributed tables and of reloads, on histories by hand."""

import pytest
from checkers_cases import Event, _call, _nemesis, fault, history, insert, rest

from checkers.ddl.ddl import EFFECTS, TASKS, Ddl
from checkers.ddl.reload import Reload
from checkers.replication.distributed import Distributed, Placed
from harness.core.verdict import Status, Verdict


def alter(kind="ok", number=7):
    return _call(0, "alter", 1, 2, kind, "ch1", None, number, number, None)


def told(tasks, **effects):
    """Return the answers about the queue's tasks and about the effects on each host."""
    out = _call(1, TASKS, 10, 11, "ok", "ch1", None, None, {"tasks": tasks}, None)
    for at, (host, names) in enumerate(effects.items()):
        value = {"effects": names}
        out += _call(2 + at, EFFECTS, 12, 13, "ok", host, None, None, value, None)
    return out


def kinds(found: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in found.anomalies]


DONE = {"alter:7": {"ch1": "0", "ch2": "0"}}
TWICE = {"alter:7": {"ch1": "0", "ch2": "44 Column c_7 already exists"}}
LATE = {"alter:7": {"ch1": "0"}}
SHARED = {"alter-replicated:7": {"ch1": "48 Cannot enqueue", "ch2": "0"}}
VALID: tuple[Status, list[str]] = (Status.VALID, [])
HAVE = {"ch1": ["alter:7"], "ch2": ["alter:7"]}
HALF: dict[str, list[str]] = {"ch1": ["alter:7"], "ch2": []}


@pytest.mark.parametrize(
    ("calls", "status", "found"),
    [
        ((alter(), told(DONE, **HAVE)), Status.VALID, []),
        ((alter("info"), told(DONE, **HAVE)), Status.VALID, []),
        ((alter("fail"), told({}, ch1=[], ch2=[])), Status.UNKNOWN, []),
        ((alter(), told(DONE, **HALF)), Status.INVALID, ["without-effect"]),
        ((alter("info"), told(TWICE, **HAVE)), Status.INVALID, ["executed-twice"]),
        ((alter("info"), told(TWICE, **HALF)), Status.VALID, []),
        ((alter("ok"), told(TWICE, **HALF)), Status.INVALID, ["lost"]),
        ((alter("info"), rest(9), told(LATE, **HAVE)), Status.INVALID, ["unfinished"]),
        ((alter("info"), rest(9, "1 task"), told(LATE, **HAVE)), Status.UNKNOWN, []),
        ((alter("info"), told(LATE, **HAVE)), Status.UNKNOWN, []),
        ((alter("info"), told({}, **HALF)), Status.INVALID, ["unacknowledged-effect"]),
        ((alter(),), Status.UNKNOWN, []),
        ((told(SHARED, ch1=["alter-replicated:7"], ch2=["alter-replicated:7"]),), *VALID),
        ((told(SHARED, ch1=[], ch2=["alter-replicated:7"]),), *VALID),
        ((told(SHARED, ch1=[], ch2=[]),), Status.INVALID, ["without-effect"]),
    ],
)
def test_tasks_against_effects(calls: tuple[list[Event], ...], status: Status, found) -> None:
    verdict = Ddl().check(history(*calls))
    assert (verdict.status, kinds(verdict)) == (status, found)


SHARDS = {"ch1": {"shard": 0}, "ch2": {"shard": 0}, "ch3": {"shard": 1}}


def finals(**rows):
    return [
        event
        for at, (node, values) in enumerate(rows.items())
        for event in _call(9 + at, "final-read", 50, 51, "ok", node, None, None, values, None)
    ]


def at_rest(*pending):
    return _nemesis("quiesce", 40, "ok", {"pending": list(pending), "replicas": SHARDS})


def sent(kind="ok"):
    return insert(0, 5, 1, 2, kind)


@pytest.mark.parametrize(
    ("kind", "rows", "found"),
    [
        ("ok", {"ch1": (5,), "ch2": (5,), "ch3": (5,)}, []),
        ("ok", {"ch1": (5,), "ch2": (5,), "ch3": ()}, ["lost"]),
        ("ok", {"ch1": (5,), "ch2": (), "ch3": (5,)}, ["missing-copy"]),
        ("ok", {"ch1": (5, 5), "ch2": (5,), "ch3": (5,)}, ["duplicate"]),
        ("ok", {"ch1": (5, -7), "ch2": (5,), "ch3": (5,)}, ["misplaced"]),
        ("fail", {"ch1": (5,), "ch2": (5,), "ch3": ()}, ["phantom"]),
        ("info", {"ch1": (), "ch2": (), "ch3": (5,)}, []),
        ("info", {"ch1": (5,), "ch2": (), "ch3": ()}, ["missing-copy"]),
    ],
)
def test_rows_on_every_replica_of_their_shard(kind, rows, found) -> None:
    checker = Distributed(every_copy=True, replicated=True)
    others = insert(1, 0, 1, 2)
    here = {node: (*values, 0) for node, values in rows.items()}
    verdict = checker.check(history(sent(kind), others, at_rest(), finals(**here)))
    assert kinds(verdict) == found
    assert verdict.status is (Status.INVALID if found else Status.VALID)


def test_one_copy_of_a_shard_is_enough_where_tables_do_not_replicate() -> None:
    checker = Distributed(every_copy=False, replicated=False)
    once = history(sent(), at_rest(), finals(ch1=(5,), ch2=(), ch3=(5,)))
    assert checker.check(once).status is Status.VALID
    twice = history(sent(), at_rest(), finals(ch1=(5,), ch2=(5,), ch3=(5,)))
    assert kinds(checker.check(twice)) == ["duplicate"]
    both = Distributed(every_copy=True, replicated=False)
    torn = history(sent("info"), insert(1, 6, 1, 2), at_rest(),
                   finals(ch1=(5, 6), ch2=(6,), ch3=(6,)))  # fmt: skip
    verdict = both.check(torn)
    assert (verdict.status, verdict.figures["unknown_differs"]) == (Status.VALID, 1)


def test_before_rest_a_row_may_still_come() -> None:
    checker = Distributed(every_copy=True, replicated=True)
    late = history(sent(), at_rest("ch1 has 1 files to send"), finals(ch1=(5,), ch2=(5,), ch3=()))
    assert checker.check(late).status is Status.UNKNOWN
    silent = history(sent(), at_rest(), finals(ch1=(5,), ch2=(5,)))
    assert checker.check(silent).status is Status.UNKNOWN


def looked(**copies):
    """Return the acknowledged value 5, and how many times each replica had it right afterwards."""
    begin, end = insert(0, 5, 1, 2)
    end.op["value"] = {"value": 5, "copies": copies}
    return [begin, end]


ALL_SENT = finals(ch1=(5,), ch2=(5,), ch3=(5,))
"""Final reads in which the value is everywhere, whenever it was sent."""


@pytest.mark.parametrize(
    ("copies", "one", "each"),
    [
        ({"ch1": 1, "ch2": 1, "ch3": 1}, VALID, VALID),
        ({"ch1": 1, "ch2": 0, "ch3": 1}, VALID, (Status.INVALID, ["not-placed"])),
        ({"ch1": 1, "ch2": 1, "ch3": 0}, *2 * [(Status.INVALID, ["not-placed"])]),
        # ch2 did not answer, and may have been the one.
        ({"ch1": 0, "ch3": 1}, VALID, (Status.INVALID, ["not-placed"])),
        ({}, *2 * [(Status.UNKNOWN, [])]),
    ],
)
def test_what_is_acknowledged_as_placed_is_there_at_once(copies, one, each) -> None:
    """The rows at rest are right in each case, and all that was looked at before."""
    h = history(looked(**copies), at_rest(), ALL_SENT)
    for placed, expected in ((Placed.ONE, one), (Placed.EACH, each), (Placed.LATER, VALID)):
        found = Distributed(every_copy=True, replicated=True, placed=placed).check(h)
        assert (found.status, kinds(found)) == expected


S = 1000


def write(at, number):
    return _call(0, "write", at * S, at * S + 1, "ok", "ch1", None, number, number, None)


def broken(at, number):
    return _call(0, "write-broken", at * S, at * S + 1, "ok", "ch1", None, number, number, None)


def reload(at, kind="ok"):
    return _call(1, "reload", at * S, at * S + 1, kind, "ch1", None, None, None, None)


def shows(at, number, uptime=100, macro=None, process=0, took=1):
    value = {"cluster": number, "macro": number if macro is None else macro, "uptime_s": uptime}
    return _call(process, "read", at * S, at * S + took, "ok", "ch1", None, None, value, None)


def roots(at, number, zookeeper, *, hot):
    """Return a read that also shows the generation of ZooKeeper's root."""
    value = {"cluster": number, "macro": number, "uptime_s": 100}
    value |= {"zookeeper": zookeeper, "zookeeper_hot": hot}
    return _call(0, "read", at * S, at * S + 1, "ok", "ch1", None, None, value, None)


HOT, COLD = {"hot": True}, {"hot": False}
KILLED = fault(2 * S, 3 * S, name="kill")


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ((write(1, 0), reload(2), roots(3, 0, 0, **HOT)), []),
        ((write(1, 0), reload(2), roots(3, 0, -1, **HOT)), ["stale"]),
        ((write(1, 0), roots(2, 0, 0, **HOT), roots(3, 0, -1, **HOT)), ["backwards"]),
        ((roots(1, -1, -1, **COLD), write(2, 0), roots(3, 0, -1, **COLD)), []),
        ((roots(1, -1, -1, **COLD), write(2, 0), roots(3, 0, 0, **COLD)), ["reloaded"]),
        ((roots(1, -1, -1, **COLD), write(1.5, 0), KILLED, roots(4, 0, 0, **COLD)), []),
        ((write(1, 0), reload(2), shows(3, 0)), []),
        ((write(1, 0), reload(2), shows(3, -1)), ["stale", "stale"]),
        ((write(1, 0), reload(2), shows(3, 0, macro=-1)), ["stale"]),
        ((write(1, 0), reload(2), write(3, 1), shows(4, 0)), []),
        ((write(1, 0), reload(2), write(3, 1), shows(14, 0)), ["stale", "stale"]),
        ((write(1, 0), reload(2), broken(3, 1), shows(14, 0)), []),
        ((write(1, 0), reload(2), broken(3, 1), reload(4, "info"), shows(5, -1)), ["stale"] * 2),
        ((write(1, 0), reload(2), shows(3, 1)), ["future", "future"]),
        ((write(1, 0), write(2, 1), shows(3, 1), shows(4, 0)), ["backwards"]),
        ((write(1, 0), write(2, 1), shows(4, 1), shows(3, 0, process=2, took=2 * S)), []),
        ((write(1, 0), reload(2), shows(9, 0, uptime=3)), ["restarted"]),
    ],
)
def test_what_is_shown_against_what_was_written(calls, found) -> None:
    verdict = Reload().check(history(*calls))
    assert kinds(verdict) == found
    assert (verdict.status is Status.INVALID) == bool(found)
