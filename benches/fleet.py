"""Many histories: processes of this machine, and Spark, beside the threads of one process.

    python -m benches.fleet [histories ...]           # 10 100 1000 10000 unless given
    python -m benches.fleet --spark [histories ...]   # on Spark, and on processes
    python -m benches.fleet --unchanged [histories]   # check 100,000, then again
    python -m benches.fleet --huge [ops]              # a history of so many ops, beside 1,000

All read the same files from the disk, with as many threads or processes as there are cores, and
judge the same keys linearizable or not. The limit is what reading and judging takes; a check also
lists the store, reads each run.json, digests what it judges and writes the verdicts. The limit and
what is measured take turns, because the machine may have other work, and the ratio is that of the
medians. The memory is the peak of all processes together, by their proportional share (PSS).
"""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any

import pyarrow.compute as pc

from benches.fleet_histories import CALLS_A_KEY, put_long, store
from checkers.consistency.linearizable import Linearizable
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.fleet import processes
from harness.fleet.found_runs import SETTLED_S, found
from harness.fleet.location import Location
from harness.fleet.spark import Fleet
from harness.fleet.stored_runs import Checked, StoredRuns, check_fleet, verdicts_of
from harness.spec.workload_options import workload_of
from harness.store.parquet import read_parquet

OPS = 2_000
TURNS = 3
LONG = 100_000
"""Number of histories that are judged in one turn."""
FOLDERS = 20
ONLY = frozenset({"linearizable"})


class Memory:
    """The peak of this process and all that descend from it, in MB."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self.biggest_mb = 0.0
        """Peak memory of the largest Python process."""

    @contextmanager
    def watched(self) -> Iterator["Memory"]:
        """Measure twice a second while the block runs."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.5):
                sizes = [_pss_mb(pid) for pid in _family()]
                self.peak_mb = max(self.peak_mb, sum(mb for _, mb in sizes))
                python = [mb for name, mb in sizes if name.startswith("python")]
                self.biggest_mb = max([self.biggest_mb, *python])

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()


def _family() -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    family, left = [], [int(Path("/proc/self").resolve().name)]
    while left:
        pid = left.pop()
        family.append(pid)
        left += children.get(pid, [])
    return family


def _pss_mb(pid: int) -> tuple[str, float]:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "", 0.0
    return name, next(int(x.split()[1]) for x in text.split("\n") if x.startswith("Pss:")) / 1024


def _judged(path: Path) -> Status:
    return Linearizable("linearizable").check(read_parquet(path)).status


def limit(root: Path) -> tuple[float, int]:
    """Return the seconds in which the threads of one process read and judge all histories, and the
    number of violated ones."""
    begin = perf_counter()
    files = sorted(root.glob("*/*/history.parquet"))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        bad = list(threads.map(_judged, files)).count(Status.INVALID)
    return perf_counter() - begin, bad


def _checked(root: Path, engine: Any) -> Checked:
    runs = found(root)
    assert runs is not None, "the store has runs"
    return check_fleet(runs, StoredRuns(workload_of), engine, only=ONLY)


def local(root: Path) -> tuple[float, int]:
    """Return the seconds in which processes of this machine judge a store, and its violated
    histories."""
    verdicts_of(Location.of(root), ONLY).clear()
    begin = perf_counter()
    checked = _checked(root, processes.judge)
    took_s = perf_counter() - begin
    return took_s, sum(one.status is Status.INVALID for one in checked.runs.values())


def fleet(root: Path, master: str = "local[*]") -> tuple[float, float, float, int, int, Memory]:
    """Return the seconds to start Spark, to judge, and in pyporcupine; the violated histories, the
    tasks at a time, and the memory."""
    begin = perf_counter()
    with Memory().watched() as memory, closing(Fleet(master, root / "spark.log")) as spark:
        started = perf_counter()
        checked = _checked(root, spark.judge)
        ended, cores = perf_counter(), spark.cores
    rows = checked.verdicts.rows()
    bad = sum(one.status is Status.INVALID for one in checked.runs.values())
    return started - begin, ended - started, pc.sum(rows["seconds"]).as_py(), bad, cores, memory


