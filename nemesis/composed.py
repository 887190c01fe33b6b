"""The nemesis of a run, composed of families of faults: schedule, dispatch, heal."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final

from harness.core.capabilities import (
    CanCutPower,
    CanDegradeLinks,
    CanIntercept,
    CanReconfigure,
    CanReplaceDisks,
    CanSetClocks,
    CanStarve,
    Conditional,
    HasFaultyDisks,
)
from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import PLUGIN_ERRORS, FaultError, UsageError
from harness.core.op import Done, Json, Kind, Op
from harness.core.protocols import Cluster, Generator, Nemesis
from harness.core.resources import Resource
from harness.core.seed import Seed
from nemesis.family import POLL_NS, Family, Needs, NotBegunError, Stepwise, Watch
from nemesis.options import FaultOptions
from nemesis.schedule import Track, schedule

YIELD_S = 10.0
"""Time that a heal waits for a call in flight to notice that it was abandoned."""


class Composed:
    """Nemesis composed of families of faults, no two with the same f, and of other such nemeses.

    A nemesis composed of nemeses schedules all their families by its own seed and options. Without
    families it is the nemesis `none`. Calls are executed one at a time. `heal` may be called from
    another thread while a call is in flight: the call then begins nothing more, and undoes what it
    has begun.
    """

    def __init__(
        self,
        name: str,
        members: Sequence["Family | Composed"],
        seed: Seed,
        options: FaultOptions,
    ) -> None:
        self.name = name
        families = [
            family
            for member in members
            for family in (member.families if isinstance(member, Composed) else (member,))
        ]
        self.fs = frozenset(family.f for family in families)
        self.needs: Needs = tuple(
            dict.fromkeys(need for family in families for need in family.needs)
        )
        assert len(self.fs) == len(families), (
            "each f belongs to one family: ops are dispatched by f"
        )
        self._families = {family.f: family for family in families}
        self._seed = seed
        self._options = options
        self._heals = 0
        """Number of heals that have begun. A call that began before the latest is abandoned."""
        self._calling = Lock()

    @property
    def families(self) -> Sequence[Family]:
        """Return the families of this nemesis and of the nemeses that it is composed of."""
        return tuple(self._families.values())

    def generator(self) -> Generator:
        """Return the schedule of all families. Faults of different families may overlap."""
        tracks = [
            Track(f.f, f.once, f.plan, turns=f.turns if isinstance(f, Stepwise) else None)
            for f in self._families.values()
        ]
        return schedule(tracks, self._seed, self._options)

    def invoke(self, cluster: Cluster, op: Op) -> Done:
        """Execute one op of the schedule and return how it ended.

        ok: the effect was seen. fail: nothing was touched. info: anything else; the fault was
        undone if possible, and the error says what was seen instead.
        """
        value = op.value
        assert isinstance(value, Mapping), f"{op.f}: the value of a fault is an object"
        family = self._families[op.f]
        with self._calling:
            heals = self._heals
            watch = Watch(
                self._options.seen_within_s,
                lambda: self._heals != heals,
                cluster.runtime.clock,
            )
            try:
                added = (
                    family.end(cluster, watch)
                    if value["edge"] == "end"
                    else family.begin(cluster, value, watch)
                )
            except NotBegunError as error:
                return Done(Kind.FAIL, dict(value), str(error))
            except PLUGIN_ERRORS as error:  # an error of the cluster does not end the run
                return self._failed(family, cluster, value, error, heals)
            if watch.abandoned():
                late = FaultError("a heal began while this fault was under way")
                return self._failed(family, cluster, value, late, heals)
            return Done(Kind.OK, {**value, **added})

    def heal(self, cluster: Cluster) -> None:
        """End every fault that was ever begun, and verify that it is over.

        Links are healed first, then paused processes, then killed ones, then fetches: a server that
        is started waits for its quorum, which may need links and paused servers, and a replica
        accepts commands only when it runs. Raises FaultError with what is still broken after
        `heal_within_s`.
        """
        self._heals += 1
        acquired = self._calling.acquire(timeout=YIELD_S)
        # Heal even without the lock: the call that holds it hangs in the cluster, and undoes its
        # own work when it returns.
        try:
            wrong = self._heal_until_whole(cluster)
        finally:
            if acquired:
                self._calling.release()
        if wrong:
            raise FaultError(
                f"nemesis {self.name}: not healed within {self._options.heal_within_s:g} s: "
                + "; ".join(wrong)
            )

    def _heal_until_whole(self, cluster: Cluster) -> tuple[str, ...]:
        clock = cluster.runtime.clock()
        while wrong := self._heal_once(cluster):
            if clock.now_ns() >= self._options.heal_within_s * 1e9:
                break
            clock.sleep_until(clock.now_ns() + POLL_NS)
        return wrong

    def _heal_once(self, cluster: Cluster) -> tuple[str, ...]:
        """Undo all families once and return what is still broken after `seen_within_s`."""
        families = sorted(self._families.values(), key=lambda family: family.heal_rank)
        raised: list[str] = []
        for family in families:
            try:
                family.undo(cluster)
                if isinstance(family, Stepwise):
                    family.finish(cluster)
            except PLUGIN_ERRORS as error:  # the other families must still be healed
                raised.append(f"{family.f}: {_describe(error)}")
        # A family whose undo raised is undone again at once: waiting would not end its faults.
        within_s = 0 if raised else self._options.seen_within_s
        watch = Watch(within_s, clock=cluster.runtime.clock)
        return (*raised, *watch.until_none(lambda: self._broken(cluster, families)))

    def _broken(self, cluster: Cluster, families: Sequence[Family]) -> tuple[str, ...]:
        wrong: list[str] = []
        for family in families:
            try:
                wrong += family.broken(cluster)
            except PLUGIN_ERRORS as error:  # a family that cannot be inspected counts as broken
                wrong.append(f"{family.f}: {_describe(error)}")
        return tuple(wrong)

    def _failed(
        self,
        family: Family,
        cluster: Cluster,
        value: Mapping[str, Json],
        error: BaseException,
        heals: int,
    ) -> Done:
        text = _describe(error)
        if value["edge"] == "end" and self._heals == heals:
            return Done(Kind.INFO, dict(value), text)  # the schedule repeats the end
        try:
            family.undo(cluster)
        except PLUGIN_ERRORS as second:  # the heal at the end of the run undoes it again
            text += f"; and it could not be undone: {_describe(second)}"
        return Done(Kind.INFO, dict(value), text)


_CONDITIONAL: Final[Mapping[type[Conditional], str]] = {
    CanDegradeLinks: "degrade links",
    CanReplaceDisks: "replace disks",
    CanReconfigure: "change the members of its ensemble",
    HasFaultyDisks: "make disks fail",
    CanCutPower: "make disks fail",
    CanSetClocks: "set clocks",
}
"""What a cluster that lacks one of these capabilities cannot do, in the order of the checks."""


def check_capabilities(nemesis: Nemesis, cluster: Cluster) -> None:
    """Raise UsageError, which names what is missing, if the cluster cannot do these faults."""
    check_kind(nemesis, type(cluster), cluster.name)
    check_mechanisms(nemesis, cluster.engines.dialect)
    for need, what in _CONDITIONAL.items():
        why = cluster.part(need).why_unavailable() if need in nemesis.needs else None
        if why is not None:
            raise UsageError(f"nemesis {nemesis.name}: cluster {cluster.name} cannot {what}: {why}")
    for resource in Resource if CanStarve in nemesis.needs else ():
        why = cluster.part(CanStarve).why_not_starved(resource) if resource in nemesis.fs else None
        if why is not None:
            raise UsageError(
                f"nemesis {nemesis.name}: cluster {cluster.name} cannot do {resource}: {why}"
            )


def needs_disks(nemesis: Nemesis) -> bool:
    """Return whether these faults need disks that fail or lose power."""
    return not {CanCutPower, HasFaultyDisks}.isdisjoint(nemesis.needs)


def check_kind(nemesis: Nemesis, kind: type[Cluster], name: str) -> None:
    """Raise UsageError if clusters of the class `kind`, called `name`, lack a capability.

    It needs no cluster, so it can be called before one is brought up.
    """
    lacking = [
        need.__name__
        for need in nemesis.needs
        if not isinstance(need, Mechanism) and not kind.has(need)
    ]
    if lacking:
        raise UsageError(
            f"nemesis {nemesis.name}: cluster {name} lacks {', '.join(lacking)}; "
            "choose another nemesis or another cluster"
        )


def check_mechanisms(nemesis: Nemesis, dialect: Dialect) -> None:
    """Raise UsageError if servers of this dialect lack a mechanism that these faults need."""
    needed = [need for need in nemesis.needs if isinstance(need, Mechanism)]
    dialect.require(f"nemesis {nemesis.name}", needed)


def install_proxies(nemesis: Nemesis, cluster: Cluster) -> None:
    """Install the replicas' proxies if these faults need them. Raises ClusterError."""
    if CanIntercept in nemesis.needs:
        cluster.part(CanIntercept).interpose()


def _describe(error: BaseException) -> str:
    text = str(error)
    return text if isinstance(error, FaultError) else f"{type(error).__name__}: {text}"
