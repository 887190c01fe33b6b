"""Checks the numbers that ZooKeeper gives to sequential nodes of one parent.

"create" makes a sequential node whose data is a value of its own; "create-delete" makes one and
removes it again. An acknowledgement has the value and the number of the node's name. A read lists
the nodes that are there, after a sync if it is to be fresh; a final one always is.

Violated, within a key:
- "shared": two creates have one number, or a read shows a number with the value of another;
- "not-increasing": a create has a number below that of one acknowledged before it began, also if
  that one's node is gone again;
- "renumbered": a read shows a value at another number than its acknowledgement, or at two;
- "lost-node": a create acknowledged before a fresh read began is not in it;
- "undeleted": a node whose removal was acknowledged before a fresh read began is in it;
- "phantom": a read shows a value that nobody asked for, whose every try was refused, or that was
  asked for later.

Doubtful: fewer than `MIN_JUDGED` numbers are known.

Numbers need not be dense, nor in the order of acknowledgements: of two creates at the same time
either may have the lower one. A create of unknown outcome may have a node at any time after it
began; if a read shows it, its number is judged like all others.
"""

from collections.abc import Mapping, Sequence

import msgspec

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.numbering import overtaken
from checkers.phrasing import during, number, on_key, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.rows import NEVER_NS
from harness.core.verdict import Verdict

CREATE, CREATE_DELETE = "create", "create-delete"
READ, FINAL = "read", "final-read"
MIN_JUDGED = 10
KINDS = ("shared", "not-increasing", "renumbered", "lost-node", "undeleted", "phantom")


class SequentialNodes(msgspec.Struct, frozen=True):
    """Look of a read: value and number of each node."""

    values: list[int]
    numbers: list[int]


class Numbered(msgspec.Struct, frozen=True):
    """A create whose number is known."""

    pair: Pair
    value: int
    number: int
    shown: Op
    """The acknowledgement, or else the first read that shows the node."""

    @property
    def key(self) -> int | None:
        """Return the key of the parent."""
        return self.pair.invoke.key

    @property
    def ack_ns(self) -> int:
        """Return when it was acknowledged; `NEVER_NS` if it was not."""
        return self.shown.time_ns if self.shown is self.pair.end else NEVER_NS

    def __str__(self) -> str:
        return f"value {self.value}{on_key(self.shown)} (op #{self.shown.index})"


