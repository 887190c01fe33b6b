"""Searches through runs on simulated servers, steered by what earlier runs have covered.

Nothing here runs anything: a `Hunt` draws inputs and takes what their runs covered. An input is the
options that it changes, its seeds, and perhaps a timetable of faults in place of the nemesis' own.
Half of the inputs are drawn afresh. The others are mutations: of the seed of the servers alone, of
that of the calls alone, of the nemesis' options, or of single faults.

What is mutated is chosen by an element that few runs have reached, each with the same chance, as in
FairFuzz (Lemieux, Sen, ASE 2018): the cheapest input that reached it. The pool has these inputs.

Run n is drawn when the results of all runs up to n - AHEAD are known, in their order, so that the
seed of the hunt decides every run, whatever the number of processes that make them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.script import TimedCall
from harness.search.fault_edits import TimedFault, faults_of, spliced, timetable_of
from harness.spec.variation import FRESH, RARE, Draws, varied

AHEAD: Final = 16
"""Number of runs that are drawn before the result of the first of them is known."""
EDITS_MAX: Final = 4


class HuntInput(msgspec.Struct, frozen=True):
    """What one run of a hunt does."""

    options: dict[str, str]
    """Options in which it differs from the hunt, by their long names; its seed is one."""
    faults: tuple[TimedCall, ...] | None = None
    """Its faults, as a script has them; None: the nemesis draws them."""
    parent: int | None = None
    """Number of the run that it was mutated from."""
    how: str = "fresh"
    """How it was drawn or mutated."""


class HuntRun(msgspec.Struct, frozen=True):
    """Result of a run: not a `Trial`, as no anomaly is looked for and what it covered steers the
    hunt."""

    status: str
    kinds: tuple[str, ...]
    """Anomalies that decide its verdict, as CHECKER:KIND."""
    elements: bytes
    """What it covered: numbers of 32 bits, in order."""
    distances: tuple[int, ...] = ()
    faults: tuple[TimedCall, ...] = ()
    """Faults that began and ended."""
    events: int = 0
    cpu_s: float = 0.0
    trouble: str = ""
    """Why the run did not reach its end; "" if it did."""


class PoolEntry(msgspec.Struct, frozen=True):
    """Cheapest input that reached a rare element."""

    number: int
    options: dict[str, str]
    faults: tuple[TimedCall, ...]
    events: int
    """Number of simulated events, which is what another run costs."""


class HuntState(msgspec.Struct):
    """What a hunt knows; enough to go on."""

    seed: int
    drawn: int = 0
    """Number of inputs drawn."""
    taken: int = 0
    """Number of results taken."""
    waiting: list[HuntInput] = []
    """Inputs whose results have not been taken."""
    pool: dict[int, PoolEntry] = {}
    """By the number of its run."""
    cheapest: dict[int, int] = {}
    """By rare element: the number of the cheapest run that reached it."""
    counts: dict[int, int] = {}
    """By element: number of runs that covered it."""
    statuses: dict[str, int] = {}
    kinds: dict[str, int] = {}
    """By kind of anomaly: number of runs that show it."""
    first: dict[str, int] = {}
    """By kind of anomaly: number of the first run that shows it, from 1."""
    hits: dict[str, int] = {}
    """By way of drawing: number of runs that covered something new."""
    tries: dict[str, int] = {}
    """By way of drawing: number of runs."""
    events: int = 0
    cpu_s: float = 0.0
    stored: dict[str, list[str]] = {}
    """By kind of anomaly: the stored runs."""
    troubles: dict[str, list[int]] = {}
    """By the reason why runs did not reach their end: the numbers of these runs."""
    distances: list[int] = []
    """Greatest distance of each kind."""
    spent_s: float = 0.0
    over: bool = False


@dataclass(slots=True)
class Hunt:
    """Search through runs of one set of options."""

    base: Mapping[str, str | tuple[str, ...]]
    """Options of every run, by their long names."""
    topology: Topology
    state: HuntState
    steered: bool = True
    """False: no input is a mutation of another one."""
    varied: bool = True
    """False: every input has the options of the hunt, and differs by its seed alone."""

    def draw(self) -> HuntInput:
        """Return the next input."""
        draws = Draws(Seed(self.state.seed).child("draw", self.state.drawn))
        found: HuntInput | None = None
        if self.steered and self.state.pool and draws.unit() >= FRESH:
            found = self._mutated(draws)
        found = found or self._fresh(draws)
        self.state.drawn += 1
        self.state.waiting.append(found)
        return found

    def take(self, run: HuntRun) -> tuple[HuntInput, int]:
        """Take the result of the oldest input that waits. Return the input and the number of
        elements that no run had covered before."""
        state = self.state
        given = state.waiting.pop(0)
        state.taken += 1
        new: list[int] = []
        for element in memoryview(run.elements).cast("I"):
            count = state.counts.get(element, 0)
            state.counts[element] = count + 1
            if not count:
                new.append(element)
        _count(state.tries, given.how)
        if new:
            _count(state.hits, given.how)
        _count(state.statuses, run.status)
        for kind in run.kinds:
            _count(state.kinds, kind)
            state.first.setdefault(kind, state.taken)
        if run.trouble:
            state.troubles.setdefault(run.trouble, []).append(state.taken)
        reached = [*state.distances, *(0 for _ in run.distances[len(state.distances) :])]
        state.distances = [
            max(pair) for pair in zip(reached, run.distances or reached, strict=True)
        ]
        state.events += run.events
        state.cpu_s = round(state.cpu_s + run.cpu_s, 6)
        if self.steered and not run.trouble:
            self._pool(given, run)
        return given, len(new)

    # --- the pool -------------------------------------------------------------------------------

    def _pool(self, given: HuntInput, run: HuntRun) -> None:
        state = self.state
        faults = run.faults if given.faults is None else given.faults
        state.pool[state.taken] = PoolEntry(state.taken, given.options, faults, run.events)
        for element in memoryview(run.elements).cast("I"):
            if state.counts[element] > 1 + RARE * state.taken:
                state.cheapest.pop(element, None)
                continue
            other = state.pool.get(state.cheapest.get(element, 0))
            if other is None or run.events < other.events:
                state.cheapest[element] = state.taken
        kept = {*state.cheapest.values()}
        state.pool = {number: entry for number, entry in state.pool.items() if number in kept}

    def _chosen(self, draws: Draws) -> PoolEntry:
        numbers = [*self.state.cheapest.values()]
        return self.state.pool[numbers[draws.below(len(numbers))]]

    # --- inputs ---------------------------------------------------------------------------------

    def _fresh(self, draws: Draws) -> HuntInput:
        seed = {"seed": draws.seed_text()}
        if not self.varied or draws.below(2):
            return HuntInput(seed)
        return HuntInput({**seed, **varied(draws, self.base, {}, far=True)}, how="options")

    def _mutated(self, draws: Draws) -> HuntInput:
        entry = self._chosen(draws)
        ways: list[tuple[float, str, Callable[[Draws, PoolEntry], HuntInput | None]]] = [
            (1, "server-seed", self._other_servers),
            (1, "seed", self._other_calls),
            (1, "options", self._other_options),
            (4, "faults", self._edited),
            (1, "splice", self._spliced),
        ]
        _, how, way = ways[draws.weighted([weight for weight, _, _ in ways])]
        made = way(draws, entry) or self._other_servers(draws, entry)
        return msgspec.structs.replace(made, parent=entry.number, how=how)

    def _other_servers(self, draws: Draws, entry: PoolEntry) -> HuntInput:
        return HuntInput({**entry.options, "server-seed": draws.seed_text()}, entry.faults)

    def _other_calls(self, draws: Draws, entry: PoolEntry) -> HuntInput:
        return HuntInput({**entry.options, "seed": draws.seed_text()}, entry.faults)

    def _other_options(self, draws: Draws, entry: PoolEntry) -> HuntInput:
        """Change the nemesis' options a little; it draws the faults anew."""
        seed = {"seed": draws.seed_text()} if draws.below(2) else {}
        return HuntInput(
            {**entry.options, **varied(draws, self.base, entry.options, far=False), **seed}
        )

    def _edited(self, draws: Draws, entry: PoolEntry) -> HuntInput | None:
        faults = list(faults_of(entry.faults))
        if not faults:
            return None
        for _ in range(1 + draws.below(EDITS_MAX)):
            faults = self._edit(draws, faults, self._length_ns(entry.options))
        servers = {"server-seed": draws.seed_text()} if draws.below(2) else {}
        return self._scripted({**entry.options, **servers}, faults)

    def _spliced(self, draws: Draws, entry: PoolEntry) -> HuntInput | None:
        other = self._chosen(draws)
        length_ns = self._length_ns(entry.options)
        cut_ns = int(length_ns * draws.unit())
        shift_ns = int(length_ns * draws.between(-0.25, 0.25))
        faults = spliced(faults_of(entry.faults), faults_of(other.faults), cut_ns, shift_ns)
        return self._scripted(entry.options, faults) if faults else None

    def _scripted(self, options: Mapping[str, str], faults: Sequence[TimedFault]) -> HuntInput:
        length_ns = self._length_ns(options)
        within = [fault for fault in faults if fault.begin.at_ns < length_ns]
        return HuntInput(dict(options), timetable_of(within))

    def _length_ns(self, options: Mapping[str, str]) -> int:
        limit_s = options.get("time-limit") or self.base["time-limit"]
        return round(float(str(limit_s)) * 1e9)

    # --- edits ----------------------------------------------------------------------------------

    def _edit(self, draws: Draws, faults: list[TimedFault], run_length_ns: int) -> list[TimedFault]:
        """Return the faults after one change of one of them."""
        if not faults:
            return faults
        at, way = draws.below(len(faults)), draws.below(6)
        one, others = faults[at], [*faults[:at], *faults[at + 1 :]]
        begin_ns = one.begin.at_ns
        if way == 0:
            return others
        if way == 1:  # anywhere
            return [*others, one.at(draws.below(run_length_ns))]
        if way == 2:  # a little earlier or later
            shift_ns = int(10 ** draws.between(6, 9.5)) * (1 if draws.below(2) else -1)
            return [*others, one.at(begin_ns + shift_ns)]
        if way == 3:
            length_ns = int(one.length_ns * 2 ** draws.between(-3, 2))
            return [*others, one.at(begin_ns, max(10**6, length_ns))]
        if way == 4:
            return [*others, one.on(self._names(draws))]
        copy_ns = begin_ns + one.length_ns + int(10 ** draws.between(6, 9.5))
        return [*faults, one.at(copy_ns) if draws.below(2) else one.on(self._names(draws))]

    def _names(self, draws: Draws) -> dict[str, str]:
        """Return other names of the servers, each one's role the same."""
        names: dict[str, str] = {}
        for nodes in (self.topology.replicas, self.topology.keepers):
            by = draws.below(len(nodes))
            names.update(zip(nodes, (*nodes[by:], *nodes[:by]), strict=True))
        return names


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def ranked(kinds: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return kinds of anomalies, the most frequent first."""
    return sorted(Counter(kinds).items(), key=lambda one: (-one[1], one[0]))
