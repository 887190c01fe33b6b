"""Failpoints: which are armed, that they are disarmed, and who is refused."""

from collections.abc import Iterable

import pytest
from nemesis_record import Record, nemesis, op

from harness.core.dialect import Mechanism
from harness.core.engines import Engine, Engines
from harness.core.errors import ClusterError, FaultError, UsageError
from harness.core.op import Kind
from harness.core.seed import Seed
from harness.core.topology import Role
from nemesis.composed import check_capabilities
from nemesis.failpoint import VARIANTS, Failpoint

RETRY = "failpoint-commit-retry"
BEGIN = op("failpoint", nodes=["ch2"], variants=[RETRY])
END = op("failpoint", "end")


def armed(*names: str) -> set[tuple[str, str]]:
    return {("ch2", point) for name in names for point in VARIANTS[name].points}


def test_all_points_of_a_variant_are_armed_named_and_disarmed() -> None:
    cluster, faults = Record(), nemesis(RETRY)
    begun = faults.invoke(cluster, BEGIN)
    assert begun.kind is Kind.OK
    assert isinstance(begun.value, dict)
    assert begun.value["name"] == RETRY
    assert begun.value["text"] == (
        "ch2: replicated_merge_tree_commit_zk_fail_after_op "
        "replicated_merge_tree_insert_retry_pause"
    )
    assert cluster.points == armed(RETRY)
    assert faults.invoke(cluster, END).kind is Kind.OK
    assert cluster.points == set()


class Older(Record):
    """Servers that know no failpoint of one variant."""

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        return "delay_commit" not in point and super().arm(nodes, point)


def test_a_point_that_the_servers_do_not_know_gives_way_to_the_next() -> None:
    cluster, order = Older(), ["failpoint-slow-commit", "failpoint-sends"]
    done = nemesis("failpoint").invoke(cluster, op("failpoint", nodes=["ch2"], variants=order))
    assert (done.kind, cluster.points) == (Kind.OK, armed("failpoint-sends"))
    assert isinstance(done.value, dict)
    assert done.value["name"] == "failpoint-sends"


def test_servers_that_know_none_are_a_fault_that_was_not_begun() -> None:
    cluster = Record()
    cluster.known = False
    done = nemesis(RETRY).invoke(cluster, BEGIN)
    assert (done.kind, done.error) == (Kind.FAIL, f"ch2: no failpoint of {RETRY} is known")


def test_a_heal_disarms_what_no_end_did_and_says_what_stays_armed() -> None:
    cluster, faults = Record(), nemesis(RETRY)
    faults.invoke(cluster, BEGIN)
    faults.heal(cluster)
    faults.heal(cluster)
    assert cluster.points == set()

    class Stubborn(Record):
        def disarm(self, nodes: Iterable[str], point: str) -> None:
            pass

    stubborn, faults = Stubborn(), nemesis(RETRY)
    faults.invoke(stubborn, BEGIN)
    with pytest.raises(FaultError, match="ch2 lists replicated_merge_tree_commit_zk_fail_after_op"):
        faults.heal(stubborn)


def test_a_point_that_lasts_must_be_listed() -> None:
    class Deaf(Record):
        def armed(self, node: str, point: str) -> bool | None:
            return False

    sends = op("failpoint", nodes=["ch2"], variants=["failpoint-sends"])
    done = nemesis("failpoint-sends").invoke(Deaf(), sends)
    assert done.kind is Kind.INFO
    assert done.error == "ch2 does not list replicated_sends_failpoint as enabled"


def test_a_paused_server_is_disarmed_when_it_goes_on() -> None:
    cluster, faults = Record(), nemesis(RETRY)
    faults.invoke(cluster, BEGIN)
    cluster.frozen.add("ch2")
    done = faults.invoke(cluster, END)
    assert (done.kind, done.error) == (Kind.INFO, "ch2 is paused, its failpoints are enabled")
    cluster.frozen.clear()
    faults.heal(cluster)
    assert cluster.points == set()


def test_the_order_of_the_variants_is_decided_by_the_seed() -> None:
    (family,) = nemesis("failpoint")._families.values()
    assert isinstance(family, Failpoint)
    plans = [family.plan(Seed(seed), turn) for seed in (1, 1, 2) for turn in range(5)]
    assert plans[:5] == plans[5:10] != plans[10:]
    assert len({str(plan["variants"]) for plan in plans}) > 3
    assert {name for plan in plans for name in plan["variants"]} == set(VARIANTS)  # type: ignore[union-attr]


def test_servers_without_failpoints_are_refused_by_name() -> None:
    class Today(Record):
        engines = Engines(nodes={"ch1": Engine(role=Role.CLICKHOUSE, version="25.8.2.1")})

    check_capabilities(nemesis("failpoint"), Today())
    assert Mechanism.FAILPOINTS in nemesis("failpoint").needs
    with pytest.raises(UsageError, match="nemesis failpoint: needs failpoints, which ClickHouse"):
        check_capabilities(nemesis("failpoint"), Record())


def test_a_server_that_does_not_answer_is_no_unknown_point() -> None:
    class Dead(Record):
        def arm(self, nodes: Iterable[str], point: str) -> bool:
            raise ClusterError("no answer")

    done = nemesis(RETRY).invoke(Dead(), BEGIN)
    assert done.kind is Kind.INFO
    assert done.error == "ClusterError: no answer"
