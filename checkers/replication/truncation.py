"""Checks that the replication log is cut only where no replica needs it, and that replicas that
fell behind are marked lost and return.

A look tells the first entry that the log has, how many entries there were just before, and of each
replica its pointer, whether it is lost and active, and whether all that is *steady*: so at one
moment after the first entry was read, so that a violation is no matter of what was read when.

Violated, of steady replicas that are not lost:
pointer-behind   an active one points below the first entry (ValidLogPointer)
not-marked-lost  an inactive one points below the first entry
And further:
all-lost         every replica is steady and lost
still-lost       a replica is lost in the last look at rest
never-cut        no look saw a log that was cut, though the log has more than `entries_max` entries
                 in every look at rest, the last of them `CLEANED_S` after the first

Doubtful: a log that was never cut, no look at rest, and faults of which no replica was lost, for
then nothing is known of lost replicas.

A log that is long during the run must not be cut, however long that lasts, because only a leader
cuts, and faults may leave none. In `--workload truncation --nemesis restart --cluster sim
--time-limit 6 --rate 40 --interval 1.5 --duration 1 --protocol repaired --seed 0xf1f52` the leader
loses its session at 0.9 s and its place in line only when that expires, at 5.1 s; all three
replicas, restarted at 4.4 s, find themselves still active, and try again 10 s later. So the log is
long from 3.4 s on, at 15.1 s the cluster is at rest, and the first leader to look does so a second
later. The demand can still fail: the planted bug "log-uncut" never cuts, and the workload goes on
looking at rest until it sees a cut or `CLEANED_S` are over.
"""

from collections.abc import Sequence
from typing import Final

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, number, seconds
from checkers.quiescence import quiescence_of
from checkers.replication.log_pointers import LogLook
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

OBSERVE: Final = "observe-log"
FINAL: Final = "final-log"
CLEANED_S: Final = 15
"""Time at rest after which a leader has cut the log. The place in line of a lost leader goes with
its session, after 5 s and a tick of ZooKeeper's, and the next leader then checks every 1 to 2 s."""


class Truncation:
    """Judges the calls "observe-log" and, at rest, "final-log"."""

    name = "truncation"

    def __init__(self, *, entries_max: int) -> None:
        self.entries_max = entries_max

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a log that was cut, a look at rest and, where faults took
        effect, a replica that was lost: otherwise nothing is known of lost replicas."""
        cut = looks = 0
        lost: set[str] = set()
        found = Findings(self.name)
        final: list[Op] = []
        for _, op in history.answered(OBSERVE, FINAL):
            looks += 1
            look = decode(op, LogLook)
            cut = max(cut, look.first or 0)
            lost |= {node for node, place in look.replicas.items() if place.lost}
            _judge_look(found, history, op, look)
            final += [op] if op.f == FINAL else []
        if final and quiescence_of(history).reached:
            for node, place in sorted(decode(final[-1], LogLook).replicas.items()):
                if place.lost:
                    _add(found, "still-lost", f"{node} is still lost at rest", final[-1])
            if not cut:
                self._judge_length(found, final)
        if not cut:
            found.add_doubt("the log was never cut")
        if not final:
            found.add_doubt("nobody looked at rest")
        if history.faults and not lost:
            found.add_doubt("no replica was lost under faults: they were too short or elsewhere")
        return found.verdict(
            checked=looks,
            held=f"the log cut up to entry {cut:,}, {number(len(lost), 'replica')} lost and back",
            figures={"looks": looks, "cut_to": cut, "lost": sorted(lost)},
        )

    def answers(self, op: Op) -> bool:
        """Return whether the op is a look showing that the log was cut, or need not have been."""
        if op.f not in (OBSERVE, FINAL) or op.kind is not Kind.OK:
            return False
        return bool(decode(op, LogLook).first) or not self._is_long(op)

    def _is_long(self, op: Op) -> bool:
        return (decode(op, LogLook).entries or 0) > self.entries_max

    def _judge_length(self, found: Findings, final: Sequence[Op]) -> None:
        first, last = final[0], final[-1]
        if all(map(self._is_long, final)) and last.time_ns - first.time_ns >= CLEANED_S * 1e9:
            text = (
                f"the log has more than {self.entries_max:,} entries, none was ever cut, and the "
                f"cluster has been at rest since {seconds(first.time_ns)}"
            )
            _add(found, "never-cut", text, last)


def _judge_look(found: Findings, history: History, op: Op, look: LogLook) -> None:
    first, places = look.first or 0, look.replicas
    steady = {node: place for node, place in places.items() if place.steady}
    for node, place in sorted(steady.items()):
        if place.pointer is None or place.pointer >= first or place.lost:
            continue
        kind = "pointer-behind" if place.active else "not-marked-lost"
        what = "active" if place.active else "inactive"
        text = (
            f"{node} is {what} and not lost, and points at entry {place.pointer} though the log "
            f"begins at {first}{during(history, op.time_ns)}"
        )
        _add(found, kind, text, op)
    if places and len(steady) == len(places) and all(place.lost for place in places.values()):
        _add(found, "all-lost", f"every replica is lost{during(history, op.time_ns)}", op)


def _add(found: Findings, kind: str, text: str, op: Op) -> None:
    found.add_anomaly(kind, f"{text} (op #{op.index} at {seconds(op.time_ns)})", op)
