"""Servers that somebody else runs, and faults that commands of the user make there."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from nemesis_record import THREE, Bare, op
from real_servers import wait_until

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.replica import query
from harness.core.errors import FaultError, UsageError
from harness.core.op import Done, Kind
from harness.core.protocols import Endpoint
from harness.core.seed import Seed
from harness.core.topology import Role
from harness.run.server_file import read_servers
from harness.store.store import RunDirectory
from nemesis.catalogue import parse_nemesis
from nemesis.commands import UNSEEN
from nemesis.composed import Composed
from nemesis.options import FaultCommands, FaultOptions

ONE = '[clickhouse.a]\naddress = "h1:9000"\n[zookeeper.z]\naddress = "h2"\n'
FAULT = f'{ONE}[faults.cut]\nbegin = ["true"]\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("servers = 3", "line 1: servers: 'servers' is unknown; expected one of clickhouse, zook"),
        ("clickhouse = 3", "line 1: clickhouse: 3: expected tables such as [clickhouse.one]"),
        (ONE[: ONE.index("[zoo")], "zookeeper: no servers; expected tables such as [zookeeper.on"),
        ("[clickhouse.a]\nport = 3", "line 2: clickhouse.a.port: 'port' is unknown"),
        (ONE.replace("h1:9000", "h1:x"), "line 2: clickhouse.a.address: h1:x: expected HOST or"),
        (ONE.replace("h1:9000", "h1:99999"), "line 2: clickhouse.a.address: h1:99999: expected"),
        (ONE.replace("h2", ""), "line 4: zookeeper.z.address: : expected HOST or HOST:PORT, suc"),
        (ONE.replace("zookeeper.z", "zookeeper.a"), "a: expected letters, digits, '_', '-' and"),
        (f"{ONE}[clickhouse.b]\naddress = 'h3'\nshard = 3", "clickhouse: shards [1, 3]: expected"),
        (ONE.replace("\n[zoo", "\nshard = true\n[zoo"), "line 3: clickhouse.a.shard: True: expect"),
        (ONE.replace("\n[zoo", "\nsecure = 1\n[zoo"), "clickhouse.a.secure: 1: expected true or"),
        (
            ONE.replace("\n[zoo", "\npassword-in = 'NO_SUCH'\n[zoo"),
            "line 3: clickhouse.a.password-in: NO_SUCH: expected the name of an environment var",
        ),
        (FAULT, "faults.cut.end: None: expected a command as a list of words"),
        (f"{FAULT}end = 'true'", "line 7: faults.cut.end: true: expected a command as a list"),
        (f"{FAULT}end = ['true']\nrole = 'disk'", "line 8: faults.cut.role: disk: expected one"),
        (f"{FAULT}end = ['true']\ntargets = ['leader']", "faults.cut.targets: ['leader']: expect"),
        (f"{FAULT}end = ['true']\ntargets = [['one']]", "faults.cut.targets: [['one']]: expected"),
        (f'{FAULT}end = ["true"]\ngone = ["a\\u0000"]', "line 8: faults.cut.gone: "),
        (f"{FAULT}end = ['true']\ntimeout = 0", "line 8: faults.cut.timeout: 0: expected"),
        (FAULT.replace("cut", "kill"), "line 5: faults.kill: expected letters, digits, '_', '-' a"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place(
    tmp_path: Path, text: str, why: str
) -> None:
    file = tmp_path / "servers.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=rf"^servers {re.escape(str(file))}.*{re.escape(why)}"):
        read_servers(file)


def test_a_file_says_where_servers_are_and_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_PASSWORD", "secret")
    file = tmp_path / "servers.toml"
    file.write_text(
        '[clickhouse.a]\naddress = "[::1]:9440"\nuser = "u"\npassword-in = "OWN_PASSWORD"\n'
        'secure = true\n[clickhouse.b-2]\naddress = "h"\nshard = 2\n[zookeeper.z]\naddress = "z"\n'
    )
    found = read_servers(file)
    assert found.endpoints == {
        "a": Endpoint("::1", 9440, "u", "secret", True),
        "b-2": Endpoint("h", 9000),
        "z": Endpoint("z", 2181),
    }
    assert "secret" not in repr(found)
    assert found.topology.shards == (("a",), ("b-2",))
    assert [(n.role, n.keepers) for n in found.topology.nodes] == [
        (Role.CLICKHOUSE, ("z",)),
        (Role.CLICKHOUSE, ("z",)),
        (Role.ZOOKEEPER, ()),
    ]


def test_the_file_of_the_manual_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CH_PASSWORD", "secret")
    page = (Path(__file__).parent.parent / "docs/external-clusters.md").read_text()
    file = tmp_path / "servers.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0])
    found = read_servers(file)
    assert found.topology.names == ("ch1", "ch2", "zk1")
    assert found.faults["freeze"].targets == ("one", "minority")


def nemesis_of(**given: Any) -> Composed:
    """Return the nemesis of one set of commands."""
    commands = FaultCommands(**{"name": "own", "begin": ("true",), "end": ("true",), **given})
    options = FaultOptions(commands={"own": commands}, seen_within_s=0.3, heal_within_s=0.3)
    return parse_nemesis("own", THREE, Seed(1), options)


def begun(nemesis: Composed, *nodes: str) -> Done:
    return nemesis.invoke(Bare(), op("own", nodes=list(nodes)))


def test_a_fault_of_commands_is_seen_and_healed_where_it_is_in_force(tmp_path: Path) -> None:
    file = str(tmp_path / "{node}")
    nemesis = nemesis_of(begin=("touch", file), end=("rm", file), seen=("test", "-e", file))
    done = begun(nemesis, "ch1", "zk2")
    assert done.kind is Kind.OK, done.error
    assert isinstance(done.value, Mapping)
    assert done.value["text"] == "ch1 zk2"
    assert {one.name for one in tmp_path.iterdir()} == {"ch1", "zk2"}
    (tmp_path / "ch1").unlink()  # so that `rm` would fail there
    assert nemesis.invoke(Bare(), op("own", "end")).kind is Kind.OK
    assert [*tmp_path.iterdir()] == []
    begun(nemesis, "zk2")
    nemesis.heal(Bare())
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"begin": ("sh", "-c", "echo no {node}; exit 3")}, "exit status 3: no ch1"),
        ({"begin": ("no-such-program",)}, "no-such-program cannot be started: No such file"),
        ({"begin": ("sleep", "60"), "timeout_s": 0.1}, "sleep 60: no end within 0.1 s"),
        ({"seen": ("false",)}, "ch1: false: exit status 1"),
    ],
)
def test_a_command_that_fails_makes_no_fault(given: dict[str, Any], text: str) -> None:
    done = begun(nemesis_of(**given), "ch1")
    assert done.kind is Kind.INFO
    assert text in (done.error or "")


def test_a_fault_that_no_command_sees_says_so() -> None:
    done = begun(nemesis_of(), "ch1")
    assert isinstance(done.value, Mapping)
    assert (done.kind, done.value["unseen"]) == (Kind.OK, UNSEEN)


def test_a_heal_names_what_is_still_in_force() -> None:
    nemesis = nemesis_of(seen=("true",))
    assert begun(nemesis, "ch1").kind is Kind.OK
    with pytest.raises(FaultError, match="ch1: own is still in force"):
        nemesis.heal(Bare())


def test_a_fault_is_ended_where_what_looks_for_it_cannot_look(tmp_path: Path) -> None:
    file, away = tmp_path / "{node}", tmp_path / "away"
    looks = f"test -e {away} && exit 255; test -e {file}"
    nemesis = nemesis_of(
        begin=("touch", str(file)), end=("rm", "-f", str(file)), seen=("sh", "-c", looks)
    )
    assert begun(nemesis, "ch1").kind is Kind.OK
    away.touch()
    with pytest.raises(FaultError, match=r"ch1: nothing tells whether own is over: .* status 255"):
        nemesis.heal(Bare())
    assert [*tmp_path.iterdir()] == [away]
    away.unlink()
    nemesis.heal(Bare())


def test_a_fault_is_ended_even_if_it_is_never_seen(tmp_path: Path) -> None:
    file = str(tmp_path / "{node}")
    nemesis = nemesis_of(begin=("touch", file), end=("rm", file), seen=("false",))
    assert begun(nemesis, "ch1", "zk2").kind is Kind.INFO
    assert [*tmp_path.iterdir()] == []
    nemesis.heal(Bare())


@pytest.mark.parametrize("seen", [(), ("test", "-e", "FILE")])
def test_a_node_whose_fault_cannot_be_ended_keeps_no_other_from_it(
    tmp_path: Path, seen: tuple[str, ...]
) -> None:
    file = str(tmp_path / "{node}")
    nemesis = nemesis_of(
        begin=("touch", file),
        end=("sh", "-c", f"test {{node}} != ch1 && rm -f {file}"),
        seen=tuple(word.replace("FILE", file) for word in seen),
    )
    assert begun(nemesis, "ch1", "ch2").kind is Kind.OK
    with pytest.raises(FaultError, match=r"ch1: sh .* exit status 1"):
        nemesis.heal(Bare())
    assert [*tmp_path.iterdir()] == [tmp_path / "ch1"]


def test_a_command_of_its_own_tells_that_a_fault_is_gone(tmp_path: Path) -> None:
    file = str(tmp_path / "{node}")
    nemesis = nemesis_of(begin=("touch", file), end=("true",), gone=("test", "!", "-e", file))
    assert begun(nemesis, "ch1").kind is Kind.OK
    with pytest.raises(FaultError, match="ch1: own is not gone: test ! -e"):
        nemesis.heal(Bare())
    (tmp_path / "ch1").unlink()
    nemesis.heal(Bare())


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    starts = f"setsid sleep 600 & echo $! > {pid}"
    nemesis = nemesis_of(
        begin=("sh", "-c", starts), end=("sh", "-c", f"kill $(cat {pid})"), timeout_s=20.0
    )
    done = begun(nemesis, "ch1")
    assert done.kind is Kind.OK, done.error
    assert nemesis.invoke(Bare(), op("own", "end")).kind is Kind.OK


FREEZE = """
[faults.freeze]
begin = ["docker", "pause", "{cluster}-{{node}}"]
end = ["docker", "unpause", "{cluster}-{{node}}"]
seen = ["sh", "-c", "docker inspect -f '{{{{.State.Paused}}}}' {cluster}-{{node}} | grep true"]
"""


def described(cluster: DockerCluster, path: Path) -> Path:
    """Write the file that describes a cluster as somebody else's."""
    places = {node: cluster.endpoint(node.name) for node in cluster.topology.nodes}
    tables = [
        f'[{node.role}.{node.name}]\naddress = "{own.host}:{own.port}"\n'
        for node, own in places.items()
    ]
    path.write_text("\n".join(tables) + FREEZE.format(cluster=cluster.name))
    return path


