"""Kills at a named moment: whom they strike, when they wait, and what counts as a hit.

On a cluster that records its calls; docs/lab/mechanisms.md has the moments that were hit on real
servers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from nemesis_record import Record, nemesis, op

from harness.core.op import Json, Kind
from nemesis.moment import CLONE_PHASES, MERGES, VARIANTS


@dataclass
class Answers:
    """A connection to one replica of the cluster."""

    cluster: "Working"
    node: str

    def ask(self, sql: str, *_: object) -> list[tuple[str, ...]]:
        if sql == MERGES:
            return [self.cluster.merging.get(self.node, ())]
        return [("/harness/t/1",)] if "zookeeper_path" in sql else [("1",)]

    def keep_session(self) -> None: ...

    def disconnect(self) -> None: ...


class Working(Record):
    """Cluster whose replicas merge and fetch, with proxies that stop what a rule names."""

    def __init__(self) -> None:
        super().__init__()
        self.merging: dict[str, tuple[str, ...]] = {}
        self.directories: dict[str, list[str]] = {}
        self.sends: str | None = None
        """Replica whose proxy meets a message that a rule names."""
        self.rules: dict[str, list[str]] = {}

    def query_channel(self, node: str, timeout_s: float) -> Answers:  # type: ignore[override] # enough
        return Answers(self, node)

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        head = name.split("?")[0].split("*")[0]
        return [f"/x/{d}" for d in self.directories.get(node, []) if d.startswith(head)]

    def interpose(self) -> None: ...

    def intercept(self, nodes: Sequence[str], rule: Mapping[str, Json]) -> None:
        for node in nodes:
            self.rules.setdefault(node, []).append(str(rule["name"]))

    def release(self, nodes: Sequence[str], name: str, cut: bool = False) -> None:
        assert not cut
        for node in nodes:
            self.rules[node].remove(name)

    def clear_rules(self, nodes: Sequence[str]) -> None:
        self.did.append("clear")
        for node in nodes:
            self.rules.pop(node, None)

    def intercepted(self, node: str) -> Mapping[str, Json]:
        rules = self.rules.get(node, [])
        hits = {name: int(self.sends in (node, name)) for name in rules}
        return {"hits": hits, "stalled": sum(hits.values())}


def begun(cluster: Working, name: str, *nodes: str) -> tuple[Kind, str, Mapping[str, object]]:
    """Begin the fault; return its kind, its error or text, and its value."""
    one = nemesis(name)
    done = one.invoke(cluster, op(name, nodes=list(nodes or ("ch1", "ch2", "ch3"))))
    assert isinstance(done.value, dict)
    return done.kind, done.error or str(done.value["text"]), done.value


STEPS = ("pull-kill", "register-kill", "finish-kill", "quorum-end-kill")
"""Those that are found as commit-kill is."""
CLONES = [name for name, _, _ in CLONE_PHASES]


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {*CLONES, *STEPS}))
def test_a_moment_that_does_not_come_is_no_fault_and_heals(name: str) -> None:
    cluster = Working()
    kind, why, _ = begun(cluster, name)
    assert kind is Kind.INFO
    assert any(
        text in why
        for text in ("no replica merged", "no replica dropped", "nobody fetched", "nobody sent it")
    )
    assert cluster.whole
    assert not cluster.rules


def test_the_leader_is_killed_while_it_merges_and_the_others_are_not() -> None:
    cluster = Working()
    cluster.merging = {"ch1": ("0_1_3_1",), "ch3": ("0_1_3_1",)}
    cluster.directories["ch3"] = ["tmp_merge_0_1_3_1"]
    kind, text, value = begun(cluster, "merge-kill")
    assert (kind, text) == (Kind.OK, "ch3 (leader) while it merged into 0_1_3_1")
    assert (value["nodes"], value["left"]) == (["ch3"], ["tmp_merge_0_1_3_1"])
    assert cluster.dead == {"ch3"}


def test_a_replica_is_killed_while_it_drops_a_table() -> None:
    cluster = Working()
    cluster.directories["ch2"] = ["harness_1.t.5c3d.sql"]
    kind, text, value = begun(cluster, "drop-kill")
    assert (kind, text) == (Kind.OK, "ch2 while it dropped a table")
    assert (value["nodes"], value["left"]) == (["ch2"], ["harness_1.t.5c3d.sql"])
    assert cluster.dead == {"ch2"}


def test_a_kill_that_leaves_nothing_incomplete_has_missed() -> None:
    cluster = Working()
    cluster.merging["ch3"] = ("0_1_3_1",)
    kind, why, _ = begun(cluster, "merge-kill")
    assert (kind, why) == (Kind.INFO, "ch3 was killed too late: no tmp_merge_*/ is left")
    assert cluster.whole, "it was started again"


@pytest.mark.parametrize(
    ("name", "victim", "text"),
    [
        ("fetch-kill-receiver", "ch2", "ch2 while it fetched tmp_fetch_0_3_3_0 from ch1"),
        ("fetch-kill-source", "ch1", "ch1 while ch2 fetched tmp_fetch_0_3_3_0 from it"),
    ],
)
def test_either_end_of_a_fetch_is_killed_in_the_middle(name: str, victim: str, text: str) -> None:
    cluster = Working()
    cluster.sends = "ch1"
    cluster.directories["ch2"] = ["tmp_fetch_0_3_3_0"]
    kind, said, value = begun(cluster, name)
    assert (kind, said, value["nodes"]) == (Kind.OK, text, [victim])
    assert cluster.dead == {victim}
    assert not cluster.rules, "the proxies hold nothing back any more"


@pytest.mark.parametrize(
    ("name", "sends", "victim", "text"),
    [
        # The proxy of ch1 meets the rule for ch2, or the only one, which is for ch1 itself.
        ("clone-kill-source", "ch2", "ch2", "ch2 while ch1 cloned it"),
        ("clone-kill-pointer", "ch2", "ch1", "ch1 just before it cloned ch2"),
        ("clone-kill", "ch2", "ch1", "ch1 while it cloned ch2"),
        ("clone-kill-queue", "ch1", "ch1", "ch1 while it filled its queue"),
        ("clone-kill-end", "ch1", "ch1", "ch1 just before the end of its clone"),
    ],
)
def test_either_end_of_a_clone_is_killed_in_its_phase(
    name: str, sends: str, victim: str, text: str
) -> None:
    cluster = Working()
    cluster.sends = sends
    kind, said, value = begun(cluster, name, "ch1", "ch2", "ch3")
    assert (kind, said, value["nodes"]) == (Kind.OK, text, [victim])
    assert cluster.did[:3] == ["kill ch1", "start ch1", f"kill {victim}"]
    assert cluster.dead == {victim}
    assert not cluster.rules, "the proxies hold nothing back any more"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("commit-kill", "ch3 just after a commit"),
        ("pull-kill", "ch3 just after a pull of the log"),
        ("register-kill", "ch3 just before the registration of a part"),
        ("finish-kill", "ch3 just before the end of an entry"),
        ("quorum-end-kill", "ch3 just before the end of a quorum"),
    ],
)
def test_who_takes_a_step_is_killed_in_it_and_nobody_else(name: str, text: str) -> None:
    cluster = Working()
    cluster.sends = "ch3"
    kind, said, value = begun(cluster, name)
    assert (kind, said, value["nodes"]) == (Kind.OK, text, ["ch3"])
    assert cluster.dead == {"ch3"}
    assert not cluster.rules, "the proxies hold nothing back any more"


def test_two_replicas_at_least_are_needed() -> None:
    cluster = Working()
    cluster.dead |= {"ch1", "ch2"}
    kind, why, _ = begun(cluster, "merge-kill")
    assert (kind, why) == (Kind.FAIL, "ch1 ch2 ch3: other faults hold all but one of them")
