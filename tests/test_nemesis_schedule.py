"""The schedule: which fault begins and ends when, all from the seed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.core.history import Fault, History
from harness.core.op import NEMESIS, Call, Json, Kind, Op
from harness.core.protocols import Context, Exhausted, Generator, Pending, Ready, Worker
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions
from nemesis.schedule import Track, schedule

WORKER = Worker(-1, -1, "")
SECOND = 1_000_000_000


def name_only(f: str) -> Track:
    def plan(seed: Seed, turn: int) -> Mapping[str, Json]:
        return {"name": f, "draw": seed.below(turn, 1000)}

    return Track(f, f == "restart", plan)


@dataclass
class Made:
    """A call and when it was made."""

    at_ns: int
    call: Call

    @property
    def value(self) -> dict[str, Json]:
        assert isinstance(self.call.value, dict)
        return self.call.value


def succeeds(made: Made, nth: int) -> Kind:
    return Kind.OK


def played(
    generator: Generator,
    *,
    calls: int,
    busy_ns: int = 0,
    start_ns: int = 0,
    ends: Callable[[Made, int], Kind] = succeeds,
) -> list[Made]:
    """Play the schedule in virtual time: every call keeps the nemesis busy for `busy_ns`, and the
    n-th call, from 1, ends as `ends` says."""
    now = start_ns
    out: list[Made] = []
    while len(out) < calls:
        step, generator = generator.op(Context(now, (WORKER,), ()))
        if isinstance(step, Pending):
            assert step.wake_ns is not None, "it waits for a time when nothing is in flight"
            assert step.wake_ns > now
            now = step.wake_ns
            continue
        assert isinstance(step, Ready)
        assert step.worker == WORKER
        out.append(Made(now, step.call))
        during, same = generator.op(Context(now, (), (WORKER,)))
        assert during == Pending(), "one call at a time"
        now += busy_ns
        kind = ends(out[-1], len(out))
        end = Op(index=0, process=NEMESIS, kind=kind, f=step.call.f, time_ns=now)
        generator = same.update(Context(now, (WORKER,), ()), end)
    return out


def of(*families: str, seed: int = 1, **options: float) -> Generator:
    return schedule(
        [name_only(f) for f in families],
        Seed(seed),
        FaultOptions(**options),
    )


def test_without_jitter_a_fault_begins_after_the_interval_and_ends_after_the_duration() -> None:
    made = played(of("kill", interval_s=3, duration_s=5, jitter=0), calls=4)
    draw, other = made[0].value["draw"], made[2].value["draw"]
    assert [(m.at_ns // SECOND, m.call.f, m.value) for m in made] == [
        (3, "kill", {"fault": 1, "edge": "begin", "name": "kill", "draw": draw}),
        (8, "kill", {"fault": 1, "edge": "end", "name": "kill", "draw": draw}),
        (11, "kill", {"fault": 2, "edge": "begin", "name": "kill", "draw": other}),
        (16, "kill", {"fault": 2, "edge": "end", "name": "kill", "draw": other}),
    ]
    assert draw != other
    assert all(made.call.nemesis for made in made)


def test_a_fault_that_is_over_at_once_has_no_end_and_leaves_time_to_come_back() -> None:
    made = played(of("restart", interval_s=3, duration_s=5, jitter=0), calls=3)
    assert [(m.at_ns // SECOND, m.value["fault"], m.value["edge"]) for m in made] == [
        (3, 1, "once"),
        (11, 2, "once"),
        (19, 3, "once"),
    ]


def test_families_overlap_and_each_waits_longer_the_more_there_are() -> None:
    made = played(of("kill", "pause", interval_s=3, duration_s=5, jitter=0), calls=8)
    assert {m.call.f for m in made[:2]} == {"kill", "pause"}
    assert [(m.at_ns // SECOND, m.value["fault"], m.value["edge"]) for m in made] == [
        (3, 1, "begin"),
        (6, 2, "begin"),
        (8, 1, "end"),
        (11, 2, "end"),
        (14, 3, "begin"),
        (17, 4, "begin"),
        (19, 3, "end"),
        (22, 4, "end"),
    ]


def test_a_slow_nemesis_takes_nothing_from_the_time_that_a_fault_bites() -> None:
    made = played(of("kill", interval_s=3, duration_s=5, jitter=0), calls=3, busy_ns=2 * SECOND)
    assert [m.at_ns // SECOND for m in made] == [3, 3 + 2 + 5, 3 + 2 + 5 + 2 + 3]


def test_an_end_that_did_not_succeed_is_called_again_until_it_does() -> None:
    def ends(made: Made, nth: int) -> Kind:
        return Kind.INFO if made.value["edge"] == "end" and nth < 4 else Kind.OK

    made = played(of("kill", interval_s=3, duration_s=5, jitter=0), calls=6, ends=ends)
    assert [(m.at_ns // SECOND, m.value["fault"], m.value["edge"]) for m in made] == [
        (3, 1, "begin"),
        (8, 1, "end"),
        (9, 1, "end"),
        (10, 1, "end"),
        (11, 2, "begin"),
        (16, 2, "end"),
    ]


def test_an_end_that_takes_long_to_succeed_delays_its_own_family_only() -> None:
    def ends(made: Made, nth: int) -> Kind:
        held = made.call.f == "kill" and made.value["edge"] == "end"
        return Kind.INFO if held and made.at_ns < 20 * SECOND else Kind.OK

    generator = of("kill", "pause", interval_s=1.5, duration_s=3, jitter=0, seed=1)
    made = played(generator, calls=40, ends=ends)

    def calls(f: str) -> list[tuple[float, object]]:
        every = [(m.at_ns / SECOND, m.value["edge"]) for m in made if m.call.f == f]
        return [call for call in every if f == "pause" or not 4.5 < call[0] < 20]

    assert calls("pause")[:6] == [
        (3.0, "begin"),
        (6.0, "end"),
        (9.0, "begin"),
        (12.0, "end"),
        (15.0, "begin"),
        (18.0, "end"),
    ]
    assert calls("kill")[:5] == [
        (1.5, "begin"),
        (4.5, "end"),
        (20.5, "end"),
        (20.5, "begin"),
        (23.5, "end"),
    ]
    assert calls("pause")[6:8] == [(21.0, "begin"), (24.0, "end")]


def test_what_should_have_been_over_at_once_but_was_not_seen_so_is_ended() -> None:
    def ends(made: Made, nth: int) -> Kind:
        return Kind.INFO if nth == 1 else Kind.OK

    made = played(of("restart", interval_s=3, duration_s=5, jitter=0), calls=3, ends=ends)
    assert [(m.at_ns // SECOND, m.value["fault"], m.value["edge"]) for m in made] == [
        (3, 1, "once"),
        (4, 1, "end"),
        (11, 2, "once"),
    ]


def test_an_end_that_waits_for_another_fault_is_called_again_when_that_has_ended() -> None:
    """A replica is killed, its ZooKeeper server cut off: it can be started after the mend."""
    cut = False

    def ends(made: Made, nth: int) -> Kind:
        nonlocal cut
        cut = made.value["edge"] == "begin" if made.call.f == "partition" else cut
        return Kind.INFO if cut and made.value["edge"] == "end" else Kind.OK

    generator = of("partition", "kill", interval_s=1.5, duration_s=3, jitter=0, seed=2)
    made = played(generator, calls=8, ends=ends)
    assert [(m.at_ns / SECOND, m.call.f, m.value["edge"]) for m in made] == [
        (1.5, "kill", "begin"),
        (3.0, "partition", "begin"),
        (4.5, "kill", "end"),
        (5.5, "kill", "end"),
        (6.0, "partition", "end"),
        (6.5, "kill", "end"),
        (7.5, "kill", "begin"),
        (9.0, "partition", "begin"),
    ]


def test_the_timetable_begins_when_it_is_first_asked() -> None:
    made = played(of("kill", interval_s=3, jitter=0), calls=1, start_ns=40 * SECOND)
    assert made[0].at_ns == 43 * SECOND


def test_nothing_to_do_is_exhausted() -> None:
    step, _ = of().op(Context(0, (WORKER,), ()))
    assert step == Exhausted()


def test_a_family_of_so_many_steps_takes_them_and_no_more() -> None:
    track = replace(name_only("restart"), turns=2)
    generator: Generator = schedule([track], Seed(1), FaultOptions(interval_s=3, jitter=0))
    made = played(generator, calls=2)
    assert [m.value["fault"] for m in made] == [1, 2]
    with pytest.raises(AssertionError):  # exhausted: neither ready nor pending
        played(generator, calls=3)


def test_a_last_step_that_was_not_seen_is_ended_before_it_is_over() -> None:
    track = replace(name_only("restart"), turns=1)
    generator: Generator = schedule([track], Seed(1), FaultOptions(interval_s=3, jitter=0))
    made = played(generator, calls=2, ends=lambda made, nth: Kind.INFO if nth == 1 else Kind.OK)
    assert [(m.value["fault"], m.value["edge"]) for m in made] == [(1, "once"), (1, "end")]


def test_what_clients_do_changes_nothing() -> None:
    _, generator = of("kill", jitter=0, interval_s=1).op(Context(0, (WORKER,), ()))
    _, generator = generator.op(Context(SECOND, (WORKER,), ()))
    read = Op(index=0, process=3, kind=Kind.OK, f="read", time_ns=2 * SECOND)
    assert generator.update(Context(2 * SECOND, (WORKER,), ()), read) == generator


def test_asking_does_not_change_the_generator() -> None:
    generator = of("kill", "pause")
    assert generator.op(Context(0, (WORKER,), ())) == generator.op(Context(0, (WORKER,), ()))


TEXT = "partition,kill,pause,restart,stop-fetches"


def values(seed: int, busy_ns: int) -> list[object]:
    nemesis = parse_nemesis(TEXT, Topology.of(), Seed(seed), FaultOptions())
    made = played(nemesis.generator(), calls=60, busy_ns=busy_ns)
    return [(m.call.f, m.value) for m in made]


def test_the_same_seed_gives_the_same_calls_however_slow_the_servers_are() -> None:
    assert values(1, 0) == values(1, 0) == values(1, 3 * SECOND)
    assert values(1, 0) != values(2, 0)


JITTERED = FaultOptions(interval_s=3, duration_s=5, jitter=0.3)


@given(st.integers(0, 500), st.integers(0, 4 * SECOND))
def test_jitter_stays_in_its_bounds_and_every_begin_has_its_end(seed: int, busy_ns: int) -> None:
    nemesis = parse_nemesis("partition", Topology.of(), Seed(seed), JITTERED)
    made = played(nemesis.generator(), calls=40, busy_ns=busy_ns)
    for at, (begin, end) in enumerate(zip(made[::2], made[1::2], strict=True)):
        assert begin.value["fault"] == end.value["fault"] == at + 1
        assert {**begin.value, "edge": "end"} == end.value
        assert 3.5 * SECOND <= end.at_ns - begin.at_ns - busy_ns < 6.5 * SECOND
    for end, begin in zip(made[1::2], made[2::2], strict=False):
        assert 2.1 * SECOND <= begin.at_ns - end.at_ns - busy_ns < 3.9 * SECOND


@pytest.mark.parametrize(("text", "least"), [("partition", 3), (TEXT, 5)])
def test_thirty_seconds_hold_several_faults(text: str, least: int) -> None:
    for seed in range(50):
        nemesis = parse_nemesis(text, Topology.of(), Seed(seed), FaultOptions())
        made = played(nemesis.generator(), calls=30)
        begun = [m for m in made if m.at_ns < 30 * SECOND and m.value["edge"] != "end"]
        assert len(begun) >= least


def test_a_history_shows_the_faults_of_the_schedule() -> None:
    ops: list[Op] = []
    for made in played(of("kill", interval_s=1, duration_s=2, jitter=0), calls=3):
        for kind, value in ((Kind.INVOKE, made.value), (Kind.OK, {**made.value, "text": "ch1"})):
            op = Op(index=len(ops), process=NEMESIS, kind=kind, f="kill", time_ns=made.at_ns)
            ops.append(replace(op, value=value))
    assert History(ops).faults == (
        Fault("kill", "ch1", 1 * SECOND, 1 * SECOND, 3 * SECOND, 1),
        Fault("kill", "ch1", 4 * SECOND, 4 * SECOND, None, 5),
    )
