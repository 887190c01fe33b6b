"""Stored runs to draw: histories by hand, and long ones by a rule."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from checkers_cases import fault, final, history, insert, read, rest

from checkers.judge import judge
from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.core.engines import Engines
from harness.core.history import History
from harness.core.lines import encoded
from harness.core.op import Json, Kind, Op
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.spec.run_spec import RunSpec
from harness.store.store import RunDirectory, Store

WHEN = datetime(2026, 11, 20, 17, 45, 9, tzinfo=UTC)
NASTY = (
    "</script><script>document.title='owned'</script><!--<img src=x onerror=\"alert(1)\">"
    "\u202e\U0001f980\u2028\u05d0\u05d1 &amp; 'q' \"d\" {{ 7 * 7 }}"
)
"""Markup, an open comment, an override of direction, an astral character, a line separator, letters
from right to left, entities, quotes, a template."""
SHOWN = NASTY.replace("\u2028", " ")
"""Script that returns the text that a browser shows."""


def stale() -> History:
    """Return a history in which value 2 is acknowledged on ch1, and missed 900 ms later by a read
    on ch2, which is cut off."""
    return history(
        insert(0, 1, 1, 4),
        read(1, [1], 5, 7, node="ch2"),
        fault(8, 1500, text="{ch2 | ch1 ch3}"),
        insert(0, 2, 10, 60),
        insert(2, 3, 20, 900, "info", node="ch3", error="209 SOCKET_TIMEOUT: none"),
        read(4, None, 100, 130, "fail", node="ch2", error="289 REPLICA_IS_NOT_IN_QUORUM: no"),
        read(1, [1], 960, 964, node="ch2"),
        rest(1600),
        *(final(p, [1, 2, 3], 1700, 1702, node=f"ch{p + 1}") for p in (0, 1)),
        final(5, [1, 2, 3], 1700, 1702, node="ch3"),
    )


def backwards() -> History:
    """Return a history with a stale read, and a process that reads value 2 and then misses it."""
    return history(
        insert(0, 1, 1, 4),
        read(1, [1], 5, 7, node="ch2"),
        insert(0, 2, 10, 60),
        read(1, [1, 2], 100, 104, node="ch2"),
        read(1, [1], 110, 114, node="ch2"),
        rest(1600),
        *(final(p, [1, 2], 1700, 1702, node=f"ch{p + 1}") for p in (0, 1)),
        final(5, [1, 2], 1700, 1702, node="ch3"),
    )


LONG_LABEL = "{ch2 zk2 | ch1 ch3 zk1 zk3}, leader zk1, clients connected"


def onset() -> History:
    """Return a history in which value 2 is missed by a read that begins while a fault with a long
    label is being injected."""
    return history(
        insert(0, 1, 1, 4),
        read(1, [1], 5, 7, node="ch2"),
        insert(0, 2, 10, 60),
        fault(980, 1_500, text=LONG_LABEL, name="partition-keeper-follower", invoked=900),
        read(1, [1], 960, 990, node="ch2"),
        rest(1600),
        *(final(p, [1, 2], 1700, 1702, node=f"ch{p + 1}") for p in (0, 1)),
        final(5, [1, 2], 1700, 1702, node="ch3"),
    )


def sound() -> History:
    """Return a valid history."""
    writes = [insert(0, v, v * 10, v * 10 + 4) for v in range(1, 15)]
    reads = [read(1, range(1, v + 1), v * 10 + 5, v * 10 + 7, node="ch2") for v in range(1, 15)]
    finals = [final(p, range(1, 15), 300, 301, node=f"ch{p + 1}") for p in (0, 1)]
    return history(*writes, *reads, rest(200), *finals)


def long(calls: int) -> History:
    """Return a history with this many calls on three nodes: a tenth are inserts, sets grow up to
    200 values, and the last reads miss one."""
    ops: list[Op] = []
    open_: list[tuple[int, Op]] = []
    acknowledged: dict[int, list[int]] = {}
    for i in range(calls):
        begin_ns, worker, key = i * 300_000, i % 6, i // 2_000
        node = f"ch{worker % 3 + 1}"
        writes = i % 10 == 0
        values = acknowledged.setdefault(key, [])
        call = {"process": worker, "node": node, "key": key, "f": "insert" if writes else "read"}
        value = i if writes else None
        answer: int | tuple[int, ...] | None = i if writes else tuple(values)
        kind = Kind.FAIL if i % 7 == 3 else Kind.OK
        if kind is Kind.FAIL:
            answer = value
        elif writes:
            values.append(i)
        elif i > calls - 4 and values:
            answer = tuple(values[1:])
        end_ns = begin_ns + 200_000 + (i * 7919) % 1_400_000
        error = "286 UNSATISFIED_QUORUM: busy" if kind is Kind.FAIL else None
        for _, op in [pair for pair in open_ if pair[0] <= begin_ns]:
            ops.append(op)
        open_ = [pair for pair in open_ if pair[0] > begin_ns]
        ops.append(Op(index=0, kind=Kind.INVOKE, time_ns=begin_ns, value=value, **call))
        end = Op(index=0, kind=kind, time_ns=end_ns, value=answer, error=error, **call)
        open_ = sorted([*open_, (end_ns, end)], key=lambda pair: pair[0])
    ops += [op for _, op in open_]
    return History(
        [
            Op(index=i, process=op.process, kind=op.kind, f=op.f, time_ns=op.time_ns,
               value=op.value, key=op.key, node=op.node, error=op.error)
            for i, op in enumerate(ops)
        ]
    )  # fmt: skip


def begun(
    store: Path,
    ops: History,
    *,
    workload: str = "quorum-set",
    nemesis: str = "partition",
    when: datetime = WHEN,
    seed: int = 0x5EED,
    workload_options: Mapping[str, Json] | None = None,
    version: str = "18.16.1",
) -> RunDirectory:
    """Return a run with a journal whose end nobody recorded."""
    run = Store(store).create(workload, nemesis, Seed(seed), when)
    spec = RunSpec(
        workload=workload, nemesis=nemesis, seed=Seed(seed), promise="linearizable",
        command=f"harness run --nemesis {nemesis} --seed {seed:#x}",
        workload_options=workload_options or {},
    )  # fmt: skip
    run.begin(spec, Engines(), Topology.of(), {f"ch{i}": version for i in (1, 2, 3)})
    run.began(when)
    info = json.loads(run.info_file.read_text())
    run.info_file.write_text(json.dumps({**info, "started_utc": when.isoformat()}))
    run.journal.write_bytes(b"".join(encoded(op) for op in ops))
    return run


def finished(store: Path, ops: History, *, least: int = 1, **given: object) -> RunDirectory:
    """Return a judged run, which is UNKNOWN with fewer ok inserts or reads than `least`."""
    run = begun(store, ops, **given)
    checkers = set_checkers(
        Level.LINEARIZABLE, faults_expected=False, min_ok={"insert": least, "read": least}
    )
    run.finish(judge(ops, checkers, 60, "linearizable"), history=ops)
    return run
