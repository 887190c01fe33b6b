"""How many ops a second the harness makes with a client that does nothing, journal included.

    python -m benches.interpreter [--seconds 5] [--concurrency 10]

Prints one JSON object: for run_threads and run_virtual, calls ended per second of wall time over
the whole run (threads started, journal closed and on disk); and microseconds for op + update.
"""

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path

from harness.core.clock import WallClock
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Context, Generator, Ready
from harness.core.seed import Seed
from harness.generators import (
    faults,
    limit,
    mix,
    numbered,
    on_clients,
    on_nemesis,
    per_key,
    rate,
    time_limit,
    together,
)
from harness.run.interpreter import run_threads
from harness.run.journal import Journal, read_history
from harness.run.scheduler import Scheduler, workers_on
from harness.run.virtual import run_virtual

NODES = ("ch1", "ch2", "ch3")
SEED = Seed(0x5EED)


class Idle:
    """Answers at once: an insert is ok, a read returns three values."""

    def invoke(self, op: Op) -> Done:
        return Done(Kind.OK, value=(1, 2, 3)) if op.f == "read" else Done(Kind.OK)

    def close(self) -> None:
        pass

    def start(self, op: Op, now_ns: int) -> tuple[Done, int]:
        return self.invoke(op), now_ns + 1_000_000


def workload(ops_per_s: float | None = None) -> Generator:
    def one_key(key: int) -> Generator:
        inserts = numbered(lambda n: Call(f="insert", value=n, key=key))
        reads = numbered(lambda _: Call(f="read", key=key))
        return mix(SEED.child("mix", key), [(1, inserts), (1, reads)])

    calls = per_key(SEED.child("keys"), one_key, keys=3, ops_per_key=300)
    return calls if ops_per_s is None else rate(calls, ops_per_s, SEED.child("rate"))


def main_job(seconds: float, ops_per_s: float | None) -> Generator:
    def fault(edge: str) -> Call:
        return Call(f="partition", value={"fault": 1, "edge": edge, "name": "p", "text": "t"})

    schedule = faults(
        lambda _: fault("begin"), lambda _: fault("end"), interval_s=0.5, duration_s=0.5
    )
    return time_limit(together(on_clients(workload(ops_per_s)), on_nemesis(schedule)), seconds)


def threads_ops_per_s(seconds: float, concurrency: int, ops_per_s: float | None = None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        clock = WallClock()
        journal = Journal(path)
        scheduler = Scheduler(workers_on(NODES, concurrency), journal.append)
        trouble = run_threads(
            scheduler,
            main_job(seconds, ops_per_s),
            client=lambda _: Idle(),
            nemesis=lambda op: Done(Kind.OK, op.value),
            clock=clock,
            stop=threading.Event(),
        )
        journal.close()
        took_s = clock.now_ns() / 1e9
        assert trouble.bugs == 0
        return len(read_history(path).pairs) / took_s


def virtual_ops_per_s(calls: int, concurrency: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        clock = WallClock()
        journal = Journal(Path(folder) / "history.jsonl")
        scheduler = Scheduler(workers_on(NODES, concurrency), journal.append)
        run_virtual(scheduler, limit(on_clients(workload()), calls), client=lambda _: Idle())
        journal.close()
        return calls / (clock.now_ns() / 1e9)


def generator_us(calls: int) -> float:
    """Of op, and of update for the call and for its end, of mix in rate."""
    reads = numbered(lambda n: Call(f="read", value=n))
    writes = numbered(lambda n: Call(f="insert", value=n))
    generator = rate(mix(SEED, [(1, reads), (1, writes)]), 1e9, SEED)
    workers = workers_on(NODES, 10)
    end = Op(index=0, process=0, kind=Kind.OK, f="read", time_ns=0, node="ch1")
    made, now_ns = 0, 0
    clock = WallClock()
    while made < calls:
        now_ns += 1000
        context = Context(now_ns, workers, ())
        step, generator = generator.op(context)
        if isinstance(step, Ready):
            made += 1
            generator = generator.update(context, end).update(context, end)
    return clock.now_ns() / 1e3 / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--concurrency", type=int, default=10)
    args = parser.parse_args()
    figures = {
        "threads_ops_per_s": round(threads_ops_per_s(args.seconds, args.concurrency)),
        "threads_at_rate_1000": round(threads_ops_per_s(args.seconds, args.concurrency, 1000)),
        "virtual_ops_per_s": round(virtual_ops_per_s(50_000, args.concurrency)),
        "generator_us": round(generator_us(100_000), 2),
        "concurrency": args.concurrency,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
