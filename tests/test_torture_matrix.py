"""The matrix of a torture: what a file may say, and the cells that it makes."""

import re
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.nights.matrix import read_matrix
from harness.nights.rota import Rota
from harness.nights.torture import Lane
from harness.run.monitor import show_nothing
from harness.run.stop import Stop
from harness.spec.catalogue import WORKLOADS
from nemesis.catalogue import NEMESES
from workloads.scenarios.catalogue import SCENARIOS

ROOT = Path(__file__).parent.parent
QUORUM_SET = 'workloads = ["quorum-set"]\nnemeses = ["none"]\n'


def test_the_nightly_leaves_out_only_faults_of_scripts_and_of_simulated_servers():
    cells = read_matrix(ROOT / "nightly.toml").cells
    runs = [cell.options for cell in cells if not cell.scenario]
    assert {options["workload"] for options in runs} == set(WORKLOADS)
    assert {cell.scenario for cell in cells if cell.scenario} == set(SCENARIOS)
    named = {name for options in runs for name in options["nemesis"].split(",")}
    left = {
        name
        for name in NEMESES
        if not any(one.startswith(name) or name.startswith(f"{one}-") for one in named)
    }
    scripted = {"message-hold", "fetch-hold-second", "keeper-lost", "keeper-rewound"}
    assert left == {*scripted, "slow-fetches"}


def test_a_group_accepts_what_the_top_accepts_and_more(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text(
        f"accept = ['stale-read']\n{QUORUM_SET}[groups.a]\nscenarios = ['lost-retry']\n"
        "accept = ['ddl-twice']\n"
    )
    accepted = {cell.name: sorted(cell.accepted) for cell in read_matrix(file).cells}
    assert accepted == {
        "quorum-set + none": ["stale-read"],
        "scenario lost-retry": ["ddl-twice", "stale-read"],
    }


@pytest.mark.parametrize("name", ["smoke.toml", "nightly.toml"])
def test_the_ready_matrices_settle(name, tmp_path):
    matrix = read_matrix(ROOT / name)
    settled, missing = matrix.settled(str(tmp_path), show_nothing, Stop())
    others = [name for name, why in missing.items() if why != "lightweight updates"]
    assert all(name.startswith("scenario two-leaders on ") for name in others)
    assert all(name.endswith(" on 24.8") for name in missing.keys() - others)
    names = [cell.name for cell in matrix.cells if cell.name not in missing]
    assert [cell.name for cell in settled] == names
    assert len({cell.name for cell in settled}) == len(settled) >= 6


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("workloads = 3", "line 1: workloads: 3: expected a list of names"),
        ('workloads = ["a", "a"]\nnemeses = ["none"]', "a name is repeated"),
        ("speed = 1", "line 1: speed: 'speed' is unknown; did you mean seed? expected one of"),
        ("= 1", "is not TOML"),
        ('workloads = ["quorum-sett"]', "line 1: workloads: 'quorum-sett' is unknown; did you"),
        (f"{QUORUM_SET}[options]\nseed = 1", "line 4: options.seed: is not an option of a cell"),
        (f"{QUORUM_SET}[options]\nhelp = true", "line 4: options.help: 'help' is unknown"),
        (f"{QUORUM_SET}[options]\nversion = 1", "line 4: options.version: 'version' is unknown"),
        (f"{QUORUM_SET}[options]\njson = true", "line 4: options.json: is not an option of a cell"),
        (f"{QUORUM_SET}[options]\ntimelimit = 1", "'timelimit' is unknown; did you mean time-l"),
        (f"{QUORUM_SET}[options]\nrate = true", "line 4: options.rate: True: expected a number"),
        (
            f"{QUORUM_SET}[options]\nrate = nan",
            "options.rate: nan: expected a number of operations",
        ),
        (f"{QUORUM_SET}[options]\nread = 3", "line 4: options.read: 3: expected text"),
        (
            f"{QUORUM_SET}[options]\ncluster = 'x'",
            "line 4: options.cluster: 'x' is unknown; expected one of docker, auto, external, sim",
        ),
        (f"{QUORUM_SET}[options]\nrate = {{ a = 1 }}", "rate: {'a': 1}: expected a number"),
        (f"{QUORUM_SET}[settings]\na = 3", "line 4: settings.a: 3: expected a table"),
        (f"{QUORUM_SET}[options]\nrate = 1\n[settings.a]\nrate = 0", "line 6: settings.a.rate: 0"),
        (f"{QUORUM_SET}clickhouse = '25.8'", "line 3: clickhouse: 25.8: expected a list of names"),
        (f"{QUORUM_SET}clickhouse = ['19.1']", "line 3: clickhouse: version '19.1': no such vers"),
        (
            f"{QUORUM_SET}clickhouse = ['25.8', '25.8.2.1']",
            "line 3: clickhouse: 25.8 and 25.8.2.1 are the same version",
        ),
        (
            f"{QUORUM_SET}clickhouse = ['25.8']\n[settings.a]\nclickhouse = '24.8'",
            "line 5: settings.a.clickhouse: the list clickhouse of the matrix decides",
        ),
        (
            f"{QUORUM_SET}accept = ['dirty-reed']",
            "line 3: accept: 'dirty-reed' is unknown; did you mean dirty-read? see `harness list",
        ),
        ("groups = 3", "line 1: groups: expected tables such as [groups.disks]"),
        ("[groups]\na = 3", "line 2: groups.a: 3: expected a table"),
        ("[groups.a]\nseed = 3", "line 2: groups.a.seed: 'seed' is unknown; expected one of"),
        ("[groups.a]\nworkloads = ['merges']", "groups.a.nemeses: None: expected a list of"),
        (
            "[groups.a]\nscenarios = ['lost-retri']",
            "line 2: groups.a.scenarios: scenario 'lost-retri' is unknown; did you mean lost-retry",
        ),
        (
            "[groups.a]\nscenarios = 'all'\n[groups.b]\nscenarios = ['lost-retry']",
            "line 3: groups.b: has the cell scenario lost-retry, and so has a group before it",
        ),
        (
            "[groups.a]\nworkloads = ['merges']\nnemeses = ['none']\n[groups.a.options]\nrat = 3",
            "line 5: groups.a.options.rat: 'rat' is unknown; did you mean rate",
        ),
        (f"{QUORUM_SET}seed = true", "line 3: seed: True: expected a number below"),
        (f"{QUORUM_SET}seed = {'9' * 5_000}", "is not TOML: Exceeds the limit"),
        (f"{QUORUM_SET}seed = {'[' * 5_000}", "is nested too deeply"),
        ("#" * (1 << 20) + "#", "is longer than 1,048,576 bytes"),
    ],
)
def test_a_matrix_that_is_wrong_is_refused(tmp_path, text, why):
    file = tmp_path / "m.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=rf"^matrix {re.escape(str(file))}.*{re.escape(why)}"):
        read_matrix(file)


