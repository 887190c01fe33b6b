"""Names that users type: they become a nemesis, or a message that helps."""

from typing import Any

import pytest

from harness.core.capabilities import CanKill, CanPartition, CanPause, ReportsLeader
from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.core.topology import LinkClass, Role, Topology
from nemesis import store
from nemesis.catalogue import FAULTS, GRAMMAR, NEMESES, entry_of, nemesis_names, parse_nemesis
from nemesis.composed import Composed
from nemesis.options import FaultOptions

THREE = Topology.of()
STORE = Topology.of(store=True)


def parsed(text: str, topology: Topology = STORE, **options: Any) -> Composed:
    options.setdefault("upgrade_to", {Role.CLICKHOUSE: "25.8"})
    return parse_nemesis(text, topology, Seed(5), FaultOptions(**options))


@pytest.mark.parametrize("name", nemesis_names())
def test_every_name_can_be_typed(name: str) -> None:
    nemesis = parsed(name)
    assert nemesis.name == name
    named = [entry for entry in FAULTS.values() if f"{name}-".startswith(f"{entry.name}-")]
    entry = max(named, key=lambda entry: len(entry.name), default=None)
    assert nemesis.fs == ({entry.family} if entry else set())
    assert (entry is None) == (name == "none")


def test_every_entry_of_the_table_is_described() -> None:
    assert {"none", *FAULTS} == set(NEMESES) <= set(nemesis_names())
    for entry in FAULTS.values():
        assert all((entry.text, entry.seen, entry.gone)), entry.name


def test_entries_of_one_family_are_seen_and_gone_in_the_same_way() -> None:
    for entry in FAULTS.values():
        first = entry_of(entry.family)
        assert first is not None
        assert (entry.seen, entry.gone, entry.make) == (first.seen, first.gone, first.make)


def test_it_is_said_what_may_follow_a_name() -> None:
    sentences = GRAMMAR.split("; ")
    assert [sentence.partition(" may be followed by ")[2] for sentence in sentences] == [
        "-ROLE (clickhouse zookeeper both) and -TARGET (one minority majority all leader)",
        "-TARGET (one minority)",
        "-ROLE (clickhouse zookeeper)",
    ]
    assert sentences[0].startswith("kill, pause, restart, delay, jitter, ")
    assert sentences[1:] == [
        "stop-fetches may be followed by -TARGET (one minority)",
        "old-disk and replace may be followed by -ROLE (clickhouse zookeeper)",
    ]


def test_names_of_one_family_are_one_family_that_draws_among_them() -> None:
    nemesis = parsed("partition-ring, partition-one, kill-zookeeper-one,kill-clickhouse-one,pause")
    assert nemesis.fs == {"partition", "kill", "pause"}
    assert nemesis.needs == (CanPartition, CanKill, ReportsLeader, CanPause)


def test_partition_leaves_out_what_the_topology_has_no_room_for() -> None:
    assert parsed("partition", Topology.of(keepers=1)).needs == (CanPartition,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partiton-rng", "nemesis 'partiton-rng' is unknown; did you mean partition-ring"),
        ("partition,", "nemesis '' is unknown; see `harness list nemeses`"),
        ("kill-everyone", "followed by -ROLE .clickhouse zookeeper both. and -TARGET .one min"),
        ("kill-both-leader", "nemesis 'kill-both-leader' is unknown"),
        ("kill-one-zookeeper", "did you mean .*kill-zookeeper-one"),
        ("kill,pause,kill", "'kill': named twice in 'kill,pause,kill'"),
        ("kill,none", "'none': cannot be combined"),
    ],
)
def test_a_bad_name_is_shown_with_what_there_is(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed(text)


def test_an_upgrade_needs_a_version_that_is_not_there_yet() -> None:
    with pytest.raises(UsageError, match="'upgrade': no target version given, expected one in"):
        parsed("upgrade", upgrade_to={})
    new = Topology.of(clickhouse="25.8", zookeeper="3.8")
    with pytest.raises(UsageError, match=r"'upgrade': all servers run 25\.8 already"):
        parsed("upgrade", new)
    with pytest.raises(UsageError, match="upgrade end 'both': expected new or old"):
        parsed("upgrade", upgrade_end="both")


def test_a_fault_without_room_is_refused_by_name() -> None:
    with pytest.raises(
        UsageError, match="'pause-zookeeper-minority': no node to affect: zookeeper"
    ):
        parsed("pause-zookeeper-minority", Topology.of(keepers=1))
    with pytest.raises(UsageError, match="no two nodes with a link of interserver"):
        parsed("partition", Topology.of(replicas=1), link_classes=(LinkClass.INTERSERVER,))
    with pytest.raises(UsageError, match="'kill': no node to affect: clickhouse-leader: no"):
        parsed("kill", roles=("clickhouse",), targets=("leader",))
    for name in (*store.VARIANTS, "store-pause"):
        with pytest.raises(
            UsageError, match=f"'{name}': .* store-one: this cluster has no object store"
        ):
            parsed(name, THREE)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("interval_s", 0.0, "interval_s 0.0: expected a number of seconds from 0.001 to 604,800"),
        (
            "duration_s",
            float("nan"),
            "duration_s nan: expected a number of seconds from 0.001 to 604,800",
        ),
        ("jitter", 1.0, r"jitter: 1.0 given, a fraction in \[0, 1\) expected"),
        ("link_classes", (), "link classes: none given, expected some of peer keeper interserver"),
        ("roles", ("keeper",), "role 'keeper' of faults: expected one of clickhouse zookeeper"),
        ("targets", (), "targets of faults: none given, expected some of one minority"),
    ],
)
def test_options_that_cannot_be_used_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parsed("kill", **{option: value})
