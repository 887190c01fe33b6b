"""Checks who assigns merges and mutations: the replica that leads at that moment."""

from collections import Counter

from checkers.conclusion import conclude, count_kinds
from checkers.phrasing import FEW, listed, number
from checkers.replication.agreed import agreed_of
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.verdict import Anomaly, Verdict

EVERYONE = "*"


class Assigners:
    """Judges the log entries that are no inserts, by ZooKeeper's transaction log.

    Where one replica leads, INVALID is an entry of another one ("not-leader"): the leader is the
    owner of the lowest node of the election when the entry is committed. Where every replica
    leads, since 20.5, each may assign; then the verdict says how many entries each has assigned.
    """

    name = "assigners"
    needs = (Mechanism.TRANSACTION_LOG,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs the log, without gaps, and an entry."""
        agreed = agreed_of(history)
        entries = agreed.named("assign")
        broken: list[Anomaly] = []
        for _, zxid, kind, source, part, leader in entries:
            if leader not in (EVERYONE, source) and agreed.op is not None:
                text = (
                    f"{source} assigned a {kind}{f' into {part}' if part else ''} by transaction "
                    f"{zxid:#x}, while {leader or 'nobody'} led"
                )
                op = agreed.op
                broken.append(
                    Anomaly(kind="not-leader", text=text, ops=(op.index,), time_ns=op.time_ns)
                )
        doubts = [*agreed.doubts]
        if not entries:
            doubts.append("no merge or mutation was assigned")
        leaders = [fact[2] for fact in agreed.named("leads") if fact[2]]
        by = Counter(str(fact[3]) for fact in entries)
        each = listed([f"{source} {count:,}" for source, count in sorted(by.items())])
        many = EVERYONE in leaders
        said = f"{number(len(entries), 'entry', 'entries')}: {each}; " + (
            "every replica leads"
            if many
            else f"all by the leader, which changed {number(max(0, len(leaders) - 1), 'time')}"
        )
        return Verdict(
            checker=self.name,
            status=conclude([] if agreed.doubts else broken, doubts=doubts),
            summary="; ".join(doubts) or (broken[0].text if broken else said),
            checked=len(entries),
            anomalies=tuple([] if agreed.doubts else broken[:FEW]),
            figures={
                "entries": {**by},
                "leaders": len(leaders),
                "anomalies": {**count_kinds(broken)},
            },
        )