class SequentialNumbers:
    """Judges creates of sequential nodes and the reads of them."""

    name = "sequential-nodes"

    def __init__(self, *, synced: bool) -> None:
        """`synced`: a sync comes before each read, not only before a final one."""
        self.synced = synced

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs at least MIN_JUDGED numbers."""
        found = Findings(self.name, kinds=KINDS)
        asked: dict[object, dict[int, Pair]] = {}
        for pair in history.calls(CREATE, CREATE_DELETE):
            assert isinstance(pair.invoke.value, int), "a create has a number as its data"
            asked.setdefault(pair.invoke.key, {})[pair.invoke.value] = pair
        reads = [
            (*pair, decode(pair[1], SequentialNodes)) for pair in history.answered(READ, FINAL)
        ]
        creates = _numbered(history, asked, reads)
        _judge_numbers(found, history, creates)
        for invoke, end, look in reads:
            fresh = self.synced or invoke.f == FINAL
            _judge_read(found, history, creates, asked.get(invoke.key, {}), invoke, end, look)
            if fresh:
                _judge_fresh(found, history, asked.get(invoke.key, {}), invoke, end, look)
        judged = number(len(creates), "number")
        if len(creates) < MIN_JUDGED:
            found.add_doubt(f"{judged}, at least {MIN_JUDGED} expected")
        return found.verdict(
            checked=len(creates),
            held=f"{judged} of {number(len(asked), 'key')} unique and increasing, in "
            f"{number(len(reads), 'read')}",
            figures={"keys": len(asked), "judged": len(creates), "reads": len(reads)},
        )


Read = tuple[Op, Op, SequentialNodes]


def _numbered(
    history: History, asked: Mapping[object, Mapping[int, Pair]], reads: Sequence[Read]
) -> dict[tuple[object, int], Numbered]:
    """Return the creates whose number is known, by key and value, in order of their begins."""
    shown: dict[tuple[object, int], tuple[int, Op]] = {}
    for _, end in history.answered(CREATE, CREATE_DELETE):
        assert isinstance(end.value, tuple), "an acknowledged create has its number"
        shown[end.key, end.value[0]] = end.value[1], end
    for _, end, look in reads:
        for value, at in zip(look.values, look.numbers, strict=True):
            shown.setdefault((end.key, value), (at, end))
    known = [
        Numbered(pair, value, *shown[key, value])
        for key, pairs in asked.items()
        for value, pair in pairs.items()
        if (key, value) in shown
    ]
    known.sort(key=lambda one: one.pair.invoke.index)
    return {(one.key, one.value): one for one in known}


def _judge_numbers(
    found: Findings, history: History, creates: Mapping[tuple[object, int], Numbered]
) -> None:
    """Add creates that share a number, and those with a lower one than an earlier create."""
    every = list(creates.values())
    first: dict[tuple[object, int], Numbered] = {}
    for one in every:
        other = first.setdefault((one.key, one.number), one)
        if other is not one:
            _add(found, history, "shared", other, one)
    begins, acks = [one.pair.invoke.time_ns for one in every], [one.ack_ns for one in every]
    keys, numbers = [one.key for one in every], [one.number for one in every]
    for before, at in overtaken(begins, acks, keys, numbers):
        _add(found, history, "not-increasing", every[before], every[at])


def _add(found: Findings, history: History, kind: str, a: Numbered, b: Numbered) -> None:
    begun = b.pair.invoke
    how = "both have number" if kind == "shared" else "in this order have numbers"
    numbers = f"{a.number}" if kind == "shared" else f"{a.number} and {b.number}"
    text = (
        f"{a}, shown at {seconds(a.shown.time_ns)}, and {b}, begun at {seconds(begun.time_ns)}"
        f"{where(begun)}, {how} {numbers}{during(history, begun.time_ns)}"
    )
    found.add_anomaly(kind, text, a.pair, a.shown, b.pair, b.shown, key=b.key, value=b.value)


def _judge_read(
    found: Findings,
    history: History,
    creates: Mapping[tuple[object, int], Numbered],
    asked: Mapping[int, Pair],
    invoke: Op,
    end: Op,
    look: SequentialNodes,
) -> None:
    """Add nodes of a read that contradict what is known of their creates."""
    shows = f"op #{invoke.index} {invoke.f}{on_key(invoke)}{where(invoke)} shows value"
    when = f"at {seconds(end.time_ns)}{during(history, end.time_ns)}"
    for value, at in zip(look.values, look.numbers, strict=True):
        pair, create = asked.get(value), creates.get((invoke.key, value))
        if pair is None or pair.kind is Kind.FAIL or pair.invoke.time_ns > end.time_ns:
            why = (
                "nobody asked for it"
                if pair is None
                else f"create #{pair.invoke.index} began later"
            )
            if pair is not None and pair.kind is Kind.FAIL:
                why = f"create #{pair.invoke.index} was refused"
            text = f"{shows} {value} at number {at} {when}, though {why}"
            found.add_anomaly("phantom", text, invoke, end, pair, key=invoke.key, value=value)
        elif create is not None and create.number != at:
            text = f"{shows} {value} at number {at} {when}, and op #{create.shown.index} at number "
            text += f"{create.number}"
            proof = (create.pair, create.shown, invoke, end)
            found.add_anomaly("renumbered", text, *proof, key=invoke.key, value=value)


def _judge_fresh(
    found: Findings,
    history: History,
    asked: Mapping[int, Pair],
    invoke: Op,
    end: Op,
    look: SequentialNodes,
) -> None:
    """Add nodes that a fresh read lacks, and those that it shows after their removal."""
    there = frozenset(look.values)
    for value, pair in asked.items():
        ack = pair.end
        if pair.kind is not Kind.OK or ack is None or ack.time_ns >= invoke.time_ns:
            continue
        lasts = ack.f == CREATE
        if lasts == (value in there):
            continue
        what = "is not in" if lasts else "was removed again, and is in"
        text = (
            f"value {value}{on_key(ack)}, acknowledged at {seconds(ack.time_ns)} (op "
            f"#{ack.index}){where(ack)}, {what} op #{invoke.index} {invoke.f}{where(invoke)}, "
            f"begun at {seconds(invoke.time_ns)}{during(history, invoke.time_ns)}"
        )
        kind = "lost-node" if lasts else "undeleted"
        found.add_anomaly(kind, text, pair, invoke, end, key=invoke.key, value=value)
