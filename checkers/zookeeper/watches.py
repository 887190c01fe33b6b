"""Checks that a watch of ZooKeeper fires once, in time, and only for a change.

"await-change" sets a watch on a node that only "write" changes, then asks the same session for
the node again and again: until the watch has fired and the node has changed once more, or for a
while, and last after a sync. Its answer has the version with which the watch was set, those of the
later answers in their order, and for each event the number of these answers that had come before.

Violated:
- "lost-event": an answer shows a newer version than the watch was set with, and no event ever came;
- "late": an event came only after such an answer;
- "twice": more than one event came;
- "unfounded": an answer after the event still shows the version with which the watch was set;
- "backwards": an answer shows a lower version than one before it.

Doubtful: fewer than `MIN_FIRED` watches have fired. A connection that was lost takes its watches
along, because the client does not set them again; such a call is not answered.

A watch may fire long before the client asks again, and one answer may skip versions:
    set at 3     event     answers 5, 7
"""

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, number, on_key, seconds, where
from harness.core.history import History
from harness.core.op import Op
from harness.core.verdict import Verdict

WATCH = "await-change"
MIN_FIRED = 10
KINDS = ("lost-event", "late", "twice", "unfounded", "backwards")


class WatchedNode(msgspec.Struct, frozen=True):
    """Look of a watch; a node that does not exist has version -1."""

    seen: int
    """Version of the node when the watch was set."""
    versions: list[int]
    """Versions that the later answers show."""
    events: list[int]
    """Number of these answers that had come before each event."""

    def violations(self) -> list[str]:
        """Return the kinds of what is wrong."""
        newer = [at for at, version in enumerate(self.versions) if version > self.seen]
        first = self.events[0] if self.events else None
        pairs = zip([self.seen, *self.versions], self.versions, strict=False)
        wrong = {
            "lost-event": first is None and bool(newer),
            "late": first is not None and bool(newer) and first > newer[0],
            "twice": len(self.events) > 1,
            "unfounded": first is not None and self.seen in self.versions[first:],
            "backwards": any(after < before for before, after in pairs),
        }
        return [kind for kind, is_there in wrong.items() if is_there]


class Watches:
    """Judges each watch by itself."""

    name = "watches"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least MIN_FIRED watches that have fired."""
        found = Findings(self.name, kinds=KINDS)
        watches = fired = 0
        for invoke, end in history.answered(WATCH):
            look = decode(end, WatchedNode)
            watches += 1
            fired += bool(look.events)
            for kind in look.violations():
                found.add_anomaly(kind, _text(history, invoke, end, look), invoke, end)
        if fired < MIN_FIRED:
            found.add_doubt(
                f"{number(fired, 'watch', 'watches')} fired, at least {MIN_FIRED} expected"
            )
        return found.verdict(
            checked=fired,
            held=f"{fired:,} of {number(watches, 'watch', 'watches')} fired, each once and before "
            "the change was seen",
            figures={"watches": watches, "fired": fired},
        )


def _text(history: History, invoke: Op, end: Op, look: WatchedNode) -> str:
    heard = [f"event after {number(count, 'answer')}" for count in look.events]
    return (
        f"op #{invoke.index} {invoke.f}{on_key(invoke)}{where(invoke)}: set at version "
        f"{look.seen}, answers with versions {', '.join(map(str, look.versions))}, "
        f"{', '.join(heard) or 'no event'}, up to {seconds(end.time_ns)}"
        f"{during(history, end.time_ns)}"
    )
