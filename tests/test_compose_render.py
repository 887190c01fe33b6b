"""A topology becomes a compose file and each server's configuration."""

import os
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from compose.plan import ClusterPlan, Image, Images, plan_cluster
from compose.render import compose_text, config_files, render, render_again
from compose.settings import Fsync, PartFormat, Settings, Storage
from harness.core.dialect import Coordination
from harness.core.engines import Engine
from harness.core.topology import Role, Topology

SNAPSHOT = Path(__file__).parent / "compose_2x2.yml"


ZOOKEEPER_38 = Engine(role=Role.ZOOKEEPER, version="3.8.0")
KEEPER = Engine(role=Role.ZOOKEEPER, version="25.8.2.29", coordination=Coordination.KEEPER)


def planned(
    topology: Topology,
    *,
    version: str = "18.16.1",
    settings: Settings | None = None,
    keeper: Engine = ZOOKEEPER_38,
) -> ClusterPlan:
    def images_of(role: Role, *versions: str) -> dict[str, Image]:
        return {
            v: Image(f"harness/{role}:{n}", Engine(role=role, version=v))
            for n, v in enumerate(versions, 1)
        }

    images = Images(
        "harness/pod:1",
        {
            Role.CLICKHOUSE: images_of(Role.CLICKHOUSE, *version.split(",")),
            Role.ZOOKEEPER: {keeper.version: Image("harness/zookeeper:1", keeper)},
        },
    )
    return plan_cluster(
        topology,
        settings or Settings(),
        images,
        name="harness-0001",
        labels={"harness.owner": "42:7:boot"},
    )


def config(made: ClusterPlan, node: str, file: str) -> str:
    return config_files(made, made.topology.node(node))[file]


def element(made: ClusterPlan, node: str, file: str) -> ElementTree.Element:
    return ElementTree.fromstring(config(made, node, file))


def texts(root: ElementTree.Element, path: str) -> list[str | None]:
    return [found.text for found in root.findall(path)]


def test_two_replicas_and_two_keepers_render_to_this_very_file() -> None:
    made = planned(Topology.of(replicas=2, keepers=2))
    # When the change is meant, write the text into the file and read the difference.
    assert compose_text(made) == SNAPSHOT.read_text()


def test_only_a_faulty_disk_asks_for_privileges_and_only_for_its_pod() -> None:
    made = planned(Topology.of(store=False), settings=Settings(storage=Storage.FAULTY))
    for pod in made.pods:
        data = ("/data", "/datalog") if pod.node.name.startswith("zk") else ("/var/lib/clickhouse",)
        assert pod.disk == data
        assert made.server(pod.node.name).entrypoint[:2] == ("/harness/faulty-disk", "enter")
    assert not [volume.name for volume in made.volumes if not volume.name.endswith("-log")]
    lines = compose_text(made).splitlines()
    assert lines.count("    cap_add: [NET_ADMIN, SYS_ADMIN]") == len(made.pods)
    for storage in (Storage.MEMORY, Storage.VOLUME):
        text = compose_text(planned(Topology.of(), settings=Settings(storage=storage)))
        assert ("tmpfs" in text) is (storage is Storage.MEMORY)
        assert not any(word in text for word in ("SYS_ADMIN", "/dev/fuse", "entrypoint"))


@pytest.mark.parametrize(
    ("fsync", "inserts", "fetches", "keeper"),
    [
        (Fsync.DEFAULT, [], [], False),
        (Fsync.INSERTS, ["1"], [], False),
        (Fsync.ALL, ["1"], ["1"], False),
        (Fsync.NEVER, [], [], True),
    ],
)
def test_servers_are_told_what_to_make_durable(
    fsync: Fsync, inserts: list[str], fetches: list[str], keeper: bool
) -> None:
    made = planned(Topology.of(), version="25.8.2", settings=Settings(fsync=fsync))
    root = element(made, "ch1", "config.xml")
    assert texts(root, "merge_tree/fsync_after_insert") == inserts
    assert texts(root, "merge_tree/min_compressed_bytes_to_fsync_after_fetch") == fetches
    assert ("forceSync=no" in config(made, "zk1", "zoo.cfg")) is keeper


def test_data_in_memory_is_held_by_the_pod_and_logs_are_on_disk() -> None:
    made = planned(Topology.of(), settings=Settings(storage=Storage.MEMORY))
    assert all(pod.volumes for pod in made.pods)
    in_memory = {volume.name: bool(volume.options) for volume in made.volumes}
    assert in_memory["harness-0001-ch1-data"]
    assert in_memory["harness-0001-zk1-datalog"]
    assert not in_memory["harness-0001-ch1-log"]


