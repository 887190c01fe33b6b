"""Faults of single messages: what the proxy stops on real connections, and what it lets pass."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from cluster_pool import Shape
from real_servers import wait_until

from compose.releases import ImageChoice
from harness.clients.clickhouse import NO_SETTINGS, DatabaseError, QuerySettings, connect
from harness.clients.replicated_table import ReplicatedTable, TableSchema
from harness.clients.set_calls import quorum
from harness.clusters.docker_cluster import DockerCluster
from harness.core.capabilities import CanIntercept, CanRestart
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.catalogue import parse_nemesis
from nemesis.family import Family, NotBegunError, Watch
from nemesis.message import VARIANTS
from nemesis.options import FaultOptions

SHAPE = Shape(choice=ImageChoice(clickhouse="18.16"))
"""A server of today tries a lost commit again, so that what one lost message does is not seen."""
UNKNOWN = 319
REFUSED = {225, 242}
"""NO_ZOOKEEPER and TABLE_IS_READ_ONLY: a replica between two sessions takes no insert."""
SCHEMA = TableSchema(columns="x Int64", order_by="x", partition_by="tuple()", settings={})


def family_of(name: str) -> Family:
    (family,) = parse_nemesis(name, Topology.of(), Seed(1), FaultOptions()).families
    return family


@pytest.mark.parametrize("name", VARIANTS)
def test_each_needs_a_proxy_and_strikes_one_replica(name: str) -> None:
    nemesis = parse_nemesis(name, Topology.of(), Seed(1), FaultOptions())
    assert (nemesis.fs, nemesis.needs) == ({name}, (CanIntercept,))


@contextmanager
def created(servers: DockerCluster, name: str) -> Iterator[ReplicatedTable]:
    servers.part(CanIntercept).interpose()
    servers.part(CanIntercept).interpose()  # what is there already stays
    made = ReplicatedTable(servers, name, SCHEMA)
    try:
        made.create()
        yield made
        made.drop()
    finally:
        made.close()


@pytest.fixture(scope="module")
def table(servers: DockerCluster) -> Iterator[ReplicatedTable]:
    with created(servers, "messages") as made:
        yield made


@pytest.fixture
def held(servers: DockerCluster) -> Iterator[ReplicatedTable]:
    with created(servers, "held") as made:
        yield made


@pytest.fixture
def no_rules_stay(servers: DockerCluster) -> Iterator[None]:
    """Clear what a test has armed, so that its failure is not that of the next ones too."""
    yield
    servers.part(CanIntercept).clear_rules(["ch1"])


def armed(servers: DockerCluster, name: str) -> None:
    servers.part(CanIntercept).intercept(["ch1"], {"name": name, **VARIANTS[name][1]})


def state(servers: DockerCluster, name: str) -> tuple[object, object]:
    output = servers.part(CanIntercept).intercepted("ch1")
    hits = output["hits"]
    assert isinstance(hits, dict)
    return hits.get(name), output["stalled"]


def insert(
    servers: DockerCluster,
    table: ReplicatedTable,
    value: int,
    settings: QuerySettings = NO_SETTINGS,
) -> int:
    """Insert through ch1 once it has a session. Return the error's code, 0 for none."""
    code = 0

    def answered() -> bool:
        nonlocal code
        code = attempt(servers, table, value, settings)
        return code not in REFUSED

    wait_until(answered, f"ch1 takes the insert of {value}")
    return code


def attempt(
    servers: DockerCluster,
    table: ReplicatedTable,
    value: int,
    settings: QuerySettings = NO_SETTINGS,
) -> int:
    """Insert through ch1. Return the error's code, 0 for none."""
    connection = connect(servers, "ch1")
    try:
        connection.insert(table.name, [(value,)], settings)
    except DatabaseError as error:
        return error.code
    finally:
        connection.close()
    return 0


def has(servers: DockerCluster, table: ReplicatedTable, value: int, node: str) -> bool:
    connection = connect(servers, node)
    try:
        return bool(connection.numbers(f"SELECT x FROM {table.name} WHERE x = {value}"))
    finally:
        connection.close()


def recovered(servers: DockerCluster, table: ReplicatedTable, value: int) -> None:
    """Wait until ch1 has a session again and accepts inserts."""
    servers.part(CanIntercept).clear_rules(["ch1"])
    wait_until(lambda: attempt(servers, table, value) == 0, "ch1 takes inserts again")


