"""Families composed into the one nemesis of a run: schedule, dispatch, heal."""

from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock

from harness.core.dialect import Dialect, Mechanism
from harness.core.errors import FaultError, UsageError
from harness.core.op import Done, Json, Kind, Op
from harness.core.protocols import (
    CanIntercept,
    CanLosePackets,
    Cluster,
    Generator,
    Nemesis,
    clock_of,
)
from harness.core.seed import Seed
from nemesis.family import POLL_NS, Family, NotBegunError, Stepwise, Watch
from nemesis.options import FaultOptions
from nemesis.schedule import Track, schedule

YIELD_S = 10.0
"""How long a heal waits for a call in flight to notice that it was abandoned."""


class Composed:
    """Any number of families, no two with the same f; none of them is the nemesis `none`.

    One call at a time. `heal` may come from another thread while a call is in flight: the call
    then touches nothing more, and what it touched too late it undoes itself.
    """

    def __init__(
        self, name: str, families: Sequence[Family], seed: Seed, options: FaultOptions
    ) -> None:
        self.name = name
        self.fs = frozenset(family.f for family in families)
        self.needs: tuple[type | Mechanism, ...] = tuple(
            dict.fromkeys(need for family in families for need in family.needs)
        )
        assert len(self.fs) == len(families), "ops are dispatched by f, so f is unique"
        self._families = {family.f: family for family in families}
        self._seed = seed
        self._options = options
        self._heals = 0
        """How many heals have begun. A call that began before the latest is abandoned."""
        self._calling = Lock()

    def generator(self) -> Generator:
        """The schedule of all families. Faults of different families may overlap."""
        tracks = [
            Track(f.f, f.once, f.plan, turns=f.turns if isinstance(f, Stepwise) else None)
            for f in self._families.values()
        ]
        return schedule(tracks, self._seed, self._options)

    def invoke(self, cluster: Cluster, op: Op) -> Done:
        """Ok: its effect was seen. Fail: nothing was touched. Info: anything else, undone where
        that could be done; the error says what was seen instead."""
        value = op.value
        assert isinstance(value, Mapping), f"{op.f}: the value of a fault is an object"
        family = self._families[op.f]
        with self._calling:
            heals = self._heals
            watch = Watch(
                self._options.seen_within_s,
                lambda: self._heals != heals,
                partial(clock_of, cluster),
            )
            try:
                added = (
                    family.end(cluster, watch)
                    if value["edge"] == "end"
                    else family.begin(cluster, value, watch)
                )
            except NotBegunError as error:
                return Done(Kind.FAIL, dict(value), str(error))
            except Exception as error:  # whatever a cluster raises, the run goes on
                return self._failed(family, cluster, value, error, heals)
            if watch.abandoned():
                late = FaultError("a heal began while this fault was under way")
                return self._failed(family, cluster, value, late, heals)
            return Done(Kind.OK, {**value, **added})

    def heal(self, cluster: Cluster) -> None:
        """Ends every fault it ever began, and verifies that; raises FaultError with what is
        still broken after `heal_within_s`.

        Links first, then the frozen, then the dead, then fetches: a server that is started
        waits for its quorum, which may need the links and the frozen, and a replica takes
        commands only when it runs.
        """
        self._heals += 1
        in_turn = self._calling.acquire(timeout=YIELD_S)
        # Without its turn it heals all the same: that call hangs in the cluster, and undoes its
        # own work when it comes back.
        try:
            wrong = self._healed(cluster)
        finally:
            if in_turn:
                self._calling.release()
        if wrong:
            raise FaultError(
                f"nemesis {self.name}: not healed within {self._options.heal_within_s:g} s: "
                + "; ".join(wrong)
            )

    def _healed(self, cluster: Cluster) -> tuple[str, ...]:
        clock = clock_of(cluster)
        while wrong := self._heal_once(cluster):
            if clock.now_ns() >= self._options.heal_within_s * 1e9:
                break
            clock.sleep_until(clock.now_ns() + POLL_NS)
        return wrong

    def _heal_once(self, cluster: Cluster) -> tuple[str, ...]:
        """One round over the families. What is not seen whole after a while is undone again."""
        families = sorted(self._families.values(), key=lambda family: family.heal_rank)
        raised: list[str] = []
        for family in families:
            try:
                family.undo(cluster)
                if isinstance(family, Stepwise):
                    family.finish(cluster)
            except Exception as error:  # the other families must still be healed
                raised.append(f"{family.f}: {_said(error)}")
        # What could not even be told to end is told again at once: time alone ends nothing.
        within_s = 0 if raised else self._options.seen_within_s
        watch = Watch(within_s, clock=partial(clock_of, cluster))
        return (*raised, *watch.until_none(lambda: self._broken(cluster, families)))

    def _broken(self, cluster: Cluster, families: Sequence[Family]) -> tuple[str, ...]:
        wrong: list[str] = []
        for family in families:
            try:
                wrong += family.broken(cluster)
            except Exception as error:  # what cannot be looked at is not whole
                wrong.append(f"{family.f}: {_said(error)}")
        return tuple(wrong)

    def _failed(
        self,
        family: Family,
        cluster: Cluster,
        value: Mapping[str, Json],
        error: Exception,
        heals: int,
    ) -> Done:
        said = _said(error)
        if value["edge"] == "end" and self._heals == heals:
            return Done(Kind.INFO, dict(value), said)  # an end undoes; the schedule tries again
        try:
            family.undo(cluster)
        except Exception as again:  # the heal at the end tries again
            said += f"; and it could not be undone: {_said(again)}"
        return Done(Kind.INFO, dict(value), said)


def check_capabilities(nemesis: Nemesis, cluster: Cluster) -> None:
    """Raises UsageError, naming what lacks, when the cluster cannot do these faults."""
    check_kind(nemesis, type(cluster), cluster.name)
    check_mechanisms(nemesis, cluster.engines.dialect)
    if CanLosePackets in nemesis.needs:
        assert isinstance(cluster, CanLosePackets), "its kind can"
        why = cluster.unfit_for_loss()
        if why is not None:
            raise UsageError(
                f"nemesis {nemesis.name}: cluster {cluster.name} loses no packets: {why}"
            )


def check_kind(nemesis: Nemesis, kind: type, name: str) -> None:
    """The same before there is a cluster: of clusters of this kind, called so."""
    lacking = [
        need.__name__
        for need in nemesis.needs
        if not isinstance(need, Mechanism) and not issubclass(kind, need)
    ]
    if lacking:
        raise UsageError(
            f"nemesis {nemesis.name}: cluster {name} lacks {', '.join(lacking)}; "
            "choose another nemesis or another cluster"
        )


def check_mechanisms(nemesis: Nemesis, dialect: Dialect) -> None:
    """Raises UsageError when servers of this dialect lack a mechanism that these faults strike."""
    needed = [need for need in nemesis.needs if isinstance(need, Mechanism)]
    dialect.require(f"nemesis {nemesis.name}", needed)


def interposed(nemesis: Nemesis, cluster: Cluster) -> None:
    """Puts proxies in the way of replicas, if these faults need them. Raises ClusterError."""
    if CanIntercept in nemesis.needs:
        assert isinstance(cluster, CanIntercept), "capabilities are checked before"
        cluster.interpose()


def _said(error: Exception) -> str:
    text = str(error)
    return text if isinstance(error, FaultError) else f"{type(error).__name__}: {text}"
