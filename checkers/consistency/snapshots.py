"""Decides strong snapshot isolation of transactions that insert rows and read them as sets.

A transaction is a call `txn` or `final-txn`, as `checkers.consistency.isolation` has them, with the
steps ["insert", key, element] and ["r", key, elements]. The elements come in no order of commits: a
merge of parts numbers rows anew, and not even `_block_number` is one. So no order of the versions
of a key is assumed, only that inserts never meet. It is for one server at a time:

The transactions that committed have one order. Each reads what those before some place in that
order inserted, with what it has itself inserted by then; that place is before its own, not before
a transaction that returned before it began, and not behind one that began after it returned.

So each transaction has two moments between its call and its end, its snapshot and its commit. What
a snapshot shows committed before it; what is missing of what it should show if it had, committed
later. If these, and real time, have no cycle, there is such an order, and else there is none:
every requirement orders two moments. A transaction of unknown outcome that nobody saw can be last.

Violated, besides: a read has what nobody inserted ("phantom"), what was rolled back ("aborted"), a
row twice ("duplicated"), or does not agree with its own transaction's inserts ("own-writes").
Doubtful: no read of what others inserted, and a server without an answered `final-txn`.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from checkers.conclusion import Findings
from checkers.consistency.isolation import FINAL_TXN, TXN, nodes_without_final, steps_of
from checkers.phrasing import listed, number, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Verdict

INSERT: Final = "insert"
CYCLES_MAX: Final = 100
"""Number of cycles, which share no snapshot, after which no more are looked for."""
STARTS_MAX: Final = 16
"""Number of snapshots among which the shortest cycle is looked for."""


class Snapshots:
    """Checks that snapshots have whole transactions, and are those of one order of commits."""

    name = "snapshots"

    def check(self, history: History) -> Verdict:
        """Return the verdict. O(transactions × (transactions + elements read) of each server)."""
        pairs = list(history.calls(TXN, FINAL_TXN))
        found = Findings(self.name)
        seen = 0
        for node in dict.fromkeys(pair.invoke.node for pair in pairs):
            views = _Views([pair for pair in pairs if pair.invoke.node == node], found)
            seen += views.seen
            for cycle in views.cycles():
                kind, text, steps = views.explain(cycle)
                proof = [views.pairs[at] for at in dict.fromkeys(at for at, _ in cycle)]
                found.add_anomaly(kind, text, *proof, steps=steps)
        if not seen:
            found.add_doubt("no transaction read what another had inserted")
        if unread := nodes_without_final(history):
            found.add_doubt(f"no {FINAL_TXN} on {listed(unread)}")
        committed = sum(pair.kind is Kind.OK for pair in pairs)
        return found.verdict(
            checked=committed,
            held=f"{number(committed, 'transaction')} have snapshots of one order of commits",
            figures={"transactions": len(pairs), "committed": committed, "seen": seen},
        )


_Moment = tuple[int, str]
"""Position of a transaction and which moment of it: "snapshot", "commit", or "end", when it had
returned, behind which are all moments of transactions that were called later."""


class _Views:
    """Which moments of one server's transactions are before which."""

    def __init__(self, pairs: Sequence[Pair], found: Findings) -> None:
        """Read the transactions and add what a read alone shows to be wrong."""
        self.pairs = [pair for pair in pairs if pair.kind is not Kind.FAIL]
        self.seen = 0
        self._found = found
        self._after: dict[_Moment, list[_Moment]] = {}
        self._owner: dict[tuple[int, int], int] = {}
        self._elements: dict[int, set[int]] = {}
        self._aborted: dict[tuple[int, int], Pair] = {}
        for pair in pairs:
            if pair.kind is Kind.FAIL:
                inserts = [(key, value) for f, key, value in steps_of(pair) if f == INSERT]
                self._aborted |= dict.fromkeys(inserts, pair)
        for at, pair in enumerate(self.pairs):
            for f, key, value in steps_of(pair):
                if f == INSERT:
                    self._owner[key, value] = at
                    self._elements.setdefault(key, set()).add(value)
        self._keep_time()
        for at, pair in enumerate(self.pairs):
            self._order((at, "snapshot"), (at, "commit"))
            if pair.kind is Kind.OK:
                self._read(at, pair)

    def _order(self, before: _Moment, after: _Moment) -> None:
        self._after.setdefault(before, []).append(after)

    def _keep_time(self) -> None:
        """Order the ends, and every moment before its own end and behind the ends before it."""
        ends = [
            (pair.end.time_ns, at)
            for at, pair in enumerate(self.pairs)
            if pair.kind is Kind.OK and pair.end is not None
        ]
        ends.sort()
        for (_, earlier), (_, later) in pairwise(ends):
            self._order((earlier, "end"), (later, "end"))
        for _, at in ends:
            self._order((at, "commit"), (at, "end"))
        calls = sorted((pair.invoke.time_ns, at) for at, pair in enumerate(self.pairs))
        returned = 0
        for time_ns, at in calls:
            while returned < len(ends) and ends[returned][0] < time_ns:
                returned += 1
            if returned:
                self._order((ends[returned - 1][1], "end"), (at, "snapshot"))

    def _read(self, at: int, pair: Pair) -> None:
        """Order the snapshot of a transaction beside the commits of what it read and missed."""
        own: dict[int, set[int]] = {}
        before, behind = set[int](), set[int]()
        for f, key, value in steps_of(pair):
            mine = own.setdefault(key, set())
            if f == INSERT:
                mine.add(value)
                continue
            shown = set(value)
            for element in shown - self._elements.get(key, set()):
                self._refuse(pair, key, element)
            if len(shown) < len(value):
                twice = [element for element, count in Counter(value).items() if count > 1]
                self._add(pair, "duplicated", f"{listed(twice)} of key {key} more than once")
            known = self._elements.get(key, set())
            ours = {element for element in known if self._owner[key, element] == at}
            if shown & ours != mine:
                text = f"{sorted(shown & ours)} of its own inserts {sorted(mine)} into key {key}"
                self._add(pair, "own-writes", text)
            before |= {self._owner[key, element] for element in (shown & known) - ours}
            behind |= {self._owner[key, element] for element in known - shown - ours}
        self.seen += bool(before)
        for other in before:
            if not self._is_before(other, at):
                self._order((other, "commit"), (at, "snapshot"))
        for other in behind:
            if other in before or not self._is_before(at, other):
                self._order((at, "snapshot"), (other, "commit"))
        for other in before & behind:
            self._order((other, "commit"), (at, "snapshot"))

    def _is_before(self, one: int, other: int) -> bool:
        """Return whether a transaction had returned before another was called: time says it all."""
        pair = self.pairs[one]
        return (
            pair.kind is Kind.OK
            and pair.end is not None
            and pair.end.time_ns < self.pairs[other].invoke.time_ns
        )

    def _refuse(self, pair: Pair, key: int, element: int) -> None:
        aborted = self._aborted.get((key, element))
        if aborted is None:
            self._add(pair, "phantom", f"{element} of key {key}, which nobody inserted")
        else:
            text = f"{element} of key {key}, which op #{aborted.invoke.index} rolled back"
            self._add(pair, "aborted", text, aborted)

    def _add(self, pair: Pair, kind: str, text: str, *others: Pair) -> None:
        said = f"op #{pair.invoke.index}{where(pair.invoke)} read {text}"
        self._found.add_anomaly(kind, said, pair, *others)

    def cycles(self) -> Iterator[list[_Moment]]:
        """Yield short cycles, no two of which have a snapshot in common."""
        for _ in range(CYCLES_MAX):
            left = self._cyclic()
            starts = [moment for moment in left if moment[1] == "snapshot"][:STARTS_MAX]
            rounds = [cycle for start in starts if (cycle := self._cycle(start, left))]
            if not rounds:
                return
            shortest = min(rounds, key=len)
            yield shortest
            for moment in shortest:
                if moment[1] == "snapshot":
                    self._after.pop(moment, None)

    def _cyclic(self) -> set[_Moment]:
        """Return the moments that are left when those without a moment before them are removed,
        again and again."""
        waits = Counter(after for afters in self._after.values() for after in afters)
        left = {*self._after, *waits}
        free = [moment for moment in left if not waits[moment]]
        while free:
            moment = free.pop()
            left.discard(moment)
            for after in self._after.get(moment, ()):
                waits[after] -= 1
                if not waits[after]:
                    free.append(after)
        return left

    def _cycle(self, start: _Moment, left: set[_Moment]) -> list[_Moment]:
        """Return the shortest cycle through a moment, which comes first; empty if there is none."""
        came: dict[_Moment, _Moment] = {}
        line = deque([start])
        while line:
            moment = line.popleft()
            for after in self._after.get(moment, ()):
                if after == start:
                    path = [moment]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if after in left and after not in came:
                    came[after] = moment
                    line.append(after)
        return []

    def explain(self, cycle: Sequence[_Moment]) -> tuple[str, str, list[str]]:
        """Return the kind of a cycle, what it says, and its steps."""
        snapshots = [at for at, moment in cycle if moment == "snapshot"]
        one, other = self.pairs[snapshots[0]], self.pairs[snapshots[-1]]
        name = f"op #{one.invoke.index}{where(one.invoke)}"
        if len(cycle) == 2:
            (writer,) = (at for at, moment in cycle if moment == "commit")
            kind, text = "torn", f"{name} saw a part of op #{self.pairs[writer].invoke.index}"
        elif all(moment != "end" for _, moment in cycle) and len(snapshots) > 1:
            kind = "unordered"
            text = f"neither of {name} and op #{other.invoke.index} saw all that the other saw"
        elif len(snapshots) == 1 and cycle[1][1] == "commit":
            kind = "stale"
            missed = self.pairs[cycle[1][0]].invoke.index
            text = f"{name} missed op #{missed}, which had returned before it began"
        else:
            kind, text = "time-order", f"no order of commits explains {name} and keeps real time"
        steps = [
            self._step(moment, after)
            for moment, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
            if after[1] != "end"
        ]
        return kind, text, steps

    def _step(self, moment: _Moment, after: _Moment) -> str:
        (at, which), (then, following) = moment, after
        here, there = self.pairs[at], self.pairs[then]
        first, second = f"op #{here.invoke.index}", f"op #{there.invoke.index}"
        if at == then:
            return f"{first} has its snapshot before its commit"
        if which == "end":
            assert here.end is not None, "it returned"
            ended, began = seconds(here.end.time_ns), seconds(there.invoke.time_ns)
            return f"{second} began at {began}, after {first} had returned at {ended}"
        if which == "commit" and following == "snapshot":
            return f"{first} is seen by {second}: it committed before that snapshot"
        return f"{second} is missing from {first}: it committed after that snapshot"
