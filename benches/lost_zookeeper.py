"""What becomes of tables and databases when ZooKeeper loses its data, or gets an older copy back.

    python -m benches.lost_zookeeper --clickhouse 25.8 --store DIR [--ends lost,rewound]
        [--only KeeperMap]

Every case is a database of its own on one cluster. ZooKeeper's data is copied, each case changes
something, and the copy is put back; or the data is removed. Then what an operator may do is tried,
one step after the other, and after each one every replica is asked what it shows.
"""

import argparse
import time
from collections.abc import Sequence
from textwrap import shorten
from typing import Final

from benches.bench_cluster import bench_cluster
from benches.lost_zookeeper_cases import CASES, EACH, ENDS, REWOUND, Case, Step
from benches.recovery import until
from compose.releases import ImageChoice
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.replica import execute, query_value
from harness.core.capabilities import CanKill, CanReplaceDisks
from harness.core.errors import ClusterError
from harness.core.protocols import Cluster

STATEMENT_S: Final = 30.0
LOOK_S: Final = 5.0
SETTLED_S: Final = 3.0
"""Time after a try for what the servers do in the background."""
SESSION_S: Final = 60.0
SETTINGS: Final[dict[str, int | str]] = {
    "allow_experimental_database_replicated": 1,
    "distributed_ddl_task_timeout": 10,
    "mutations_sync": 1,
}


def _replicas(cluster: Cluster, step: Step) -> Sequence[str]:
    """Return the replicas on which a step is made."""
    return cluster.topology.replicas if step.node == EACH else [step.node]


def act(cluster: Cluster, database: str, step: Step) -> Sequence[str]:
    """Make a step; return how it ended on each replica where it failed."""
    ends = []
    for node in _replicas(cluster, step):
        sql = filled(step.sql, database, node)
        try:
            if sql == "RESTART SERVER":
                cluster.part(CanKill).kill([node])
                cluster.part(CanKill).start([node])
            elif sql.startswith("MOVE "):
                move(cluster, database, node, *sql.split()[1:])
            else:
                execute(cluster.endpoint(node), sql, settings=SETTINGS, timeout_s=STATEMENT_S)
        except ClusterError as error:
            what = str(error).partition(": ")[2]
            ends.append(f"{node}: {shorten(what, 260, placeholder=' …')}")
    return ends


def filled(sql: str, database: str, node: str) -> str:
    """Return a statement for one replica."""
    number = int(node.removeprefix("ch"))
    return sql.format(db=database, path=f"/harness/{database}", node=node, number=number)


def move(cluster: Cluster, database: str, node: str, old: str, new: str) -> None:
    """Rename a directory of a detached part of table t. Raises ClusterError."""
    sql = f"SELECT data_paths[1] FROM system.tables WHERE database = '{database}' AND name = 't'"
    below = query_value(cluster.endpoint(node), sql, str).partition("/store/")[2]
    assert isinstance(cluster, DockerCluster), "the pods see the disks"
    containers = cluster._containers  # no capability renames files
    for pod in containers.plan.pods:
        for disk in pod.data if pod.node.name == node else ():
            at = f"{disk}/store/{below}detached"
            containers.agents[node].run("mv", f"{at}/{old}", f"{at}/{new}")


def look(cluster: Cluster, case: Case, database: str) -> None:
    """Print what each replica shows."""
    for name, sql in case.looks:
        shown: dict[str, list[str]] = {}
        for node in cluster.topology.replicas:
            try:
                text = str(
                    query_value(cluster.endpoint(node), filled(sql, database, node), str, LOOK_S)
                )
            except ClusterError as error:
                text = shorten(str(error).rpartition(": ")[2], 200, placeholder=" …")
            shown.setdefault(text or "none", []).append(node)
        said = "; ".join(f"{' '.join(nodes)}: {text}" for text, nodes in shown.items())
        print(f"    {name}: {said}", flush=True)


def take(cluster: Cluster, end: str, cases: Sequence[tuple[Case, str]]) -> None:
    """Change what the cases change, and take ZooKeeper's data away or put the copy back."""
    keepers, kill = cluster.topology.keepers, cluster.part(CanKill)
    disks = cluster.part(CanReplaceDisks)
    if end == REWOUND:
        kill.kill(keepers)
        disks.back_up_disks(keepers)
        kill.start(keepers)
        wait_for_sessions(cluster)
    for case, database in cases:
        for step in case.later:
            for why in act(cluster, database, step):
                print(f"{case.name}: {step.sql}: {why}", flush=True)
    kill.kill(keepers)
    if end == REWOUND:
        disks.restore_disks(keepers)
    else:
        disks.empty_disks(keepers, parts_only=False)
    kill.start(keepers)
    wait_for_sessions(cluster)


def wait_for_sessions(cluster: Cluster) -> None:
    """Wait until every replica reads ZooKeeper again. Raises ClusterError."""
    sql = "SELECT count() FROM system.zookeeper WHERE path = '/'"

    def reads(node: str) -> bool:
        try:
            return bool(query_value(cluster.endpoint(node), sql, int, LOOK_S))
        except ClusterError:
            return False

    for node in cluster.topology.replicas:
        until(lambda: reads(node), SESSION_S, f"{node} has no session")  # noqa: B023 # used at once
    time.sleep(SETTLED_S)


def play(cluster: Cluster, end: str, cases: Sequence[Case], version: str) -> None:
    """Play the cases with one end of ZooKeeper's data. Raises ClusterError."""
    named = [(case, f"harness_{number}") for number, case in enumerate(cases)]
    for case, database in named:
        for step in case.before:
            for why in act(cluster, database, step):
                print(f"{case.name}: {step.sql}: {why}", flush=True)
    take(cluster, end, named)
    for case, database in named:
        print(f"{version}, {end}: {case.name}", flush=True)
        look(cluster, case, database)
        for one in case.tries:
            ends = [why for step in one.steps for why in act(cluster, database, step)]
            time.sleep(SETTLED_S)
            print(f"  {one.name}: {'; '.join(ends) or 'done'}", flush=True)
            look(cluster, case, database)


def main() -> None:
    """Play every case on a cluster for each end of ZooKeeper's data."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--clickhouse", default=ImageChoice().clickhouse)
    parser.add_argument("--store", required=True)
    parser.add_argument("--ends", default=",".join(ENDS))
    parser.add_argument("--only", default="", help="cases whose names contain one of these")
    options = parser.parse_args()
    for end in options.ends.split(","):
        with bench_cluster(options.store, options.clickhouse) as cluster:
            words = options.only.split(",")
            chosen = [
                case
                for case in CASES
                if end in case.ends and any(word in case.name for word in words)
            ]
            play(cluster, end, chosen, options.clickhouse)


if __name__ == "__main__":
    main()
