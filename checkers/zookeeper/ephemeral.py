"""Checks that ZooKeeper's ephemeral nodes live exactly as long as their sessions.

A process has one session at a time. "create" makes an ephemeral node of it, named by the call's
value. "touch" writes to one of the session's nodes: its answer has the node's value, and 1, or 0 if
the node was not there. ZooKeeper commits a write only for a session that is alive, so an answer
proves that it was, up to some moment after the call began. "close" ends the session and waits for
the answer, "expire" cuts its connection and leaves it to expire; their answers have the nodes of
the session, and the process goes on with another one. A process that is retired has given its
session up. "hold" makes a node in a session without pings, reads it for longer than the timeout,
and writes to it: its answer has the value, whether the session was alive, and the longest time
between two answers in ms.

A read lists the nodes, after a sync if it is to be fresh; a final one always is. The run waits
before the final reads until each session that was given up must have expired.

Violated:
- "gone-early": a touch did not find its node; or a fresh read, or one of the same session, began
  after the acknowledgement of a create, lacks its node, and ended before a touch of it began that
  found it;
- "expired-early": a session expired although it read at least twice in each timeout, and no fault
  was in force up to two timeouts before. (A follower tells the leader which sessions it heard.)
- "outlived": a fresh read that began after a session was closed has one of its nodes; or a final
  one at rest has a node of a session that was given up;
- "phantom": a read has a node that nobody asked for, whose create was refused, or began later.

Doubtful: no read was made of a node while its session was proven alive, or after one was over.

A read without a sync may lack the node of another session for long, and show it for long:
    p0 create 1 → ok     p1 read → none     p0 touch → 1 is there
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.conclusion import Findings
from checkers.phrasing import during, number, seconds, where
from checkers.quiescence import quiescence_of
from harness.core.connections import SESSION_S
from harness.core.history import History, Pair
from harness.core.op import Kind, Op
from harness.core.verdict import Verdict

CREATE, TOUCH, CLOSE, EXPIRE, HOLD = "create", "touch", "close", "expire", "hold"
READ, FINAL = "read", "final-read"
KINDS = ("gone-early", "expired-early", "outlived", "phantom")


@dataclass(slots=True)
class _EphemeralNode:
    """What is known of one node."""

    create: Pair
    touches: list[Pair] = field(default_factory=list)
    """Touches that found it, in order of their begins."""
    closed: Op | None = None
    """Acknowledgement of the close of its session."""
    given_up: Op | None = None
    """Op that left its session to expire, or retired its process."""

    @property
    def value(self) -> int:
        """Return the value that names it."""
        value = self.create.invoke.value
        assert isinstance(value, int), "a node is named by a number"
        return value

    @property
    def born_ns(self) -> int | None:
        """Return when its create was acknowledged; None if it was not."""
        ack = self.create.end
        return ack.time_ns if ack is not None and self.create.kind is Kind.OK else None


class EphemeralNodes:
    """Judges reads of ephemeral nodes against what is known of their sessions."""

    name = "ephemeral-nodes"

    def __init__(self, *, synced: bool) -> None:
        """`synced`: a sync comes before each read, not only before a final one."""
        self.synced = synced

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs reads while a session was alive, and after its end."""
        found = Findings(self.name, kinds=KINDS)
        nodes = _nodes(found, history)
        alive = over = 0
        at_rest = quiescence_of(history).reached
        lives, ends = _NodeLives(nodes.values()), _SessionEnds(nodes.values())
        for invoke, end in sorted(history.answered(READ, FINAL), key=lambda one: one[0].index):
            assert isinstance(end.value, tuple), "a read lists the values of nodes"
            there = frozenset(end.value)
            fresh = self.synced or invoke.f == FINAL
            _judge_unasked(found, history, nodes, invoke, end)
            for node, touch in lives.during(invoke, end):
                if fresh or node.create.invoke.process == invoke.process:
                    alive += 1
                    if node.value not in there:
                        _add_gone(found, history, node, invoke, end, touch)
            if not fresh:
                continue
            given_up = invoke.f == FINAL and at_rest
            over += ends.before(invoke, given_up=given_up)
            for shown in (nodes[value] for value in sorted(there) if value in nodes):
                last = _end_before(shown, invoke, given_up=given_up)
                if last is not None:
                    _add_outlived(found, history, shown, invoke, end, last)
        looks = (
            f"{number(alive, 'look')} at nodes of live sessions, {over:,} at those of ended ones"
        )
        if not alive or not over:
            found.add_doubt(f"{looks}: both expected")
        return found.verdict(
            checked=alive + over,
            held=f"{number(len(nodes), 'ephemeral node')}: {looks}",
            figures={"nodes": len(nodes), "alive": alive, "over": over},
        )