def run(store: Path, *words: object) -> "subprocess.Popen[str]":
    """Start a run on servers that somebody else runs."""
    command = [sys.executable, "-m", "harness.cli.main", "run", "--cluster", "external"]
    command += ["--store", str(store), "--seed", "1", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def left_on(cluster: DockerCluster) -> list[str]:
    """Return the databases of runs that are left on the servers."""
    return [
        name
        for node in cluster.topology.replicas
        for (name,) in query(cluster.endpoint(node), "SHOW DATABASES", (str,))
        if name.startswith("harness_2")
    ]


@pytest.mark.containers
def test_servers_of_somebody_else_are_run_judged_and_left_as_they_were(
    servers: DockerCluster, tmp_path: Path
) -> None:
    file = described(servers, tmp_path / "servers.toml")
    timed = ("--time-limit", 8, "--rate", 40, "--interval", 1, "--duration", 2)
    ended = run(tmp_path, "--servers", file, "--nemesis", "freeze", *timed)
    output, _ = ended.communicate(timeout=300)
    assert ended.returncode in (0, 1), output
    directory = RunDirectory((tmp_path / "latest").resolve())
    info = directory.info()
    assert info.engines.nodes["ch1"].version == servers.versions()["ch1"]
    faults = [one for one in directory.history().nemesis if one.f == "freeze"]
    assert any(one.kind is Kind.OK for one in faults)
    verdicts = {
        one["checker"]: one["status"]
        for one in json.loads(directory.results_file.read_text())["verdicts"]
    }
    assert verdicts["convergence"] == "VALID"
    assert "freeze" in directory.report.read_text()
    assert left_on(servers) == []
    assert not servers.unready()


@pytest.mark.containers
def test_an_interrupt_in_mid_fault_heals_servers_of_somebody_else(
    servers: DockerCluster, tmp_path: Path
) -> None:
    file = described(servers, tmp_path / "servers.toml")
    process = run(
        tmp_path, "--servers", file, "--nemesis", "freeze", "--interval", 0.5, "--duration", 60
    )

    def frozen() -> bool:
        paused = ("--filter", f"name={servers.name}-", "--filter", "status=paused")
        argv = ("docker", "ps", "-q", *paused)
        return bool(subprocess.run(argv, capture_output=True, check=True).stdout)

    wait_until(frozen, "a server is paused", 120, during=process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=180)
    assert not frozen()
    assert left_on(servers) == []


@pytest.mark.containers
def test_clusters_that_servers_of_somebody_else_do_not_define_are_named(
    servers: DockerCluster, tmp_path: Path
) -> None:
    found = read_servers(described(servers, tmp_path / "servers.toml")).cluster()
    assert found.lacking(["harness", "harness_each"]) == []
    assert found.lacking(["harness", "theirs"]) == [
        f"{node} has no cluster theirs" for node in ("ch1", "ch2", "ch3")
    ]


@pytest.mark.containers
def test_what_servers_of_somebody_else_lack_is_refused_before_the_run(
    servers: DockerCluster, tmp_path: Path
) -> None:
    file = described(servers, tmp_path / "servers.toml")
    refusals = {
        ("--nemesis", "kill"): "nemesis kill: cluster external lacks CanKill",
        ("--replicas", "2"): "--replicas 2: --cluster external does not start servers",
        ("--storage", "faulty"): "--storage faulty: --cluster external has no containers",
        ("--fsync", "all"): "--fsync all: --cluster external does not start servers",
        ("--workload", "zero-copy"): "workload zero-copy: this cluster has no object store",
        ("--workload", "config-reload"): "workload config-reload: cluster external lacks CanConf",
        ("--nemesis", "frieze"): "nemesis 'frieze' is unknown",
    }
    for words, why in refusals.items():
        ended = run(tmp_path, "--servers", file, *words)
        output, _ = ended.communicate(timeout=120)
        assert ended.returncode == 254
        assert why in " ".join(output.split()).replace(" │ │ ", " ")
    assert run(tmp_path).communicate(timeout=60)[0].count("expected with --servers FILE")
