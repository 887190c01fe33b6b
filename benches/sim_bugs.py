"""Planted bugs: which checkers catch each, in how many runs, and after how many operations.

    python -m benches.sim_bugs [--seeds 20] [BUG …]

Prints a line of Markdown for each bug: what was run (options of `harness run --cluster sim`), which
checkers accused it in how many of so many seeds and did not accuse the same run without the bug,
and how many operations clients made until the first run that was caught, that run included.
"""

import argparse
import contextlib
import io
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache

from harness.cli.run import request_for
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.stop import Stop

LINEARIZABLE = "--read linearizable --rate 100 --time-limit 10"
LONG = "--read linearizable --rate 100 --time-limit 30"
SHARED = "--workload zero-copy --protocol repaired --replicas 2 --time-limit 20"
IDLE = (
    "--workload replication --protocol repaired --option big-rows=100 --rate 4 --interval 0.5 "
    "--time-limit 40"
)
MEMBERS = "--protocol repaired-25.8 --interval 2 --time-limit 15"
CURRENT = (
    "--workload statements --protocol repaired-25.8 --time-limit 20 --interval 1.5 --duration 1"
)
COPIES = f"{CURRENT} -o sees=local"
EXACT = f"{CURRENT} -o sees=acknowledged"
PLAIN = "--insert plain --read plain --promise eventual --rate 100 --time-limit"
DISKS = "--protocol repaired --read linearizable --rate 100 --time-limit"
SYNCED = "--workload replication --protocol repaired-25.8 --fsync all --option big-rows=100"
TRIALS: Mapping[str, str] = {
    "quorum-aba": "--workload dedup --insert quorum --protocol repaired --replicas 7 --nemesis "
    "pause-clickhouse-minority --interval 0.02 --duration 0.03 --rate 200 --time-limit 20",
    "last-part-late": "--workload quorum-durability --protocol repaired --nemesis loss",
    "phantom-part": "--workload dedup --protocol repaired --nemesis loss,kill-leader "
    "--interval 0.3 --duration 1.5 --rate 100 --time-limit 60",
    "clone-unwaited": "--workload merges --protocol repaired --nemesis kill-clickhouse-one "
    "--option own-rows=100 --interval 1 --duration 6 --rate 60 --time-limit 60",
    "optimize-unwaited": "--workload merges --protocol repaired --nemesis stop-fetches --option "
    "own-rows=100 --duration 3 --rate 60 --time-limit 20",
    "quorum-uncounted": LINEARIZABLE,
    "last-part-back": "--read server --rate 100 --time-limit 10",
    "early-snapshot": LINEARIZABLE,
    "merged-away": "--insert quorum,plain --read server --promise eventual --rate 60 "
    "--time-limit 10",
    "ack-early": LINEARIZABLE,
    "dedup-per-replica": "--workload dedup --nemesis partition --time-limit 20",
    "dedup-forgotten": "--workload dedup --nemesis restart-clickhouse-one --time-limit 20",
    "failed-part-kept": "--workload failed-parts --protocol repaired --nemesis "
    "partition-one,kill-clickhouse-majority --links interserver --duration 14 --interval 4 "
    "--rate 10 --time-limit 100",
    "failed-part-missed": "--workload failed-parts --protocol repaired --replicas 2 "
    "--quorum-timeout 500 --nemesis partition-one,restart-clickhouse-all,slow-fetches,loss "
    "--links interserver --interval 0.05 --duration 0.8 --rate 40 --time-limit 100",
    "failed-part-fetched": "--workload failed-parts --protocol repaired --quorum-timeout 500 "
    "--nemesis restart-clickhouse,stop-fetches-one,slow-fetches,loss --interval 0.05 "
    "--duration 0.4 --rate 40 --time-limit 100",
    "truncate-max": "--nemesis pause-clickhouse-one --read linearizable --rate 150 --time-limit 15",
    "log-uncut": "--workload truncation --protocol repaired --time-limit 6 --rate 40",
    "clone-lost": f"{PLAIN} 40 --nemesis kill-clickhouse-majority --duration 15",
    "lost-unmarked": f"{LONG} --nemesis kill-clickhouse-one --duration 9",
    "clone-no-parts": f"{LONG} --nemesis kill-clickhouse-one --duration 9",
    "clone-unfinished": "--workload truncation --protocol repaired --nemesis "
    "kill-clickhouse-one,loss --interval 0.5 --duration 9 --rate 100 --time-limit 60",
    "merge-order": LINEARIZABLE,
    "merge-drops": LINEARIZABLE,
    "merge-gap": f"{PLAIN} 20 --nemesis pause-clickhouse-one",
    "mutation-late": "--workload mutations --time-limit 10",
    "fetch-torn": f"{PLAIN} 20 --nemesis stop-fetches",
    "session-immortal": f"{LINEARIZABLE} --nemesis kill-clickhouse-one",
    "stale-leader-merges": "--read linearizable --rate 60 --nemesis partition-one --links keeper "
    "--duration 9 --time-limit 40",
    "stale-leader-claim": "--workload merges --protocol repaired --nemesis pause-clickhouse-leader "
    "--option own-rows=100 --option sync=2 --duration 9 --interval 2 --time-limit 30",
    "fsync-ignored": f"{SYNCED} --nemesis power-cut-all --rate 40 --time-limit 12",
    "fsync-error-ignored": f"{SYNCED} --nemesis disk-eio-fsync-all,power-cut-all --rate 5 "
    "--interval 2 --duration 2 --time-limit 30",
    "torn-unchecked": f"{DISKS} 12 --nemesis power-cut-torn",
    "flip-unchecked": f"{DISKS} 20 --nemesis disk-flip --interval 0.5 --duration 1",
    "eio-as-empty": f"{DISKS} 12 --nemesis disk-eio-reads",
    "short-write": f"{DISKS} 12 --nemesis disk-full",
    "keeper-write-ignored": f"{DISKS} 20 --nemesis disk-full-zookeeper-all,kill-zookeeper-all "
    "--interval 1 --duration 2",
    "copied-part": "--workload zero-copy --protocol repaired --nemesis partition-bridge --rate 40 "
    "--time-limit 6 --interval 1.5 --duration 1",
    "broken-part-fetched": "--protocol repaired --read linearizable --rate 40 --time-limit 6 "
    "--nemesis disk-eio-reads --interval 1.5 --duration 1",
    "lost-part-unreplaced": "--workload liveness-nodes --protocol repaired --nemesis "
    "power-cut-torn,pause-clickhouse-one --rate 5 --time-limit 70 --interval 1 --duration 25",
    "acknowledged-failure": "--workload quorum-durability --protocol repaired --nemesis "
    "disk-eio-reads --rate 40 --time-limit 12",
    "number-kept": "--workload block-numbers --protocol 25.8 --nemesis pause-clickhouse-one "
    "--interval 1 --duration 7 --time-limit 25",
    "watch-missed": LINEARIZABLE,
    "keeper-unsynced": f"{LINEARIZABLE} --nemesis kill-zookeeper-all",
    "keeper-minority": "--insert plain --read linearizable --nemesis partition-pair --rate 100 "
    "--time-limit 20",
    "pointer-skips": f"{LONG} --nemesis pause-clickhouse",
    "lock-after-send": f"{SHARED} --nemesis pause-clickhouse-one,loss --interval 0.3 "
    "--duration 3.5 --rate 30",
    "delete-without-lock-check": f"{SHARED} --nemesis partition-one",
    "unmarked-merge": SHARED,
    "downgrade": f"{SHARED} --nemesis restart-clickhouse-one,stop-fetches-one",
    "both-move": f"{SHARED} --option move=true --rate 60 --nemesis loss --interval 0.3 "
    "--duration 3",
    "clone-uncounted": "--workload dedup --insert parallel --protocol repaired-25.8 --rate 100 "
    "--nemesis kill-clickhouse --interval 1 --duration 6 --time-limit 40",
    "empty-disk-forgets": f"{MEMBERS} --nemesis empty-disk --duration 1 --rate 15",
    "old-disk-adopted": f"--workload drop-partition {MEMBERS} --nemesis old-disk-clickhouse "
    "--duration 20",
    "replica-unfilled": f"{MEMBERS} --nemesis replace-clickhouse --duration 3 --rate 60",
    "removed-stale": f"--workload zk-register {MEMBERS} --nemesis reconfig --duration 3 --rate 60",
    "role-loses-watches": "--protocol repaired --interval 2 --time-limit 15 "
    "--nemesis reconfig-observer --duration 3 --rate 60",
    "ack-remembered": f"--workload zk-register {MEMBERS} --nemesis old-disk-zookeeper --duration 3 "
    "--rate 60",
    "snapshot-without-log": f"--workload zk-register {MEMBERS} --nemesis replace-zookeeper "
    "--duration 3 --rate 60",
    "start-unfinished": f"--workload quorum-durability {MEMBERS} --nemesis memory-limit-clickhouse "
    "--duration 3 --rate 15",
    "clone-keeps-dropped": f"{SHARED} --option move=true --nemesis partition",
    "dedup-own-clock": "--workload dedup --protocol repaired-25.8 --option window-s=8 --rate 30 "
    "--nemesis clock-jump-clickhouse --interval 0.5 --time-limit 40",
    "shed-quorum": f"{LINEARIZABLE} --nemesis cpu-limit-clickhouse --interval 0.5",
    "shortage-as-broken": "--workload quorum-durability --protocol repaired-25.8 --rate 60 "
    "--nemesis file-limit-clickhouse,slow-fetches --interval 0.5 --duration 2 --time-limit 20",
    "closed-as-lost": f"{IDLE} --nemesis connection-limit",
    "unresolved-as-dead": f"{IDLE} --nemesis dns-failure-clickhouse",
    "half-moved": f"{CURRENT} --rate 100 -o statements=move --nemesis kill-clickhouse "
    "--interval 0.5",
    "moved-away": f"{COPIES} --rate 60 -o statements=move --nemesis stop-fetches-one",
    "hidden-by-move": f"{COPIES} --rate 100 -o statements=move --nemesis partition --interval 0.3 "
    "--duration 6",
    "copy-keeps-version": f"{COPIES} --rate 60 -o statements=move,update,delete --time-limit 30",
    "drop-later": f"{COPIES} --rate 200 -o statements=drop --nemesis jitter --interval 0.5 "
    "--duration 2 --time-limit 15",
    "crossed-copies": f"{EXACT} --rate 40 -o sync=true -o statements=move,replace,attach-from,drop,"
    "delete,update,optimize --nemesis partition-one --time-limit 6 --fsync all",
    "unmutated-copy": f"{EXACT} --rate 100 -o statements=attach-from,delete,update",
    "replace-keeps-range": f"{COPIES} --rate 60 -o statements=replace",
    "replace-deduplicated": f"{EXACT} --rate 60 -o statements=replace,attach-from",
    "copy-skips-part": f"{COPIES} --rate 60 -o statements=attach-from,delete,drop --nemesis "
    "partition",
    "move-drops-later": f"{COPIES} --rate 100 -o statements=move",
    "inserts-uncancelled": f"{COPIES} --rate 200 -o statements=move --nemesis jitter "
    "--interval 0.5 --duration 2",
    "partition-unversioned": f"{EXACT} --rate 100 -o statements=replace,move,drop --nemesis "
    "partition-one --interval 0.5",
    "view-forgets": f"{EXACT} -o view=true -o statements=insert-retried,update",
    "view-skips-duplicate": f"{EXACT} -o view=true -o ops-per-s=100 -o "
    "statements=insert-retried,update --nemesis kill-clickhouse-one --interval 0.3",
    "ttl-whole-part": f"{COPIES} -o ttl=true --rate 60 -o statements=move,update,optimize",
    "ttl-keeps": f"{COPIES} -o ttl=true --rate 60 -o statements=move,update",
    "ttl-early": f"{COPIES} -o ttl=true --rate 60 -o statements=move,update",
    "drop-unpaused": f"{COPIES} --rate 100 -o statements=move,optimize,update -o inserts=0.3 "
    "--nemesis disk-eio-reads --interval 0.3 --duration 0.3",
    "forgotten-insert": f"{EXACT} --rate 100 -o inserts=0.3 -o statements=insert-retried,delete",
    "old-parts-by-wall": f"{SHARED} --nemesis clock-jump-clickhouse --interval 0.5",
}
"""Options of a run that shows each."""


