import pytest

from harness.core.errors import UsageError
from harness.core.op import Kind
from harness.core.outcomes import WRITE_OUTCOMES, read_outcome, write_outcome
from harness.core.seed import Seed
from harness.core.topology import Link, LinkClass, Topology
from harness.core.verdict import Anomaly, Status, Verdict, worst


def test_the_same_seed_draws_the_same_and_children_do_not_share_draws() -> None:
    seed = Seed(7)
    assert [seed.draw(i) for i in range(3)] == [Seed(7).draw(i) for i in range(3)]
    assert seed.child("a").draw(0) != seed.child("b").draw(0) != seed.draw(0)
    assert seed.draw(0) == 7191089600892374487, "SplitMix64, first number of seed 7"


def test_draws_are_spread_evenly() -> None:
    counts = [0] * 10
    for i in range(100_000):
        counts[Seed(1).below(i, 10)] += 1
    assert min(counts) > 9_600
    assert max(counts) < 10_400
    assert sorted(Seed(3).shuffled(0, range(9))) == list(range(9))


def test_a_topology_names_its_nodes_and_routes() -> None:
    topology = Topology.of(shards=2, replicas=2, keepers=3, route="ch2=zk1+zk3")
    assert topology.names == ("ch1", "ch2", "ch3", "ch4", "zk1", "zk2", "zk3")
    assert topology.shards == (("ch1", "ch2"), ("ch3", "ch4"))
    assert [topology.node(n).keepers for n in topology.replicas] == [
        ("zk1",), ("zk1", "zk3"), ("zk3",), ("zk1",),
    ]  # fmt: skip
    assert topology.link_class(Link("zk1", "zk2")) is LinkClass.PEER
    assert topology.link_class(Link("zk1", "ch2")) is LinkClass.KEEPER
    assert len(topology.links([LinkClass.INTERSERVER])) == 12


@pytest.mark.parametrize(
    ("said", "versions"),
    [
        ("25.8", ["25.8", "25.8", "25.8"]),
        ("24.8,25.8", ["24.8", "25.8", "24.8"]),
        ("ch1=24.8,25.8", ["24.8", "25.8", "25.8"]),
        ("18.16,ch2=25.8,24.8", ["18.16", "25.8", "24.8"]),
        ("ch3=24.8, ch1=25.8, ch2=25.5", ["25.8", "25.5", "24.8"]),
        ("", ["", "", ""]),
    ],
)
def test_servers_have_versions_by_name_and_the_others_in_turn(
    said: str, versions: list[str]
) -> None:
    topology = Topology.of(clickhouse=said, zookeeper="3.8,3.9")
    assert [topology.node(name).version for name in topology.replicas] == versions
    assert [topology.node(name).version for name in topology.keepers] == ["3.8", "3.9", "3.8"]
    assert topology.with_version("ch2", "9.9").node("ch2").version == "9.9"
    assert topology.with_version("ch2", "9.9").node("ch3") == topology.node("ch3")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"replicas": 0}, "replicas 0: expected a whole number from 1 to 32"),
        ({"route": "ch9=zk1"}, "keeper route 'ch9=zk1': expected own, all or REPLICA=ZK"),
        ({"route": "ch1=zk7"}, "servers zk1 zk2 zk3"),
        (
            {"clickhouse": "ch9=25.8,24.8"},
            "--clickhouse ch9=25.8,24.8: 'ch9=25.8': expected VERSION or SERVER=VERSION with a "
            "server out of ch1 ch2 ch3",
        ),
        ({"clickhouse": "24.8,,25.8"}, "--clickhouse 24.8,,25.8: '': expected VERSION or"),
        ({"zookeeper": "zk1="}, "--zookeeper zk1=: 'zk1=': expected VERSION or SERVER=VERSION"),
        (
            {"clickhouse": "ch1=24.8,ch1=25.8,25.5"},
            "ch1 is named twice; expected one version for a server",
        ),
        (
            {"clickhouse": "1,2,3,4"},
            "--clickhouse 1,2,3,4: 4 versions for 3 servers (ch1 ch2 ch3); expected at most one",
        ),
        (
            {"clickhouse": "ch1=24.8,ch3=25.8"},
            "--clickhouse ch1=24.8,ch3=25.8: ch2 has no version; expected one for every server, "
            "as in ch1=24.8,ch3=25.8,VERSION",
        ),
    ],
)
def test_a_bad_topology_is_refused(what: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Topology.of(**what)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (286, "Quorum for previous write has not been satisfied yet", Kind.FAIL),
        (517, "Metadata on replica is not up to date with common metadata", Kind.FAIL),
        (244, "Unexpected logical error while adding block", Kind.FAIL),
        (244, "Unexpected ZooKeeper error: session expired", Kind.INFO),
        (999, "Session expired", Kind.INFO),
        (319, "Unknown status, client must retry", Kind.INFO),
        (4242, "an error that nobody knows", Kind.INFO),
        (-2, "Connection refused", Kind.FAIL),
        (-1, "Unexpected EOF", Kind.INFO),
    ],
)
def test_what_an_error_of_a_write_means(code: int, text: str, kind: Kind) -> None:
    assert write_outcome(code, text, WRITE_OUTCOMES).kind is kind


def test_no_error_of_a_read_constrains_anything() -> None:
    assert {read_outcome(code).kind for code in (289, 319, 4242, -1)} == {Kind.FAIL}


def test_the_worst_verdict_wins_and_of_nothing_nothing_is_known() -> None:
    assert worst([Status.VALID, Status.INVALID, Status.UNKNOWN]) is Status.INVALID
    assert worst([Status.VALID, Status.UNKNOWN]) is Status.UNKNOWN
    assert worst([]) is Status.UNKNOWN
    assert [s.exit_status for s in Status] == [0, 2, 1]


def test_valid_needs_something_checked_and_invalid_a_witness() -> None:
    anomaly = Anomaly(kind="lost", text="value 1", ops=(3,))
    for status, checked, anomalies in (
        (Status.VALID, 0, ()),
        (Status.INVALID, 1, ()),
        (Status.VALID, 1, (anomaly,)),
    ):
        with pytest.raises(AssertionError):
            Verdict(checker="c", status=status, summary="", checked=checked, anomalies=anomalies)