def containers(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of real servers, after which no rule is left."""
    return pytest.mark.containers(pytest.mark.usefixtures("no_rules_stay")(test))


@containers
def test_without_the_answer_a_commit_is_unknown_and_has_happened(
    servers: DockerCluster, table: ReplicatedTable
) -> None:
    armed(servers, "zk-cut-response")
    assert insert(servers, table, 1) == UNKNOWN
    assert state(servers, "zk-cut-response") == (1, 0)
    recovered(servers, table, 2)
    wait_until(lambda: has(servers, table, 1, "ch2"), "the other replica has it")


@containers
def test_without_the_request_a_commit_is_unknown_and_has_not_happened(
    servers: DockerCluster, table: ReplicatedTable
) -> None:
    armed(servers, "zk-cut-request")
    assert insert(servers, table, 3) == UNKNOWN
    assert has(servers, table, 3, "ch1"), "its replica shows it"
    recovered(servers, table, 4)
    wait_until(lambda: has(servers, table, 4, "ch2"), "a later one arrives")
    assert not has(servers, table, 3, "ch2")


@containers
def test_a_shut_channel_lets_nothing_pass_until_the_fault_ends(
    servers: DockerCluster, table: ReplicatedTable
) -> None:
    armed(servers, "zk-shut-request")
    assert insert(servers, table, 30) == UNKNOWN
    assert has(servers, table, 30, "ch1"), "its replica shows it"
    assert attempt(servers, table, 31) != 0, "ch1 has no session"
    recovered(servers, table, 32)
    wait_until(lambda: has(servers, table, 32, "ch2"), "a later one arrives")
    assert not has(servers, table, 30, "ch2")


@containers
def test_a_dropped_answer_hangs_until_it_is_let_pass(
    servers: DockerCluster, table: ReplicatedTable
) -> None:
    armed(servers, "zk-drop-response")
    assert insert(servers, table, 5) == UNKNOWN
    hits, stalled = state(servers, "zk-drop-response")
    assert (hits, stalled) == (1, 1)
    recovered(servers, table, 6)
    assert state(servers, "zk-drop-response") == (None, 0)
    wait_until(lambda: has(servers, table, 5, "ch3"), "the commit had happened")


@containers
def test_half_a_part_is_never_seen_and_the_whole_comes_later(
    servers: DockerCluster, table: ReplicatedTable
) -> None:
    armed(servers, "fetch-cut-half")
    assert insert(servers, table, 7) == 0
    wait_until(lambda: state(servers, "fetch-cut-half")[0] not in (0, None), "a fetch was cut")
    assert not has(servers, table, 7, "ch2")
    servers.part(CanIntercept).clear_rules(["ch1"])
    wait_until(lambda: has(servers, table, 7, "ch2"), "the part is fetched anew")


@containers
def test_the_second_block_is_held_while_the_third_passes(
    servers: DockerCluster, held: ReplicatedTable
) -> None:
    assert insert(servers, held, 0) == 0
    armed(servers, "fetch-hold-second")
    assert insert(servers, held, 1) == 0
    assert insert(servers, held, 2) == 0
    wait_until(lambda: has(servers, held, 2, "ch2"), "the third block is fetched")
    assert not has(servers, held, 1, "ch2")
    servers.part(CanIntercept).clear_rules(["ch1"])
    wait_until(lambda: has(servers, held, 1, "ch2"), "the second block is fetched")


@containers
def test_a_rare_message_is_lain_in_wait_for(servers: DockerCluster, table: ReplicatedTable) -> None:
    rare = family_of("zk-delay-active")
    begun = rare.begin(servers, {"name": "zk-delay-active-one", "nodes": ["ch1"]}, Watch(1))
    assert begun["text"] == "ch1"
    assert insert(servers, table, 9, quorum(2, 5_000)) == 0
    assert state(servers, "zk-delay-active") == (0, 0), "it checks is_active, and passes"
    servers.part(CanRestart).restart(["ch1"])
    wait_until(lambda: attempt(servers, table, 8) == 0, "ch1 takes inserts again")
    # A replica whose first registration is late on a loaded machine registers once more.
    assert re.fullmatch(r"ch1, [1-9] stopped", str(rare.end(servers, Watch(1))["text"]))


@containers
def test_a_replica_has_one_of_them_at_a_time(
    servers: DockerCluster,
    table: ReplicatedTable,
) -> None:
    second = family_of("zk-delay-request")
    plan = {"name": "zk-delay-request-one", "nodes": ["ch1"]}
    armed(servers, "zk-drop-response")
    with pytest.raises(NotBegunError, match="ch1: other faults hold all of them"):
        second.begin(servers, plan, Watch(1))
    assert state(servers, "zk-drop-response") == (0, 0)
    servers.part(CanIntercept).clear_rules(["ch1"])
