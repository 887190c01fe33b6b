"""What real runs cover of the protocol's model, and how a night is steered by it."""

from collections import Counter
from pathlib import Path

from test_conform import ROOT, TXNS

from harness.conform.coverage import Coverage, state_of
from harness.conform.entries import PartName
from harness.conform.model import Model
from harness.conform.replay import TableReplay, replay
from harness.conform.replica import Replica
from harness.conform.steps import STEPS
from harness.core.dialect import Version, dialect_of
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.nights.foreseen import foresee, foreseen_in, simulated_elements
from harness.nights.night import Slot
from harness.nights.rota import Rota
from harness.nights.steering import AIMED, FORESEEN, Steering
from harness.run.stop import Stop
from harness.spec.run_options import with_options
from harness.spec.run_spec import RunSpec
from nemesis.moment import VARIANTS as MOMENTS
from tests.server_protocols import V18

COMMON = ("healthy: Insert", "healthy: PullLog")
OPTIONS = {"interval": 4.0, "duration": 2.0, "time-limit": 12.0, "nemesis": "kill,pause"}


def test_a_real_trace_covers_steps_in_their_states_and_distances() -> None:
    covered = replay(ROOT, TXNS, V18).elements
    assert {"quorum pending: EndQuorum", "healthy: AssignMerge"} < {*covered}
    assert {"1 lost: CloneReplica", "1 inactive: BecomeActive"} < {*covered}
    assert "part on 2+ replicas, after another's step: GetPart" in covered
    assert [one for one in covered if "open" in one] == [
        f"steps of an open quorum {2**power}" for power in (1, 2, 3)
    ]
    assert list(covered) == sorted({*covered})