def _nodes(found: Findings, history: History) -> dict[int, _EphemeralNode]:
    """Return what is known of the nodes, by value. Add the touches that missed theirs."""
    nodes: dict[int, _EphemeralNode] = {}
    owned: dict[object, list[int]] = {}
    for pair in history.pairs:
        invoke, end = pair.invoke, pair.end
        if invoke.f == CREATE:
            assert isinstance(invoke.value, int), "a node is named by a number"
            nodes[invoke.value] = _EphemeralNode(pair)
            owned.setdefault(invoke.process, []).append(invoke.value)
        if invoke.f == HOLD:
            assert isinstance(invoke.value, int), "a node is named by a number"
            nodes[invoke.value] = _EphemeralNode(pair)
        if pair.kind is Kind.INFO:
            for value in owned.pop(invoke.process, []):
                nodes[value].given_up = end or invoke
        if end is None or pair.kind is not Kind.OK or not isinstance(end.value, tuple):
            continue
        if invoke.f == TOUCH:
            value, is_there = end.value
            if is_there:
                nodes[value].touches.append(pair)
            else:
                text = (
                    f"op #{invoke.index} touch{where(invoke)} did not find node {value} of its own "
                    f"session at {seconds(end.time_ns)}{during(history, end.time_ns)}"
                )
                found.add_anomaly("gone-early", text, nodes[value].create, pair, value=value)
        if invoke.f == HOLD:
            nodes[end.value[0]].given_up = end
            _judge_held(found, history, pair, end)
        if invoke.f in (CLOSE, EXPIRE):
            owned.pop(invoke.process, None)
            for value in end.value:
                if invoke.f == CLOSE:
                    nodes[value].closed = end
                else:
                    nodes[value].given_up = end
    return nodes


def _judge_held(found: Findings, history: History, pair: Pair, end: Op) -> None:
    """Add a session that expired although it was heard in time, without a fault."""
    assert isinstance(end.value, tuple), "it has a value, whether it was alive, and a time"
    value, alive, gap_ms = end.value
    since_ns = pair.invoke.time_ns - round(2 * SESSION_S * 1e9)
    disturbed = any(
        fault.invoked_ns <= end.time_ns and (fault.end_ns is None or fault.end_ns >= since_ns)
        for fault in history.faults
    )
    if alive or disturbed or gap_ms >= SESSION_S * 1e3 / 2:
        return
    text = (
        f"the session of node {value}, op #{pair.invoke.index}{where(pair.invoke)}, had expired at "
        f"{seconds(end.time_ns)}, though it read at least every {gap_ms:,} ms"
    )
    found.add_anomaly("expired-early", text, pair, value=value)


