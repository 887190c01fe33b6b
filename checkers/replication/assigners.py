"""Checks who assigns merges and mutations: the replica that leads at that moment.

By ZooKeeper's transaction log, the leader is the owner of the lowest node of the election when an
entry is committed; where every replica leads, as since 20.5, there is none. Judged are the log's
entries that are no inserts.

Violated: an entry of another replica than the leader, or of any while nobody leads ("not-leader").
Doubtful: no log, a gap in it, and a log without such an entry. Where every replica leads, each may
assign; then the verdict says how many entries each has assigned.

That a replica leads is judged by the transactions and not by what it says of itself, because it
may believe so for as long as its session takes to expire:
    leads on ch1 → true     the session of ch1 expires     ch2 leads     leads on ch1 → true
"""

from collections import Counter

from checkers.conclusion import Findings
from checkers.phrasing import listed, number
from checkers.replication.agreed import agreed_of
from harness.core.dialect import Mechanism
from harness.core.history import History
from harness.core.verdict import Verdict

EVERYONE = "*"


class Assigners:
    """Judges the log entries that are no inserts, by ZooKeeper's transaction log."""

    name = "assigners"
    needs = (Mechanism.TRANSACTION_LOG,)

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs the log, without gaps, and an entry."""
        agreed = agreed_of(history)
        entries = agreed.named("assign")
        found = Findings(self.name)
        found.doubts += agreed.doubts
        for _, zxid, kind, source, part, leader in entries:
            if leader not in (EVERYONE, source) and agreed.op is not None:
                text = (
                    f"{source} assigned a {kind}{f' into {part}' if part else ''} by transaction "
                    f"{zxid:#x}, while {leader or 'nobody'} led"
                )
                found.add_anomaly("not-leader", text, agreed.op)
        if not entries:
            found.add_doubt("no merge or mutation was assigned")
        leaders = [fact[2] for fact in agreed.named("leads") if fact[2]]
        by = Counter(str(fact[3]) for fact in entries)
        each = listed([f"{source} {count:,}" for source, count in sorted(by.items())])
        many = EVERYONE in leaders
        return found.verdict(
            checked=len(entries),
            held=f"{number(len(entries), 'entry', 'entries')}: {each}; "
            + (
                "every replica leads"
                if many
                else f"all by the leader, which changed {number(max(0, len(leaders) - 1), 'time')}"
            ),
            certain=not agreed.doubts,
            figures={"entries": {**by}, "leaders": len(leaders)},
        )