def test_what_is_covered_is_known_while_the_run_goes_on() -> None:
    table, counts = TableReplay(ROOT, V18), []
    for txn in TXNS:
        table.take(txn)
        counts.append(len(table.coverage.elements))
    assert counts == sorted(counts)
    assert 0 < counts[len(counts) // 4] < counts[-1] == len(replay(ROOT, TXNS, V18).elements)


def test_the_state_of_a_table_says_how_its_replicas_are() -> None:
    model = Model(V18, length=9)
    assert state_of(model) == "healthy"
    for name, session, pointer in (("ch1", 1, 9), ("ch2", None, 2), ("ch3", None, 9)):
        model.replicas[name] = Replica(name, session=session, pointer=pointer)
    model.replicas["ch3"].lost = True
    model.failed.add("0_1_1_0")
    assert state_of(model) == "2+ inactive, 1 lost, 1 behind, a quorum failed before"


def test_a_part_has_elements_by_its_holders_and_by_whose_step_came_before() -> None:
    model, coverage = Model(V18), Coverage()
    part = PartName.named("0_1_1_0")
    for name, step in (("ch1", "Insert"), ("ch2", "GetPart"), ("ch2", "RemovePart")):
        replica = model.replicas.setdefault(name, Replica(name, session=1))
        replica.parts = {} if step == "RemovePart" else {part.name: part}
        coverage.take("healthy", (f"{step} {name} {part.name}",), model)
    assert {one for one in coverage.elements if one.startswith("part")} == {
        "part on 1 replica, its first step: Insert",
        "part on 2+ replicas, after another's step: GetPart",
        "part on 1 replica, after the same replica's step: RemovePart",
    }


def slot(number: int, cell: str, elements: tuple[str, ...] = COMMON, seconds: float = 9) -> Slot:
    judged = Slot(number, cell, "0x1", path=f"{cell}/{number}", recorded=True, seconds=seconds)
    judged.status, judged.elements = Status.VALID, elements
    return judged


def steering(cells: str = "ab") -> Steering:
    return Steering(Rota([*cells]), Seed(7), [OPTIONS for _ in cells])


def test_half_of_a_steered_night_follows_the_shortest_run_that_covered_what_is_rare() -> None:
    rare = (*COMMON, "1 lost: CloneReplica")
    slots = [slot(0, "b", rare, 30), slot(1, "b", rare, 20), *(slot(n, "a") for n in range(2, 60))]
    ways: Counter[str] = Counter()
    for number in range(60, 460):
        choice = steering().next([*slots, *(slot(n, "a") for n in range(60, number))])
        ways[choice.how] += 1
        if choice.parent is not None:
            assert (choice.parent, choice.cell) == (1, 1)
    assert ways.keys() == {"fresh", "fresh options", "seed", "options"}  # no kill for CloneReplica
    assert 160 < ways["seed"] + ways["options"] < 240
    assert min(ways.values()) > 60


def test_a_cell_is_followed_for_what_is_rare_in_one_of_its_runs() -> None:
    """A cell that has more runs, each with as many rare elements, is followed no more often."""
    slots = [slot(n, "a", (*COMMON, f"x{n}", f"y{n}")) for n in range(9)]
    slots += [slot(9, "b", (*COMMON, "x9", "y9")), *(slot(n, "c") for n in range(10, 60))]
    followed: Counter[str] = Counter()
    for number in range(60, 660):
        run = steering("abc").next([*slots, *(slot(n, "c") for n in range(60, number))])
        if run.parent is not None:
            followed["abc"[run.cell]] += 1
    assert followed.keys() == {"a", "b"}
    assert 0.4 < followed["b"] / followed.total() < 0.6


def test_without_anything_rare_every_run_is_drawn_afresh() -> None:
    slots = [slot(number, "ab"[number % 2]) for number in range(20)]
    assert {steering().next(slots[:n]).parent for n in range(20)} == {None}


def test_before_every_cell_had_a_run_none_is_followed() -> None:
    rare = (*COMMON, "1 lost: CloneReplica")
    slots = [slot(0, "a", rare), *(slot(n, "a") for n in range(1, 60))]
    assert {steering().next(slots[:n]).parent for n in range(1, 60)} == {None}
    slots[1].cell = "b"
    assert {steering().next(slots[:n]).parent for n in range(2, 60)} == {None, 0}


def test_a_run_that_follows_another_leaves_the_turn_of_the_cells_as_it_is() -> None:
    slots = [slot(0, "a"), slot(1, "b"), slot(2, "c"), slot(3, "a")]
    for number in range(4, 60):
        slots.append(slot(number, "c"))
        slots[-1].parent = 2
        choice = steering("abc").next(slots)
        assert choice.parent is not None or choice.cell == 1


def test_what_many_earlier_runs_covered_is_not_rare() -> None:
    slots = [slot(0, "a", ("x",)), *(slot(n, "b") for n in range(1, 40))]
    known = Steering(Rota(["a", "b"], {"x": 100}), Seed(7), [OPTIONS, OPTIONS])
    followed = [one.next(slots[:n]).parent for n in range(30, 40) for one in (steering(), known)]
    assert 0 in followed[::2]
    assert {*followed[1::2]} == {None}


def test_what_few_of_many_earlier_runs_covered_is_rare_after_them_too() -> None:
    slots = [slot(0, "a", (*COMMON, "x")), *(slot(n, "b") for n in range(1, 40))]
    earlier = {COMMON[0]: 1000, "x": 9}
    after = Steering(Rota(["a", "b"], earlier), Seed(7), [OPTIONS, OPTIONS])
    assert 0 in {after.next(slots[:n]).parent for n in range(30, 40)}


def test_a_run_that_nothing_explains_is_followed() -> None:
    slots = [slot(number, "ab"[number % 2]) for number in range(20)]
    slots[3].status = Status.INVALID
    parents = Counter(
        steering().next([*slots, *(slot(n, "a") for n in range(20, length))]).parent
        for length in range(20, 420)
    )
    assert parents.keys() == {None, 3}
    assert 20 < parents[3] < 100


def test_other_options_stay_within_their_powers_and_a_scenario_has_none() -> None:
    slots = [slot(0, "a")]
    drawn = [steering().next([*slots, *(slot(n, "a") for n in range(1, 1 + k))]) for k in range(99)]
    far = [choice.options for choice in drawn if choice.how == "fresh options"]
    assert far
    for options in far:
        assert 0.25 <= float(options["interval"]) <= 8
        assert 6 <= float(options["time-limit"]) <= 24
        assert options["nemesis"] in ("kill", "pause", "kill,pause")
    plain = Steering(Rota(["a"]), Seed(7), [{}])
    assert {str(plain.next([slot(n, "a") for n in range(k)]).options) for k in range(30)} == {"{}"}


def test_a_run_may_be_aimed_at_the_step_of_what_is_rare() -> None:
    slots = [
        slot(0, "a", (*COMMON, "1 lost: PullLog + GetPart")),
        *(slot(n, "a") for n in range(1, 60)),
    ]
    slots[0].options = {"interval": "1"}

    def aims(steering: Steering) -> set[str]:
        lengths = range(60, 260)
        drawn = [steering.next([*slots, *(slot(n, "a") for n in range(60, n))]) for n in lengths]
        return {choice.options["nemesis"] for choice in drawn if choice.how == "aim"}

    assert aims(steering("a")) == {"kill,pause,pull-kill", "kill,pause,register-kill"}
    simulated = {**OPTIONS, "cluster": "sim"}
    assert aims(Steering(Rota(["a"]), Seed(7), [simulated])) == set()
    slots[0].options = {"nemesis": "pull-kill"}
    assert aims(steering("a")) == {"pull-kill,register-kill"}


def test_every_aim_is_a_fault_and_every_aimed_step_one_of_the_model() -> None:
    assert AIMED.keys() <= STEPS
    assert {*AIMED.values()} <= MOMENTS.keys()


FAILED = "1 inactive: EndQuorum"
"""An element that simulated runs of cell b alone have covered."""
INACTIVE = "1 inactive: PullLog"
"""An element with the same state of the table."""


def foreseeing(options: dict[str, object] | None = None, **earlier: int) -> Steering:
    known = Rota(["a", "b"], earlier)
    own = OPTIONS if options is None else options
    return Steering(known, Seed(7), [own, own], {FAILED: ["b"], "healthy: CloneReplica": ["b"]})


def test_a_run_is_aimed_at_what_only_simulated_runs_have_covered() -> None:
    common = [slot(n, "ab"[n % 2], (*COMMON, INACTIVE)) for n in range(200)]
    drawn = [foreseeing().next(common[:length]) for length in range(200)]
    aimed = [choice for choice in drawn if choice.how == FORESEEN]
    assert 10 < len(aimed) < 50  # an eighth
    assert {(one.cell, one.element, one.options["nemesis"], one.parent) for one in aimed} == {
        (1, FAILED, "kill,pause,quorum-end-kill", None)  # no kill is for CloneReplica
    }


def test_nothing_is_aimed_at_that_real_runs_cover_or_that_was_aimed_at_in_vain() -> None:
    common = [slot(n, "ab"[n % 2], (*COMMON, INACTIVE)) for n in range(200)]
    vain = [slot(n, "b") for n in range(3)]
    for one in vain:
        one.how, one.element = FORESEEN, FAILED
    for steering_, before in (
        (foreseeing(**{FAILED: 1}), []),
        (foreseeing(), [slot(0, "a", (*COMMON, FAILED))]),
        (foreseeing(), vain),
        (foreseeing({**OPTIONS, "cluster": "sim"}), []),
    ):
        drawn = [steering_.next([*before, *common[:length]]) for length in range(200)]
        assert FORESEEN not in {choice.how for choice in drawn}


def test_nothing_is_aimed_at_in_a_state_that_no_real_run_has_had() -> None:
    common = [slot(n, "ab"[n % 2]) for n in range(200)]
    drawn = [foreseeing().next(common[:length]) for length in range(200)]
    assert FORESEEN not in {choice.how for choice in drawn}
    drawn = [foreseeing(**{INACTIVE: 1}).next(common[:length]) for length in range(200)]
    assert FORESEEN in {choice.how for choice in drawn}


def test_simulated_runs_cover_elements_of_the_names_that_real_ones_have() -> None:
    options = {"nemesis": "kill-clickhouse", "time-limit": 8, "clickhouse": "18.16"}
    spec = with_options(RunSpec(seed=Seed(1)), options)
    covered = simulated_elements(spec, dialect_of(Version(18, 16, 1)), Stop())
    assert len({*covered} & {*replay(ROOT, TXNS, V18).elements}) > 10
    assert {"quorum pending: EndQuorum", "1 inactive: BecomeActive"} < {*covered}
    unsimulated = with_options(spec, {"nemesis": "zk-cut-request"})
    assert simulated_elements(unsimulated, dialect_of(Version(18, 16, 1)), Stop()) == ()


def test_what_was_foreseen_is_kept_for_a_night_that_goes_on(tmp_path: Path) -> None:
    spec = with_options(RunSpec(seed=Seed(1)), {"time-limit": 2})
    cells = [("a", spec, None), ("b", with_options(spec, {"workload": "config-reload"}), None)]
    found = foresee(cells, Seed(1), tmp_path, Stop())
    assert {name for names in found.values() for name in names} == {"a"}
    assert foreseen_in(tmp_path) == found
    assert foreseen_in(tmp_path / "other") is None