class _NodeLives:
    """The nodes from their births to the last touches that found them, for reads in the order of
    their begins."""

    def __init__(self, nodes: Iterable[_EphemeralNode]) -> None:
        self._unborn = [
            (born_ns, node.value, node)
            for node in nodes
            if node.touches and (born_ns := node.born_ns) is not None
        ]
        self._unborn.sort(reverse=True)
        self._alive: list[_EphemeralNode] = []

    def during(self, invoke: Op, end: Op) -> Iterator[tuple[_EphemeralNode, Pair]]:
        """Yield the nodes that were there all through a read, each with a touch that proves it."""
        while self._unborn and self._unborn[-1][0] < invoke.time_ns:
            self._alive.append(self._unborn.pop()[2])
        self._alive = [n for n in self._alive if n.touches[-1].invoke.time_ns > invoke.time_ns]
        for node in self._alive:
            if node.touches[-1].invoke.time_ns > end.time_ns:
                yield node, node.touches[-1]


class _SessionEnds:
    """The times at which sessions of nodes were closed, and those at which they were given up."""

    def __init__(self, nodes: Collection[_EphemeralNode]) -> None:
        closed = [node.closed.time_ns for node in nodes if node.closed is not None]
        either = [
            min(op.time_ns for op in (node.closed, node.given_up) if op is not None)
            for node in nodes
            if node.closed is not None or node.given_up is not None
        ]
        self._closed, self._either = sorted(closed), sorted(either)

    def before(self, invoke: Op, *, given_up: bool) -> int:
        """Return the number of nodes whose session was over before a read began, as `_end_before`
        decides it."""
        return bisect_left(self._either if given_up else self._closed, invoke.time_ns)


def _end_before(node: _EphemeralNode, invoke: Op, *, given_up: bool) -> Op | None:
    """Return the op by which the node's session was over before a read began; None if it may not
    have been. `given_up`: sessions that were given up are over by then."""
    for last, counts in ((node.closed, True), (node.given_up, given_up)):
        if last is not None and counts and last.time_ns < invoke.time_ns:
            return last
    return None


def _judge_unasked(
    found: Findings,
    history: History,
    nodes: Mapping[int, _EphemeralNode],
    invoke: Op,
    end: Op,
) -> None:
    values: Sequence[int] = end.value if isinstance(end.value, tuple) else ()
    for value in values:
        node = nodes.get(value)
        create = None if node is None else node.create
        if create is None:
            why = "nobody asked for it"
        elif create.kind is Kind.FAIL:
            why = f"create #{create.invoke.index} was refused"
        elif create.invoke.time_ns > end.time_ns:
            why = f"create #{create.invoke.index} began later"
        else:
            continue
        text = (
            f"op #{invoke.index} {invoke.f}{where(invoke)} has node {value} at "
            f"{seconds(end.time_ns)}{during(history, end.time_ns)}, though {why}"
        )
        found.add_anomaly("phantom", text, invoke, end, create, value=value)


def _add_gone(
    found: Findings, history: History, node: _EphemeralNode, invoke: Op, end: Op, touch: Pair
) -> None:
    value, ack = node.value, node.create.end
    assert ack is not None, "it was acknowledged"
    text = (
        f"node {value}, acknowledged at {seconds(ack.time_ns)} (op #{ack.index}){where(ack)}, is "
        f"not in op #{invoke.index} {invoke.f}{where(invoke)} at {seconds(end.time_ns)}, and op "
        f"#{touch.invoke.index} found it later{during(history, invoke.time_ns)}"
    )
    proof = (node.create, invoke, end, touch)
    found.add_anomaly("gone-early", text, *proof, value=node.value)


def _add_outlived(
    found: Findings, history: History, node: _EphemeralNode, invoke: Op, end: Op, last: Op
) -> None:
    how = "closed" if last is node.closed else "given up"
    text = (
        f"node {node.value} is in op #{invoke.index} {invoke.f}{where(invoke)}, "
        f"begun at {seconds(invoke.time_ns)}, though its session was {how} at "
        f"{seconds(last.time_ns)} (op #{last.index}){where(last)}{during(history, invoke.time_ns)}"
    )
    proof = (node.create, last, invoke, end)
    found.add_anomaly("outlived", text, *proof, value=node.value)
