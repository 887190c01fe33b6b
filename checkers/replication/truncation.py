"""Checks that the replication log is cut only where no replica needs it, and that replicas that
fell behind are marked lost and return."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from checkers.conclusion import conclude, count_kinds, mapping_of
from checkers.phrasing import FEW, during, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Verdict

OBSERVE: Final = "observe-log"
FINAL: Final = "final-log"
CLEANED_S: Final = 15
"""Time at rest after which a leader has cut the log. The place in line of a lost leader goes with
its session, after 5 s and a tick of ZooKeeper's, and the next leader then checks every 1 to 2 s."""


class Truncation:
    """Judges the calls "observe-log" and, at rest, "final-log": {"first": index of the first entry
    kept, "entries": how many there were just before, "replicas": {node: {"pointer", "lost",
    "active", "steady"}}}. Of a replica that is steady, all of it was so at one moment after the
    first entry was read, so that a violation is no matter of what was read when.

    ValidLogPointer: an active replica that is not lost points at or above the first entry.
    An inactive one below it is marked lost. Never are all lost; at rest none is. At rest
    something is cut: a log that has more than `entries_max` entries in every look at rest, the last
    of them CLEANED_S after the first, must have been cut at some time.

    A log that is long during the run must not, however long that lasts, because only a leader cuts,
    and faults may leave none. In `--workload truncation --nemesis restart --cluster sim
    --time-limit 6 --rate 40 --interval 1.5 --duration 1 --protocol repaired --seed 0xf1f52` the
    leader loses its session at 0.9 s and its place in line only when that expires, at 5.1 s; all
    three replicas, restarted at 4.4 s, find themselves still active, and try again 10 s later. So
    the log is long from 3.4 s on, at 15.1 s the cluster is at rest, and the first leader to look
    does so a second later. The demand can still fail: the planted bug "log-uncut" never cuts, and
    the workload goes on looking at rest until it sees a cut or CLEANED_S are over.
    """

    name = "truncation"

    def __init__(self, *, entries_max: int) -> None:
        self.entries_max = entries_max

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs a log that was cut, a look at rest and, where faults took
        effect, a replica that was lost: otherwise nothing is known of lost replicas."""
        cut = looks = 0
        lost: set[str] = set()
        broken: list[Anomaly] = []
        final: list[Op] = []
        for _, op in history.answered(OBSERVE, FINAL):
            looks += 1
            cut = max(cut, int(mapping_of(op).get("first") or 0))
            lost |= {node for node, state in _replicas(op).items() if state.get("lost")}
            broken += _broken(history, op)
            final += [op] if op.f == FINAL else []
        if final and quiescence_of(history).reached:
            broken += _at_rest(final[-1])
            broken += [] if cut else self._never_cut(final)
        doubts = [] if cut else ["the log was never cut"]
        if not final:
            doubts.append("nobody looked at rest")
        if history.faults and not lost:
            doubts.append("no replica was lost under faults: they were too short or elsewhere")
        said = f"the log cut up to entry {cut:,}, {number(len(lost), 'replica')} lost and back"
        kinds = count_kinds(broken)
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=broken[0].text if broken else "; ".join(doubts) or said,
            checked=looks,
            anomalies=tuple(broken[:FEW]),
            figures={
                "looks": looks,
                "cut_to": cut,
                "lost": sorted(lost),
                "anomalies": {**kinds},
            },
        )

    def answers(self, op: Op) -> bool:
        """Return whether the op is a look showing that the log was cut, or need not have been."""
        if op.f not in (OBSERVE, FINAL) or op.kind is not Kind.OK:
            return False
        return bool(mapping_of(op).get("first")) or not self._is_long(op)

    def _is_long(self, op: Op) -> bool:
        return int(mapping_of(op).get("entries") or 0) > self.entries_max

    def _never_cut(self, final: Sequence[Op]) -> Iterable[Anomaly]:
        first, last = final[0], final[-1]
        if all(map(self._is_long, final)) and last.time_ns - first.time_ns >= CLEANED_S * 1e9:
            text = (
                f"the log has more than {self.entries_max:,} entries, none was ever cut, and the "
                f"cluster has been at rest since {seconds(first.time_ns)}"
            )
            yield _anomaly(last, "never-cut", text)


def _replicas(op: Op) -> Mapping[str, Mapping[str, Any]]:
    found = mapping_of(op).get("replicas")
    return found if isinstance(found, Mapping) else {}


def _broken(history: History, op: Op) -> Iterable[Anomaly]:
    first = int(mapping_of(op).get("first") or 0)
    states = _replicas(op)
    steady = {node: s for node, s in states.items() if s.get("steady")}
    for node, state in sorted(steady.items()):
        pointer = state.get("pointer")
        if pointer is None or pointer >= first or state.get("lost"):
            continue
        kind = "pointer-behind" if state.get("active") else "not-marked-lost"
        what = "active" if state.get("active") else "inactive"
        yield _anomaly(
            op,
            kind,
            f"{node} is {what} and not lost, and points at entry {pointer} though the log begins "
            f"at {first}{during(history, op.time_ns)}",
        )
    if states and len(steady) == len(states) and all(s.get("lost") for s in states.values()):
        yield _anomaly(op, "all-lost", f"every replica is lost{during(history, op.time_ns)}")


def _at_rest(op: Op) -> Iterable[Anomaly]:
    for node, state in sorted(_replicas(op).items()):
        if state.get("lost"):
            yield _anomaly(op, "still-lost", f"{node} is still lost at rest")


def _anomaly(op: Op, kind: str, text: str) -> Anomaly:
    said = f"{text} (op #{op.index} at {seconds(op.time_ns)})"
    return Anomaly(kind=kind, text=said, ops=(op.index,), time_ns=op.time_ns)
