"""Tries of a replay on several server versions."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
from msgspec import structs

from compose.releases import ImageOptions
from harness.core.engines import Engine, Engines
from harness.core.errors import HarnessError, MissingMechanismError, UsageError
from harness.core.op import Json
from harness.run.campaign import FinishedRun
from harness.run.monitor import Show
from harness.run.stop import InterruptedRun, Stop
from harness.run.trial import Trial, TryCounts, TryResult
from harness.search.replay import Replay
from harness.search.tried_servers import BuildError, TriedServers
from harness.store.store import Store

CRASHES_MAX: Final = 2
"""Number of crashes in a row after which a version is given up; the next would crash too."""


@dataclass(slots=True)
class VersionTries:
    """Tries on one version."""

    servers: TriedServers
    tries: list[Trial] = field(default_factory=list)
    engines: Engines | None = None
    """The servers that were met; None: no try began."""
    missing: str | None = None
    """The mechanisms that the version lacks and the replay needs."""
    unbuilt: str | None = None
    """Why the revision could not be built."""

    @property
    def name(self) -> str:
        """Return the version, image or revision as the user named it."""
        return self.servers.name

    @property
    def exact(self) -> str:
        """Return the version that the servers report; of an image or a revision, its name."""
        if self.servers.release is None:
            return self.name
        met = self._met
        return met.version if met else self.servers.release.version

    @property
    def build(self) -> str:
        """Return how these servers were built; "" if it is not known."""
        met, release = self._met, self.servers.release
        if met is None:
            return release.build if release else ""
        return met.build if release else f"{met.version} {met.build}".strip()

    @property
    def _met(self) -> Engine | None:
        return self.engines.only(self.servers.role) if self.engines else None

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
            "not_built": self.unbuilt,
            "runs": msgspec.to_builtins(self.tries),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Runs the tries, each version on a cluster of its own."""

    replay: Replay
    store: Store
    beside: ImageOptions
    """The servers of the other role; those that it does not name are as they were."""
    shown: Show | None
    """Shows each run in progress; None: no display."""
    stop: Stop
    on_try: Callable[[VersionTries, Trial], None]
    """Called after every try."""
    on_build: Callable[[TriedServers], None] = lambda _: None
    """Called before a revision is built."""

    def play(self, on: VersionTries, more: Callable[[], bool]) -> None:
        """Play tries while `more` asks for another; it is asked before each one. After a crash
        the next try has a fresh cluster."""
        crashes = 0
        if on.servers.build:
            self.on_build(on.servers)
        try:
            options = on.servers.options(self.beside)
        except BuildError as error:
            on.unbuilt = str(error)
            return
        while crashes < CRASHES_MAX and not self.stop and more():
            before = len(on.tries)
            try:
                self._on_one_cluster(on, options, more)
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

    def _on_one_cluster(
        self, on: VersionTries, options: ImageOptions, more: Callable[[], bool]
    ) -> None:
        campaign, spec = self.replay.open(options, self.store, self.shown, self.stop)
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
            player.play(on, partial(_has_fewer, on, tries))


def _has_fewer(on: VersionTries, tries: int) -> bool:
    return len(on.tries) < tries