@pytest.mark.parametrize(("version", "root"), [("18.16.1", "yandex"), ("25.3.2", "clickhouse")])
def test_root_element_follows_the_version(version: str, root: str) -> None:
    made = planned(Topology.of(), version=version)
    assert element(made, "ch1", "config.xml").tag == root
    assert element(made, "ch1", "users.xml").tag == root


@pytest.mark.parametrize(("version", "value"), [("18.16.1", []), ("25.3.2", ["0"])])
def test_only_servers_that_have_parallel_quorums_are_told_to_do_without(
    version: str, value: list[str]
) -> None:
    users = element(planned(Topology.of(), version=version), "ch1", "users.xml")
    assert texts(users, "profiles/default/insert_quorum_parallel") == value


def test_tasks_that_failed_are_tried_again_soon_where_the_server_can_be_told() -> None:
    def postponed(version: str) -> list[str | None]:
        root = element(planned(Topology.of(), version=version), "ch1", "config.xml")
        return texts(root, "merge_tree/max_postpone_time_for_failed_replicated_fetches_ms")

    assert (postponed("18.16.1"), postponed("25.8.2")) == ([], ["1000"])


def test_todays_servers_are_told_how_many_threads_send_for_distributed_tables() -> None:
    def threads(version: str) -> list[str | None]:
        root = element(planned(Topology.of(), version=version), "ch1", "config.xml")
        return texts(root, "background_distributed_schedule_pool_size")

    assert (threads("18.16.1"), threads("25.8.2")) == ([], ["16"])


def test_each_replica_is_made_and_configured_for_its_own_version() -> None:
    topology = Topology.of(replicas=3, clickhouse="18.16.1,ch2=25.8.2", zookeeper="3.8.0")
    made = planned(topology, version="18.16.1,25.8.2")
    assert [made.server(node).image for node in topology.replicas] == [
        "harness/clickhouse:1",
        "harness/clickhouse:2",
        "harness/clickhouse:1",
    ]
    assert compose_text(made).count("image: harness/clickhouse:2") == 1
    roots = [element(made, node, "config.xml").tag for node in topology.replicas]
    assert roots == ["yandex", "clickhouse", "yandex"]
    assert texts(element(made, "ch2", "users.xml"), "profiles/default/async_insert") == ["0"]
    assert texts(element(made, "ch1", "users.xml"), "profiles/default/async_insert") == []


def test_a_new_server_writes_parts_that_an_old_one_reads_if_it_is_told_to() -> None:
    topology = Topology.of(replicas=2, clickhouse="24.8.4,25.8.2", zookeeper="3.8.0")
    path = "merge_tree/write_marks_for_substreams_in_compact_parts"

    def marks(node: str, parts: PartFormat, versions: str = "24.8.4,25.8.2") -> list[str | None]:
        made = planned(topology, version=versions, settings=Settings(parts=parts))
        return texts(element(made, node, "config.xml"), path)

    assert [marks(node, PartFormat.OLD) for node in topology.replicas] == [[], ["0"]]
    assert [marks(node, PartFormat.NEW) for node in topology.replicas] == [[], []]
    alone = planned(
        Topology.of(replicas=1), version="25.8.2", settings=Settings(parts=PartFormat.OLD)
    )
    assert texts(element(alone, "ch1", "config.xml"), path) == [], "there is none that is older"


def test_a_node_of_another_version_is_rendered_again_and_no_other_one(tmp_path: Path) -> None:
    before = Topology.of(replicas=2, keepers=1, clickhouse="24.8.4", zookeeper="3.8.0")
    render(planned(before, version="24.8.4,25.8.2"), tmp_path)
    other = (tmp_path / "config/ch2/config.xml").stat().st_mtime_ns
    after = planned(before.with_version("ch1", "25.8.2"), version="24.8.4,25.8.2")
    file = render_again(after, "ch1", tmp_path)
    assert file.read_text() == compose_text(after)
    assert "for ClickHouse 25.8.2." in (tmp_path / "config/ch1/config.xml").read_text()
    assert (tmp_path / "config/ch2/config.xml").stat().st_mtime_ns == other


def test_a_replica_lists_exactly_the_keepers_of_its_route() -> None:
    made = planned(Topology.of(route="ch1=zk2,ch2=zk1+zk3"))
    hosts = {
        replica: texts(element(made, replica, "config.xml"), "zookeeper/node/host")
        for replica in made.topology.replicas
    }
    assert hosts == {"ch1": ["zk2"], "ch2": ["zk1", "zk3"], "ch3": ["zk3"]}


