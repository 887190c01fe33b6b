"""How late things are in runs without a fault: what the triage grants as `LATE_NS`.

    python -m benches.triage_lateness STORE …

Prints a line of Markdown for each version, of the stored runs with the nemesis none that read
sequentially what they insert with a quorum:

shown     from the registration of a part on a replica, and the end of its quorum, to the begin of a
          read there that lacks it
known     from the end of a quorum to the begin of a read on a replica that has not the part, nor
          anything newer, and answers: its ZooKeeper server did not tell it of the quorum
fetched   from the end of a quorum to the registration on each replica that came later

Each is a median, a 99th percentile and a maximum in ms, and the number of cases.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from checkers.sets.key_sets import key_sets
from checkers.triage.evidence import Evidence, evidence_of
from checkers.triage.inserts import Inserted, inserted
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.store.store import RunDirectory

KINDS = ("shown", "known", "fetched")
FOREVER_NS = 1 << 62


def lateness(history: History) -> Iterator[tuple[str, int]]:
    """Yield each case: what was late, and by how many nanoseconds."""
    evidence = evidence_of(history)
    values = inserted(history, evidence)
    settled = [(one, at_ns) for one in values.values() if (at_ns := _ended(one, evidence))]
    for one, ended_ns in settled:
        part = one.part(evidence)
        assert part is not None, "it has a quorum"
        for replica in evidence.acts:
            held = evidence.held(replica, part.partition, part.high, -1)
            if held is not None and held.begin_ns > ended_ns:
                yield "fetched", held.begin_ns - ended_ns
    for key in key_sets(history):
        ends = {one.value: at_ns for one, at_ns in settled if one.key == key.key}
        for read in key.reads:
            begin_ns, replica = read.invoke.time_ns, str(read.invoke.node)
            newest_ns = max((ends[v] for v in read.values if v in ends), default=-1)
            shown = frozenset(read.values)
            for one, ended_ns in settled:
                if one.key != key.key or one.value in shown:
                    continue
                part = one.part(evidence)
                assert part is not None, "it has a quorum"
                held = evidence.held(replica, part.partition, part.high, begin_ns)
                lasts = evidence.lasts(part.partition, begin_ns, read.end.time_ns)
                named = bool(lasts) and all(last.high >= part.high for last in lasts)
                if held is not None and max(held.begin_ns, ended_ns) < begin_ns and named:
                    yield "shown", begin_ns - max(held.begin_ns, ended_ns)
                came_ns = FOREVER_NS if held is None else held.begin_ns
                if came_ns > read.end.time_ns and newest_ns < ended_ns < begin_ns:
                    yield "known", begin_ns - ended_ns


def _ended(one: Inserted, evidence: Evidence) -> int | None:
    part = one.part(evidence)
    return None if part is None else evidence.ended.get(part.name)


def _row(times_ns: Sequence[int]) -> str:
    if not times_ns:
        return "none"
    ordered = sorted(times_ns)
    chosen = (ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])
    return " / ".join(f"{at_ns / 1e6:.0f}" for at_ns in chosen) + f" ({len(ordered):,})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="+", type=Path)
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    runs: dict[str, int] = defaultdict(int)
    for store in parser.parse_args().store:
        for file in sorted(store.glob("*/*/run.json")):
            directory = RunDirectory(file.parent)
            spec = directory.info().spec
            if spec.nemesis != "none" or spec.workload != "quorum-set" or file.parent.is_symlink():
                continue
            try:
                history = directory.history()
            except HarnessError:
                continue  # it broke off
            if history.faults:
                continue  # a script has some
            version = str(evidence_of(history).versions[0])
            runs[version] += 1
            for kind, late_ns in lateness(history):
                found[version][kind].append(late_ns)
    print(f"| version | runs | {' | '.join(KINDS)} |\n|---|---|---|---|---|")
    for version, of_version in sorted(found.items()):
        cells = " | ".join(_row(of_version[kind]) for kind in KINDS)
        print(f"| {version} | {runs[version]} | {cells} |")


if __name__ == "__main__":
    main()
