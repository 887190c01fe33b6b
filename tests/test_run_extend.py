"""A run with too few acknowledged operations goes on past its time limit, up to a limit."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from real_servers import THREE

from checkers.stats import Stats
from harness.core.engines import Engines
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.parts import HasParts
from harness.core.protocols import Checker, Client, Cluster, Generator, Session
from harness.core.runtime import WallTime
from harness.core.seed import Seed
from harness.generators.calls import repeat, sequence
from harness.run.phases import record
from harness.run.run_context import RunContext
from harness.run.stop import Stop
from harness.spec.run_spec import RunSpec
from harness.store.journal import read_history
from harness.store.store import Store
from nemesis.composed import Composed
from nemesis.options import FaultOptions

CALL_S = 0.02


@dataclass
class Slow(HasParts):
    """A cluster, a workload, its session and its clients: each call takes its time, and the first
    `refused` of them fail."""

    refused: int
    name: str = "slow"
    topology = THREE
    engines = Engines(nodes={})
    runtime = WallTime()
    live_anomalies = False

    def __post_init__(self) -> None:
        self._calls: Iterator[int] = count()

    def ping(self) -> None: ...
    def close(self) -> None: ...
    def drop(self) -> None: ...
    def pending(self) -> Sequence[str]:
        return ()

    def unready(self) -> Sequence[str]:
        return ()

    def protocol_trace(self, now_ns: int) -> None: ...
    def observe(self) -> Mapping[str, Json]:
        return {}

    def session(self, cluster: Cluster, token: str) -> Session:
        return self

    def client(self, node: str) -> Client:
        return self

    def invoke(self, op: Op) -> Done:
        time.sleep(CALL_S)
        return Done(Kind.FAIL if next(self._calls) < self.refused else Kind.OK)

    def generator(self) -> Generator:
        return repeat(Call(f="insert", value=1))

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        return sequence(())

    def checkers(self) -> Sequence[Checker]:
        return (Stats(min_ok={"insert": 4}, min_ok_total=0),)


def recorded(
    store: Path, refused: int, *, extend: int, stop: Stop | None = None
) -> tuple[list[Json], int, tuple[str, ...]]:
    """Return the extensions in the history, how many of its inserts ended ok, and the troubles."""
    slow = Slow(refused)
    spec = RunSpec(
        workload="slow", nemesis="none", seed=Seed(1), promise="eventual",
        time_limit_s=1.5 * CALL_S, extend=extend, concurrency=1, nodes=("ch1",),
    )  # fmt: skip
    directory = Store(store).create(spec.workload, spec.nemesis, spec.seed)
    directory.begin(spec, Engines(), THREE, {})
    nemesis = Composed("none", [], spec.seed, FaultOptions())
    troubles = record(
        RunContext.of(
            spec, slow, directory=directory, workload=slow, nemesis=nemesis, stop=stop, drop=True
        )
    ).troubles
    history = read_history(directory.journal)
    result = [op.value for op in history.nemesis if op.f == "extend" and op.kind is Kind.OK]
    return result, sum(op.f == "insert" and op.kind is Kind.OK for op in history), troubles


def test_calls_go_on_until_enough_are_acknowledged_and_the_history_says_so(tmp_path: Path) -> None:
    result, inserts, troubles = recorded(tmp_path, 1, extend=20)
    assert inserts >= 4
    assert 1 <= len(result) < 19
    assert [one["time_limits"] for one in result] == list(range(2, 2 + len(result)))
    assert result[0]["time_limits_max"] == 20
    assert result[0]["lacking"][0].endswith("at least 4 expected")
    assert troubles == ()


def test_a_run_that_never_gets_enough_ends_at_the_limit_that_is_said(tmp_path: Path) -> None:
    result, inserts, troubles = recorded(tmp_path, 1_000, extend=3)
    assert [(one["time_limits"], one["time_limits_max"]) for one in result] == [(2, 3), (3, 3)]
    assert inserts == 0
    assert troubles == (
        "operations went on for 3 times the time limit of 0.03 s, and still: 0 ok calls of "
        "insert, at least 4 expected; see --extend",
    )


def test_a_run_that_is_stopped_is_not_extended_and_says_why_it_ended(tmp_path: Path) -> None:
    stop = Stop()
    stop.request("SIGTERM received")
    result, _, troubles = recorded(tmp_path, 1_000, extend=3, stop=stop)
    assert (result, troubles) == ([], ("the run was stopped: SIGTERM received",))


def test_a_run_that_must_not_be_extended_is_not(tmp_path: Path) -> None:
    result, _, troubles = recorded(tmp_path, 1_000, extend=1)
    assert (result, troubles) == ([], ())