def many(counts: list[int]) -> None:
    print(f"{'histories':>9} {'wall s':>8} {'limit s':>8} {'limit/wall':>10}")
    for count in counts:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            bad = store(root, count, OPS)
            limits, walls = [], []
            for turn in range(TURNS + 1 if count < LONG else 1):
                limit_s, seen = limit(root)
                wall_s, found_bad = local(root)
                assert bad == seen == found_bad, (bad, seen, found_bad)
                if turn or count >= 10_000:  # the first turn also loads code
                    limits.append(limit_s)
                    walls.append(wall_s)
            print(
                f"{count:9,} {median(walls):8.2f} {median(limits):8.2f} "
                f"{median(limits) / median(walls):10.2f}   "
                + " ".join(f"{a:.2f}/{b:.2f}" for a, b in zip(limits, walls, strict=True)),
                flush=True,
            )


def on_spark(counts: list[int]) -> None:
    print(
        f"{'histories':>9} {'Spark starts':>12} {'wall s':>7} {'hist/s':>7} {'in pyporc.':>10} "
        f"{'limit s':>8} {'limit/wall':>10} {'processes':>9} {'peak MB':>8} {'a worker':>8}"
    )
    for count in counts:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            bad = store(root, count, OPS)
            limit_s, seen = limit(root)
            local_s, local_bad = local(root)
            verdicts_of(Location.of(root), ONLY).clear()
            start_s, wall_s, inside_s, found_bad, cores, memory = fleet(root)
            assert bad == seen == local_bad == found_bad, (bad, seen, local_bad, found_bad)
            print(
                f"{count:9,} {start_s:12.1f} {wall_s:7.1f} {count / wall_s:7.0f} "
                f"{inside_s / wall_s / cores:10.0%} {limit_s:8.1f} "
                f"{limit_s / wall_s:10.2f} {local_s:9.1f} {memory.peak_mb:8.0f} "
                f"{memory.biggest_mb:8.0f}",
                flush=True,
            )


def unchanged(count: int) -> None:
    """Check a store in which nothing changed. The runs of a folder share their files by hard links,
    which are looked up and not read."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        store(root / "some", FOLDERS, OPS)
        some = sorted((root / "some").glob("*/*"))
        for number in range(count):
            of = number % FOLDERS
            run = root / "store" / f"quorum-set+{of}" / f"20260101T000000Z-{number:#x}"
            run.mkdir(parents=True)
            for file in some[of].iterdir():
                os.link(file, run / file.name)
        sleep(SETTLED_S)
        begin = perf_counter()
        _checked(root / "store", processes.judge)
        print(f"{count:,} histories judged in {perf_counter() - begin:.1f} s", flush=True)
        for _ in range(TURNS):
            begin, cpu = perf_counter(), process_time()
            checked = _checked(root / "store", None)
            took_s, cpu_s = perf_counter() - begin, process_time() - cpu
            assert len(checked.unchanged) == count
            print(
                f"checked again: {took_s:.2f} s, {cpu_s:.2f} s of CPU, "
                f"{checked.bytes_read:,} bytes read",
                flush=True,
            )


def huge(ops: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        store(root, 1_000, OPS)
        put_long(root / "quorum-set+huge" / "huge", Seed(7), ops, 7)
        size = (root / "quorum-set+huge" / "huge" / "history.parquet").stat().st_size / 1e6
        start_s, wall_s, inside_s, bad, cores, memory = fleet(root)
        print(
            f"{ops:,} ops in one history ({size:.0f} MB, {ops // 2 // CALLS_A_KEY:,} keys) beside "
            f"1,000 of {OPS:,}: Spark starts {start_s:.1f} s, wall {wall_s:.1f} s, "
            f"{inside_s / wall_s / cores:.0%} in pyporcupine, {bad} violated, peak "
            f"{memory.peak_mb:.0f} MB, a worker {memory.biggest_mb:.0f} MB"
        )


if __name__ == "__main__":
    flag = sys.argv[1] if sys.argv[1:] and sys.argv[1].startswith("--") else ""
    numbers = [int(word) for word in sys.argv[2 if flag else 1 :]]
    if flag == "--huge":
        huge(*(numbers or [20_000_000]))
    elif flag == "--unchanged":
        unchanged(*(numbers or [100_000]))
    elif flag == "--spark":
        on_spark(numbers or [100, 1_000, 10_000])
    else:
        many(numbers or [10, 100, 1_000, 10_000])
