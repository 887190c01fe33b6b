"""Operations per second of the harness with a client that does nothing, journal included.

    python -m benches.interpreter [--seconds 10] [--concurrency 10]

Prints one JSON object: for run_threads, calls ended per second of wall time over
the whole run (threads started, journal closed and on disk), the median of several runs; and
microseconds for op + update of mix in rate, the best of several. "main_job" is the generator of a
real run: keys, a mixture on each, a nemesis with its schedule beside it, a time limit; "mixture" is
a mixture under a time limit. Other programs on the machine's cores count against the figures: look
at the load first.
"""

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median

from harness.core.clock import WallClock
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Context, Generator, Ready
from harness.core.seed import Seed
from harness.generators import (
    mix,
    numbered,
    on_clients,
    on_nemesis,
    per_key,
    rate,
    time_limit,
    together,
)
from harness.native.generators import Scheduler
from harness.run.interpreter import run_threads, workers_on
from harness.store.journal import Journal, read_history
from nemesis.options import FaultOptions
from nemesis.schedule import Track, schedule

NODES = ("ch1", "ch2", "ch3")
SEED = Seed(0x5EED)
RUNS = 5


class Idle:
    """Answers at once: an insert is ok, a read returns three values."""

    def invoke(self, op: Op) -> Done:
        """Return at once."""
        return Done(Kind.OK, value=(1, 2, 3)) if op.f == "read" else Done(Kind.OK)

    def close(self) -> None:
        """Do nothing."""


def workload(ops_per_s: float | None = None) -> Generator:
    def one_key(key: int) -> Generator:
        inserts = numbered(lambda n: Call(f="insert", value=n, key=key))
        reads = numbered(lambda _: Call(f="read", key=key))
        return mix(SEED.child("mix", key), [(1, inserts), (1, reads)])

    calls = per_key(SEED.child("keys"), one_key, keys=3, ops_per_key=300)
    return calls if ops_per_s is None else rate(calls, ops_per_s, SEED.child("rate"))


def main_job(seconds: float, ops_per_s: float | None) -> Generator:
    track = Track("partition", once=False, plan=lambda *_: {"name": "p", "text": "t"})
    options = FaultOptions(interval_s=0.5, duration_s=0.5, jitter=0)
    faults = schedule([track], SEED, options)
    return time_limit(together(on_clients(workload(ops_per_s)), on_nemesis(faults)), seconds)


def mixture(seconds: float) -> Generator:
    reads = numbered(lambda n: Call(f="read", value=n))
    writes = numbered(lambda n: Call(f="insert", value=n))
    return time_limit(mix(SEED, [(1, reads), (1, writes)]), seconds)


def threads_ops_per_s(generator: Generator, concurrency: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        clock = WallClock()
        journal = Journal(path)
        scheduler = Scheduler(workers_on(NODES, concurrency), journal.append)
        issues = run_threads(
            scheduler,
            generator,
            client=lambda _: Idle(),
            nemesis=lambda op: Done(Kind.OK, op.value),
            clock=clock,
            stop=threading.Event(),
        )
        journal.close()
        took_s = clock.now_ns() / 1e9
        assert issues.bugs == 0
        return len(read_history(path).pairs) / took_s


def generator_us(calls: int) -> float:
    """Return the microseconds of one op and two updates (call and end) of mix in rate."""
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
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--concurrency", type=int, default=10)
    args = parser.parse_args()
    seconds, workers = args.seconds / RUNS, args.concurrency
    figures = {
        "threads_main_job_ops_per_s": round(
            median(threads_ops_per_s(main_job(seconds, None), workers) for _ in range(RUNS))
        ),
        "threads_mixture_ops_per_s": round(
            median(threads_ops_per_s(mixture(seconds), workers) for _ in range(RUNS))
        ),
        "threads_at_rate_1000": round(threads_ops_per_s(main_job(args.seconds, 1000), workers)),
        "generator_us": round(min(generator_us(10_000) for _ in range(RUNS)), 2),
        "concurrency": workers,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