def tried(bug: str, seeds: int) -> str:
    """Return a line of the table."""
    accusers: Counter[str] = Counter()
    calls: list[int] = []
    until: int | None = None
    caught = 0
    for seed in range(1, seeds + 1):
        accused, count = played(TRIALS[bug], bug, seed)
        by = accused - played(TRIALS[bug], "", seed)[0] if accused else accused
        calls.append(count)
        accusers.update(by)
        caught += bool(by)
        if by and until is None:
            until = sum(calls)
    ranked = sorted(accusers.items(), key=lambda one: (-one[1], one[0]))
    who = ", ".join(f"{name} {count}" for name, count in ranked)
    first = "–" if until is None else f"{until:,}"
    mean = round(sum(calls) / len(calls))
    options = TRIALS[bug]
    return f"| {bug} | `{options}` | {caught} of {seeds} | {mean:,} | {first} | {who or '–'} |"


@cache
def played(options: str, bug: str, seed: int) -> tuple[frozenset[str], int]:
    """Return the checkers that call one run INVALID, and the number of its clients' operations."""
    words = [*options.split(), "--cluster", "sim", "--report", "none"]
    with tempfile.TemporaryDirectory() as store, contextlib.redirect_stderr(io.StringIO()):
        request = request_for([*words, "--store", store, *(["--bug", bug] if bug else [])])
        outcome = request.campaign(None, Stop()).run_once(request.spec(Seed(seed))).outcome
    by = {v.checker for v in outcome.judgement.verdicts if v.status is Status.INVALID}
    return frozenset(by), outcome.history.columns.calls_count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("bugs", nargs="*", default=list(TRIALS))
    given = parser.parse_args()
    print("| bug | run | runs caught | operations a run | until caught | by, in so many runs |")
    print("|---|---|---|---|---|---|")
    for bug in given.bugs:
        print(tried(bug, given.seeds), flush=True)


if __name__ == "__main__":
    main()
