"""Shrinks a scripted run as long as it reproduces an anomaly, in the manner of Hypothesis.

Nothing here runs anything: a `Shrinker` proposes candidates to the function that it is given, and
keeps those that reproduce. Its passes remove groups of calls (those of a fault, a key, a client, a
kind, a node), then single calls; servers; time between calls; clients; options. They are repeated
until none finds anything smaller, so that no single call or fault can be left out of the result
alone. Groups are removed in chunks of halved size, from the end first (Zeller and Hildebrandt,
"Simplifying and isolating failure-inducing input", 2002).

The servers' delays are drawn in the order of their events, so that one call less changes all later
ones, and an anomaly that needs a narrow moment may vanish by chance. Once nothing can be removed
with the run's own seed, candidates with fewer calls are therefore tried with other seeds too, the
more the fewer calls they have; the calls of the witness alone come first.

Every choice follows from the run and the answers, and the budget counts candidates and simulated
events, not seconds: the same run shrinks to the same result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from math import ceil
from typing import Final

from msgspec.structs import replace as replace_struct

from harness.core.op import Value
from harness.generators.steps import NEMESIS_NUMBER
from harness.run.scripted import ScriptedRun
from harness.search.script_edits import (
    client_of,
    encoded_script,
    fault_of,
    gaps,
    grouped,
    key_of,
    kind_of,
    length_ns,
    limited,
    mapped,
    node_of,
    renumbered,
    rounded_up,
    until,
    with_gaps,
    without,
    without_server,
)
from harness.spec.option import Chooser
from harness.spec.run_options import OPTIONS

CANDIDATES_MAX: Final = 3_000
EVENTS_MAX: Final = 100_000_000
OTHER_SEEDS: Final = 32
"""Number of other seeds with which a candidate without any call would be tried. One that has lost a
part of the calls is tried with this part of the seeds, so that removing all calls in turn takes as
many candidates in chunks of any size."""
WITNESS_SEEDS: Final = 512
"""Maximum number of other seeds with which the calls of the witness alone are tried."""
SEEDS_PER_CALL: Final = 16
"""Number of those seeds for each call that would be removed: a rare moment is worth more tries the
more calls it saves."""
LADDER_NS: Final = tuple(
    n * 10**power for power in range(6, 11) for n in (1, 2, 5) if n * 10**power <= 60 * 10**9
)
"""Durations to which a gap between calls is shortened: 1, 2, 5, 10, … ms."""
SNAP_NS: Final = 1_000
"""Time from the end of a call to the one that is moved right after it."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A candidate that shows the anomaly."""

    time_ns: int
    """Time at which it was seen."""
    witness: frozenset[int] = frozenset()
    """Places of the calls that prove it, in the order in which the clients' calls began."""


@dataclass(frozen=True, slots=True)
class CandidateResult:
    """What running a candidate showed: not a `Trial`, but when and by which calls it reproduced,
    which the next candidates are made from; on real servers several tries decide it."""

    shown: Reproduction | None
    """How it shows the anomaly; None if it does not."""
    ends_ns: Sequence[int] = ()
    """When the clients' calls ended, in the order in which they began; () if that is not known in
    advance, as on real servers."""


@dataclass(slots=True)
class ShrinkBudget:
    """Budget of a shrink, and what was spent of it."""

    candidates_max: int = CANDIDATES_MAX
    events_max: int = EVENTS_MAX
    candidates: int = 0
    events: int = 0
    """Number of simulated events of all candidates; whoever runs them adds to it."""
    accepted: int = 0

    @property
    def spent(self) -> bool:
        """Return whether no candidate may be run any more."""
        return self.candidates >= self.candidates_max or self.events >= self.events_max


class OutOfBudgetError(Exception):
    """The budget is spent, or a stop was requested."""