def test_a_matrix_that_is_no_file_is_refused():
    with pytest.raises(UsageError, match="matrix /dev/zero: is not a file"):
        read_matrix(Path("/dev/zero"))


def test_a_list_of_a_cell_is_one_list_of_the_run(tmp_path):
    file = tmp_path / "m.toml"
    lists = 'nodes = ["ch1", "ch3"]\noption = ["keys=2", "writers=1"]\n'
    file.write_text(f"{QUORUM_SET}[options]\n{lists}")
    (cell,) = read_matrix(file).cells
    assert cell.options == {
        "workload": "quorum-set", "nemesis": "none", "nodes": ("ch1", "ch3"),
        "option": ("keys=2", "writers=1"),
    }  # fmt: skip


def test_a_cell_that_cannot_be_run_is_named(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text('workloads = ["quorum-set"]\nnemeses = ["none"]\n[options]\nquorum = 9')
    with pytest.raises(UsageError, match=r"m\.toml: cell quorum-set \+ none: --quorum 9"):
        read_matrix(file).settled(str(tmp_path), show_nothing, Stop())


VERSIONS = """
clickhouse = ["18.16", "25.8"]
workloads = ["quorum-set", "merges"]
nemeses = ["none", "kill-clickhouse-leader"]
"""


def test_versions_are_a_dimension_and_share_no_cluster(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text(VERSIONS)
    matrix = read_matrix(file)
    settled, missing = matrix.settled(str(tmp_path), show_nothing, Stop())
    names = [
        f"{workload} on {version} + {nemesis}"
        for version in ("18.16", "25.8")
        for workload in ("quorum-set", "merges")
        for nemesis in ("none", "kill-clickhouse-leader")
    ]
    leader = "a single leading replica per table"
    assert [cell.name for cell in matrix.cells] == names
    assert missing == {name: leader for name in names if "25.8 + kill" in name}
    assert [cell.name for cell in settled] == [name for name in names if name not in missing]
    by_cluster = {cell.cluster: set() for cell in settled}
    for cell in settled:
        by_cluster[cell.cluster].add(cell.spec(Seed(1)).command.partition("--clickhouse ")[2][:5])
    assert list(by_cluster.values()) == [{"18.16"}, {"25.8 "}]
    lane = Lane(settled, cluster=object(), on=settled[0])
    assert [lane.fits(cell) for cell in settled] == ["on 18.16" in cell.name for cell in settled]


GROUPS = """
clickhouse = ["25.8"]
[options]
rate = 40
time-limit = 12
[groups.disks]
workloads = ["quorum-durability"]
nemeses = ["power-cut", "disk-full"]
[groups.disks.options]
storage = "faulty"
rate = 20
[groups.known]
clickhouse = ["18.16", "24.8"]
scenarios = ["lost-retry", "two-leaders"]
"""


def test_groups_are_products_of_their_own_and_inherit_options_and_versions(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text(GROUPS)
    matrix = read_matrix(file)
    settled, missing = matrix.settled(str(tmp_path), show_nothing, Stop())
    assert [cell.name for cell in matrix.cells] == [
        "quorum-durability on 25.8 + power-cut",
        "quorum-durability on 25.8 + disk-full",
        "scenario lost-retry on 18.16",
        "scenario two-leaders on 18.16",
        "scenario lost-retry on 24.8",
        "scenario two-leaders on 24.8",
    ]
    assert [*missing] == ["scenario two-leaders on 24.8"]
    plans = {cell.name: cell.spec(Seed(3)) for cell in settled}
    power = plans["quorum-durability on 25.8 + power-cut"]
    assert (power.rate, power.time_limit_s, power.storage) == (20, 12, "faulty")
    played = plans["scenario two-leaders on 18.16"]
    assert (played.workload, played.seed) == ("scenario-two-leaders", Seed(3))
    assert played.command.endswith("two-leaders --clickhouse 18.16 --zookeeper 3.8")
    assert len({cell.cluster for cell in settled}) == 3


def test_a_matrix_of_all_scenarios_has_each_once(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text('scenarios = "all"')
    assert [cell.scenario for cell in read_matrix(file).cells] == [*SCENARIOS]


def test_a_night_begins_where_the_last_one_ended():
    assert Rota(["a", "b", "c"], first="c").next([]) == 2
    assert Rota(["a", "b", "c"], first="gone").next([]) == 0


def test_a_cell_whose_tables_are_on_an_object_store_shares_no_cluster_with_others(tmp_path):
    file = tmp_path / "m.toml"
    file.write_text('workloads = ["quorum-set", "merges", "zero-copy"]\nnemeses = ["none"]')
    settled, _ = read_matrix(file).settled(str(tmp_path), show_nothing, Stop())
    first, second, stored = (cell.cluster for cell in settled)
    assert first == second != stored


def test_cells_whose_servers_are_started_otherwise_share_no_cluster(tmp_path):
    file = tmp_path / "m.toml"
    nemeses = '["none", "kill", "reconfig", "clock-jump"]'
    file.write_text(
        f'[groups.plain]\nworkloads = ["quorum-set"]\nnemeses = {nemeses}\n'
        '[groups.disks]\nworkloads = ["replication"]\nnemeses = ["none"]\n'
        'options = { storage = "faulty" }\n'
    )
    settled, _ = read_matrix(file).settled(str(tmp_path), show_nothing, Stop())
    plain, killed, *others = (cell.cluster for cell in settled)
    assert plain == killed
    assert len({plain, *others}) == 4