def test_a_replica_knows_its_place_and_every_shard() -> None:
    root = element(planned(Topology.of(shards=2, replicas=2)), "ch3", "config.xml")
    assert texts(root, "macros/shard") == ["2"]
    assert texts(root, "macros/replica") == ["ch3"]
    assert texts(root, "interserver_http_host") == ["ch3"]
    shards = root.findall("remote_servers/harness/shard")
    assert [texts(shard, "replica/host") for shard in shards] == [["ch1", "ch2"], ["ch3", "ch4"]]


def test_settings_reach_the_servers() -> None:
    settings = Settings(
        tick_time_ms=300,
        init_limit=7,
        sync_limit=9,
        session_timeout_ms=4000,
        operation_timeout_ms=2000,
        mark_cache_bytes=123,
        heap_mb=99,
        log_level="trace",
    )
    made = planned(Topology.of(), settings=settings)
    zoo = config(made, "zk1", "zoo.cfg").splitlines()
    assert {"tickTime=300", "initLimit=7", "syncLimit=9"} <= set(zoo)
    root = element(made, "ch1", "config.xml")
    assert texts(root, "zookeeper/session_timeout_ms") == ["4000"]
    assert texts(root, "zookeeper/operation_timeout_ms") == ["2000"]
    assert texts(root, "mark_cache_size") == ["123"]
    assert texts(root, "logger/level") == ["trace"]
    assert 'JVMFLAGS: "-Xms99m -Xmx99m' in compose_text(made)


def test_a_keeper_knows_its_peers() -> None:
    zoo = config(planned(Topology.of()), "zk2", "zoo.cfg").splitlines()
    assert [line for line in zoo if line.startswith("server.")] == [
        "server.1=zk1:2888:3888",
        "server.2=zk2:2888:3888",
        "server.3=zk3:2888:3888",
    ]


def test_files_are_readable_by_the_servers_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file = render(planned(Topology.of(replicas=1, keepers=1)), tmp_path)
    finally:
        os.umask(before)
    assert file == tmp_path / "compose.yml"
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert [str(path.relative_to(tmp_path)) for path in written] == [
        "compose.yml",
        "config/ch1/config.xml",
        "config/ch1/users.xml",
        "config/zk1/log4j.properties",
        "config/zk1/logback.xml",
        "config/zk1/zoo.cfg",
    ]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o644}
    assert {path.parent.stat().st_mode & 0o777 for path in written[1:]} == {0o755}


@pytest.mark.containers
def test_the_compose_tool_accepts_the_file(tmp_path: Path) -> None:
    file = render(planned(Topology.of()), tmp_path)
    plugin = shutil.which("docker-compose") is None
    tool = ("docker", "compose") if plugin else ("docker-compose",)
    done = subprocess.run(
        (*tool, "-f", str(file), "config", "--services"), capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == {
        name for node in Topology.of().names for name in (node, f"{node}-pod")
    }


def test_keeper_servers_are_configured_by_their_own_manual() -> None:
    made = planned(Topology.of(keepers=3), version="25.8.2.1", keeper=KEEPER)
    server = made.server("zk2")
    assert list(config_files(made, server.node)) == ["keeper_config.xml"]
    assert server.config_at == "/etc/clickhouse-keeper"
    assert [volume.at for volume in server.volumes] == ["/var/lib/clickhouse"]
    assert server.environment == {"CLICKHOUSE_WATCHDOG_ENABLE": "0"}

    root = element(made, "zk2", "keeper_config.xml")
    (keeper,) = root.findall("keeper_server")
    assert (keeper.findtext("server_id"), keeper.findtext("tcp_port")) == ("2", "2181")
    ensemble = [[field.text for field in found] for found in keeper.iter("server")]
    assert ensemble == [["1", "zk1", "9234"], ["2", "zk2", "9234"], ["3", "zk3", "9234"]]
    storage = [keeper.findtext(f"{what}_storage_path") for what in ("log", "snapshot")]
    assert all(str(path).startswith("/var/lib/clickhouse/") for path in storage)
    timed = {field.tag: field.text for field in keeper.findall("coordination_settings/*")}
    assert timed == {
        "operation_timeout_ms": "3000",
        "min_session_timeout_ms": "1000",
        "max_session_timeout_ms": "10000",
        "heart_beat_interval_ms": "500",
        "raft_logs_level": "information",
    }
    assert "25.8.2.29" in str(server.engine)
    assert str(server.engine).startswith("ClickHouse Keeper ")


def test_replicas_find_keeper_servers_as_they_find_those_of_zookeeper() -> None:
    topology = Topology.of(keepers=3)
    own, other = (
        config(planned(topology, version="25.8.2.1", keeper=keeper), "ch1", "config.xml")
        for keeper in (KEEPER, ZOOKEEPER_38)
    )
    assert own == other