@dataclass(slots=True)
class Shrinker:
    """Search for the smallest run that reproduces."""

    best: ScriptedRun
    run: Callable[[ScriptedRun], CandidateResult]
    """Run a candidate."""
    budget: ShrinkBudget
    progress: Callable[["Shrinker", str], None]
    """Called with the name of the pass after every candidate."""
    stopped: Callable[[], bool] = lambda: False
    fixed_cluster: bool = False
    """True if every candidate runs on one cluster, whose servers and options stay as they are."""
    minimal: bool = False
    """True if every pass has found nothing smaller."""
    _known: dict[bytes, CandidateResult] = field(default_factory=dict)
    """Results by the digest of a candidate."""
    _left: set[bytes] = field(default_factory=set)
    """Digests of the runs that were the best."""
    _seen: Reproduction | None = None
    """How the best run showed the anomaly."""
    _pass: str = ""
    _other_seeds: int = 0

    def first(self) -> bool:
        """Run the first candidate, the run itself; return whether it reproduces."""
        self.budget.candidates += 1
        self._seen = self.run(self.best).shown
        return self._seen is not None

    def shrink(self) -> ScriptedRun:
        """Return the smallest run that was found. `first` must have returned True."""
        passes: list[tuple[str, Callable[[], None]]] = [
            ("truncate", self._truncate),
            ("witness", self._witness),
            ("groups", self._groups),
            ("calls", self._calls),
            *([] if self.fixed_cluster else [("servers", self._servers)]),
            ("times", self._times),
            ("clients", self._clients),
            *([] if self.fixed_cluster else [("options", self._options)]),
            ("names", self._names),
        ]
        try:
            for seeds in (0,) if self.fixed_cluster else (0, OTHER_SEEDS):
                self._other_seeds, before = seeds, None
                while before is not self.best:
                    before = self.best
                    for self._pass, work in passes:
                        work()
            self.minimal = True
        except OutOfBudgetError:
            pass
        return self.best

    def consider(self, candidate: ScriptedRun) -> bool:
        """Keep a candidate if it reproduces; return whether it does. Raises OutOfBudgetError."""
        if candidate == self.best:
            return False
        lost = 1 - len(candidate.calls) / max(1, len(self.best.calls))
        others = ceil(self._other_seeds * lost) if lost > 0 else 0
        # Of a script a seed decides what the servers draw; a seed of their own is that seed.
        name = "server-seed" if "server-seed" in candidate.options else "seed"
        seeds = [str(candidate.options[name]), *(f"0x{n + 1:x}" for n in range(others))]
        return any(
            self._keeps(replace(candidate, options={**candidate.options, name: seed}))
            for seed in dict.fromkeys(seeds)
        )

    def _keeps(self, candidate: ScriptedRun) -> bool:
        """Keep this very candidate if it reproduces; return whether it does."""
        digest = _digest(candidate)
        # No run is the best twice, lest two passes undo each other's work for ever.
        seen = None if digest in self._left else self._result(candidate).shown
        if seen is not None:
            self._left.add(_digest(self.best))
            self.best, self._seen = candidate, seen
        self.progress(self, self._pass)
        return seen is not None

    def _result(self, candidate: ScriptedRun) -> CandidateResult:
        text = _digest(candidate)
        if text not in self._known:
            if self.budget.spent or self.stopped():
                raise OutOfBudgetError
            self.budget.candidates += 1
            found = self.run(candidate)
            if self.stopped():  # the candidate may have ended early
                raise OutOfBudgetError
            self._known[text] = found
            self.budget.accepted += found.shown is not None
        return self._known[text]

    # --- less time ------------------------------------------------------------------------------

    def _truncate(self) -> None:
        """End the run as early as possible: after the anomaly, then by halving."""
        while self._seen is not None and self._seen.time_ns < length_ns(self.best):
            end_ns = min(rounded_up(self._seen.time_ns), length_ns(self.best))
            if not self.consider(until(self.best, end_ns)):
                break
        low = 0
        while low < len(self.best.calls):
            middle = (low + len(self.best.calls)) // 2
            kept = self.best.calls[:middle]
            end_ns = rounded_up(kept[-1].at_ns) if kept else LADDER_NS[0]
            end_ns = min(end_ns, length_ns(self.best))
            if not self.consider(limited(replace(self.best, calls=kept), end_ns)):
                low = middle + 1

    def _times(self) -> None:
        """Shorten the gaps between calls, and the one before the end."""
        for most_ns in reversed(LADDER_NS):
            lengths = gaps(self.best)
            if max(lengths) > most_ns and not self.consider(
                with_gaps(self.best, [min(gap, most_ns) for gap in lengths])
            ):
                break
        at = len(gaps(self.best))
        while at > 0:
            at -= 1
            gap = gaps(self.best)[at]
            if not gap or self._gap(at, 0):
                continue
            low, high = 0, len([step for step in LADDER_NS if step < gap])
            while low < high:
                middle = (low + high) // 2
                if self._gap(at, LADDER_NS[middle]):
                    high = middle
                else:
                    low = middle + 1

    def _gap(self, at: int, ns: int) -> bool:
        lengths = gaps(self.best)
        return self.consider(with_gaps(self.best, [*lengths[:at], ns, *lengths[at + 1 :]]))

    # --- fewer calls ----------------------------------------------------------------------------

    def _witness(self) -> None:
        """Keep only the calls that prove the anomaly, with the faults or without them."""
        if self._seen is None or not self._seen.witness:
            return
        calls = self.best.calls
        clients = [at for at, one in enumerate(calls) if one.by != NEMESIS_NUMBER]
        proof = {at for place, at in enumerate(clients) if place in self._seen.witness}
        faults = set(range(len(calls))).difference(clients)
        for kept in (proof, proof | faults):
            if not kept or len(kept) == len(calls):
                continue
            candidate = without(self.best, set(range(len(calls))) - kept)
            if self.consider(candidate) or self._snapped(candidate):
                break

    def _snapped(self, candidate: ScriptedRun) -> bool:
        """Try a candidate with its last call right after the end of the one that ended last before:
        without other calls that one ends at another time, and the moment that an anomaly needs is
        often the first one after an acknowledgement."""
        clients = [at for at, one in enumerate(candidate.calls) if one.by != NEMESIS_NUMBER]
        if len(clients) < 2:
            return False
        last, own = clients[-1], candidate.calls[clients[-1]]
        saved = len(self.best.calls) - len(candidate.calls)
        seeds = min(WITNESS_SEEDS, max(self._other_seeds, SEEDS_PER_CALL * saved))
        for number in range(1, (seeds if self._other_seeds else 0) + 1):
            seeded = replace(candidate, options={**candidate.options, "seed": f"0x{number:x}"})
            ends_ns = self._result(seeded).ends_ns[:-1]
            if not ends_ns:
                return False
            moved = replace_struct(own, at_ns=max(ends_ns) + SNAP_NS)
            calls = [one for at, one in enumerate(candidate.calls) if at != last]
            run = replace(seeded, calls=tuple(sorted([*calls, moved], key=lambda c: c.at_ns)))
            end_ns = max(length_ns(run), rounded_up(moved.at_ns))
            if self._keeps(limited(run, end_ns)):
                return True
        return False

    def _groups(self) -> None:
        for name_of in (fault_of, key_of, client_of, kind_of, node_of):
            self._delete(partial(grouped, key_of=name_of))

    def _calls(self) -> None:
        self._delete(lambda run: [[at] for at in range(len(run.calls))])
        for apart in (1, 2, 3):  # a pair, such as a write and its read
            at = len(self.best.calls) - apart
            while at > 0:
                at -= 1
                if at + apart < len(self.best.calls):
                    self.consider(without(self.best, {at, at + apart}))

    def _delete(self, groups_of: Callable[[ScriptedRun], Sequence[Sequence[int]]]) -> None:
        """Remove groups of calls, in chunks of halved size, from the end first."""
        size = max(1, len(groups_of(self.best)) // 2)
        while size:
            end = len(groups_of(self.best))
            while end > 0:
                begin = max(0, end - size)
                # Groups keep their order, so that those before `begin` stay where they are.
                chunk = groups_of(self.best)[begin:end]
                self.consider(without(self.best, {at for group in chunk for at in group}))
                end = begin
            size //= 2

    def _servers(self) -> None:
        """Remove ZooKeeper servers and replicas; what they did is removed too, and the others are
        renumbered."""
        for flag, prefix in (("replicas", "ch"), ("keepers", "zk")):
            number = int(str(self.best.options.get(flag, 3)))
            at = number
            while at > 0 and number > 1:
                if self.consider(without_server(self.best, flag, prefix, number, at)):
                    number -= 1
                at -= 1

    # --- simpler --------------------------------------------------------------------------------

    def _clients(self) -> None:
        """Let one client make the calls of two, and number the clients from 0."""
        used = list(dict.fromkeys(one.by for one in self.best.calls if one.by >= 0))
        self.consider(renumbered(self.best, {by: at for at, by in enumerate(used)}))
        for by in range(self.best.clients - 1, 0, -1):
            for other in range(by):
                names = {n: other if n == by else n - (n > by) for n in range(self.best.clients)}
                if self.consider(renumbered(self.best, names)):
                    break

    def _options(self) -> None:
        """Remove options, and single words of lists of bugs and faults."""
        for name, value in sorted(self.best.options.items()):
            if Chooser.SHRINK in OPTIONS[name].option.chosen_by:
                continue
            others = {n: v for n, v in self.best.options.items() if n != name}
            if self.consider(replace(self.best, options=others)) or name not in ("bug", "nemesis"):
                continue
            for word in str(value).split(","):
                left = [w for w in str(self.best.options[name]).split(",") if w != word]
                if left:
                    options = {**self.best.options, name: ",".join(left)}
                    self.consider(replace(self.best, options=options))

    def _names(self) -> None:
        """Number keys and values in the order in which they come."""
        keys = list(dict.fromkeys(one.call.key for one in self.best.calls))
        numbers = {key: at for at, key in enumerate(key for key in keys if key is not None)}
        self.consider(
            mapped(
                self.best,
                lambda call: replace_struct(
                    call, key=None if call.key is None else numbers[call.key]
                ),
            )
        )
        values = dict.fromkeys(c.call.value for c in self.best.calls if type(c.call.value) is int)
        named: dict[Value, int] = {value: at for at, value in enumerate(values)}
        self.consider(
            mapped(
                self.best,
                lambda call: (
                    replace_struct(call, value=named[call.value])
                    if type(call.value) is int
                    else call
                ),
            )
        )


def _digest(run: ScriptedRun) -> bytes:
    return blake2b(encoded_script(run), digest_size=16).digest()
