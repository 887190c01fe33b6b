"""Tries of a replay on several server versions."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import structs

from compose.releases import CLICKHOUSE, Release, clickhouse_release
from harness.core.dialect import Version
from harness.core.engines import Engine, Engines
from harness.core.errors import HarnessError, MissingMechanismError, UsageError
from harness.core.op import Json
from harness.core.topology import Role
from harness.run.campaign import FinishedRun
from harness.run.monitor import Show
from harness.run.stop import InterruptedRun, Stop
from harness.run.trial import Trial, TryCounts, TryResult
from harness.search.replay import Replay
from harness.store.store import Store

CRASHES_MAX: Final = 2
"""Number of crashes in a row after which a version is given up; the next would crash too."""


@dataclass(slots=True)
class VersionTries:
    """Tries on one version."""

    name: str
    """The version as the user named it."""
    release: Release
    tries: list[Trial] = field(default_factory=list)
    engines: Engines | None = None
    """The servers that were met; None: no try began."""
    missing: str | None = None
    """The mechanisms that the version lacks and the replay needs."""

    @property
    def exact(self) -> str:
        """The version that the servers report."""
        met = self._met
        return met.version if met else self.release.version

    @property
    def build(self) -> str:
        """Return how these servers were built; "" if it is not known."""
        met = self._met
        return met.build if met else self.release.build

    @property
    def _met(self) -> Engine | None:
        return self.engines.only(Role.CLICKHOUSE) if self.engines else None

    @property
    def tally(self) -> TryCounts:
        """Return the number of tries by result."""
        return TryCounts.of(one.result for one in self.tries)

    @property
    def statuses(self) -> Counter[str]:
        """Return the number of tries by verdict; those that broke off have none."""
        return Counter(one.status.value if one.status else "no verdict" for one in self.tries)

    @property
    def kinds(self) -> Counter[str]:
        """Return the number of tries by kind of anomaly."""
        return Counter(kind for one in self.tries for kind in one.kinds)

    def json(self, confidence: float) -> dict[str, Json]:
        """Return the tries as JSON; `confidence` is that of the interval of the rate."""
        tally = self.tally
        low, high = tally.rate(confidence)
        return {
            "version": self.exact,
            "engine": str(self.engines) if self.engines else None,
            "tries": tally.total,
            **{result.name.lower(): tally.counts[result] for result in TryResult},
            "rate": {"low": low, "high": high, "confidence": confidence},
            "statuses": dict(self.statuses),
            "kinds": dict(self.kinds),
            "not_applicable": self.missing,
            "runs": msgspec.to_builtins(self.tries),
        }


def versions_of(names: Sequence[str]) -> list[VersionTries]:
    """Return the versions that were named, or all known ones, from old to new. Raises UsageError
    for an unknown name, and for two names of one version."""
    found = [
        VersionTries(name, clickhouse_release(name, "--versions"))
        for name in names or [release.alias for release in CLICKHOUSE]
    ]
    by_version: dict[str, str] = {}
    for one in found:
        other = by_version.setdefault(one.release.version, one.name)
        if other is not one.name:
            raise UsageError(f"--versions {other},{one.name}: expected each version once")
    return sorted(found, key=lambda one: Version.of(one.release.version))


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Runs the tries, each version on a cluster of its own."""

    replay: Replay
    store: Store
    zookeeper: str | None
    shown: Show | None
    """Shows each run in progress; None: no display."""
    stop: Stop
    on_try: Callable[[VersionTries, Trial], None]
    """Called after every try."""

    def play(self, on: VersionTries, more: Callable[[], bool]) -> None:
        """Play tries while `more` asks for another; it is asked before each one. After a crash
        the next try has a fresh cluster."""
        crashes = 0
        while crashes < CRASHES_MAX and not self.stop and more():
            before = len(on.tries)
            try:
                self._on_one_cluster(on, more)
            except MissingMechanismError as error:
                on.missing = error.missing
                return
            except InterruptedRun:
                return
            except UsageError:
                raise
            except HarnessError as error:
                crashes = 1 if len(on.tries) > before else crashes + 1
                self._take(on, Trial(TryResult.BROKE_OFF, str(error)))

    def _on_one_cluster(self, on: VersionTries, more: Callable[[], bool]) -> None:
        campaign, spec = self.replay.open(
            on.name, self.zookeeper, self.store, self.shown, self.stop
        )
        with campaign.trials() as trial:
            while not self.stop and more():
                run = trial(spec(len(on.tries)))
                on.engines = run.directory.info().engines
                self._take(on, self._judge(run))

    def _judge(self, run: FinishedRun) -> Trial:
        judged = self.replay.judge(run)
        if not self.stop or judged.result is not TryResult.NOT_REPRODUCED:
            return judged
        # It ended early, and might have reproduced the anomaly later.
        why = f"interrupted: {self.stop.reason}"
        return structs.replace(judged, result=TryResult.UNKNOWN, why=why)

    def _take(self, on: VersionTries, one: Trial) -> None:
        on.tries.append(one)
        self.on_try(on, one)


def compare_versions(player: Player, columns: Sequence[VersionTries], tries: int) -> None:
    """Play as many tries on each version, or until a stop is requested."""
    for on in columns:
        if not player.stop:
            player.play(on, lambda on=on: len(on.tries) < tries)  # type: ignore[misc]
