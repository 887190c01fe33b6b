"""Reads the trees of all ZooKeeper servers at rest, as they show them and as they have stored them,
for the checker `trees`."""

import time
from collections.abc import Mapping
from typing import Final

from checkers.trees import NOTHING, ServerTree, TreeDifference, TreeReport, runs_of
from harness.clusters.parallel import on_each
from harness.conform.keeper_disk import KeeperDisk, committed, read_disk
from harness.conform.keeper_tree import KeeperNode, KeeperTree, read_nodes, read_tree
from harness.conform.txnlog import ChangeKind
from harness.core.errors import ClusterError, HarnessError
from harness.core.protocols import Cluster
from harness.core.record_capabilities import KeepsErrors, KeepsTransactions

SETTLE_S: Final = 10.0
"""Time for servers to show the same, after which a node that still changes is left out."""
PAUSE_S: Final = 0.1
"""Pause before nodes that still change are read again."""
PATHS_MAX: Final = 20
"""Number of nodes of each kind that are told."""
OWN: Final = "/zookeeper"
"""Path of the nodes that a server makes itself, also where no log has them."""


def asked(cluster: Cluster) -> TreeReport | None:
    """Return how the servers' trees and logs compare now; None where there are none to read. A
    server that cannot be read is left out, with the reason."""
    if not (cluster.has(KeepsTransactions) and cluster.has(KeepsErrors)):
        return None
    keepers, unread = cluster.topology.keepers, dict[str, str]()

    def shown(node: str) -> KeeperTree | str:
        try:
            return read_tree(cluster.endpoint(node))
        except ClusterError as error:
            return str(error)

    read = on_each(keepers, shown)
    trees = {node: tree for node, tree in read.items() if isinstance(tree, KeeperTree)}
    unread |= {node: why for node, why in read.items() if isinstance(why, str)}
    differences, moving = _differences(cluster, trees)
    disks = dict[str, KeeperDisk]()
    try:
        for node, packed in cluster.part(KeepsTransactions).transactions().items():
            disks[node] = read_disk(packed, node)
        happened = committed([*disks.values()], len(keepers))
    except HarnessError as error:
        unread["logs"], happened = str(error), []
    servers, versions = {}, cluster.versions()
    for node in [*trees]:
        disk = disks.get(node)
        if disk is None:
            unread.setdefault(node, "its log was not read")
            continue
        try:
            other = _stored_otherwise(trees[node], disk)
        except HarnessError as error:
            unread[node] = str(error)
            other = []
        servers[node] = ServerTree(
            nodes=len(trees[node].nodes),
            records=len(disk.records),
            missing=runs_of(disk.missing(happened)),
            unlogged=trees[node].zxid > disk.last,
            stored_otherwise=other[:PATHS_MAX],
            version=versions.get(node, ""),
            untruncated=untruncated(node, trees, disks)[:PATHS_MAX],
            forgotten=forgotten(node, trees, disks)[:PATHS_MAX],
        )
    return TreeReport(servers, differences[:PATHS_MAX], moving, unread)


def _differences(
    cluster: Cluster, trees: Mapping[str, KeeperTree]
) -> tuple[list[TreeDifference], list[str]]:
    """Return the nodes that servers show differently, twice and each time after a sync, and those
    that went on changing."""
    shown = {node: dict(tree.nodes) for node, tree in trees.items()}
    until = time.monotonic() + SETTLE_S
    paths = _unequal(shown)
    stable = set[str]()
    while paths - stable and time.monotonic() < until:
        try:
            again = {
                node: dict(read_nodes(cluster.endpoint(node), sorted(paths))) for node in shown
            }
        except ClusterError:
            break
        unequal = _unequal(again)
        stable = {
            path
            for path in unequal
            if all(again[node].get(path) == shown[node].get(path) for node in shown)
        }
        shown, paths = again, unequal
        time.sleep(PAUSE_S if paths - stable else 0)
    told = [
        TreeDifference(path, {node: _words(of_node.get(path)) for node, of_node in shown.items()})
        for path in sorted(stable & paths)
    ]
    return told, sorted(paths - stable)[:PATHS_MAX]


def _unequal(shown: Mapping[str, Mapping[str, KeeperNode]]) -> set[str]:
    """Return the paths that not all servers show alike."""
    first, *others = [*shown.values()] or [{}]
    everything = first.keys() | {path for other in others for path in other}
    return {
        path for path in everything if any(other.get(path) != first.get(path) for other in others)
    }


def untruncated(
    server: str, trees: Mapping[str, KeeperTree], disks: Mapping[str, KeeperDisk]
) -> list[str]:
    """Return the paths of the nodes that a server alone shows, by transactions that no log has
    although its own has earlier and later ones."""
    own = [txn.zxid for txn in disks[server].records]
    logged = {txn.zxid for disk in disks.values() for txn in disk.records}
    others = [tree.nodes for node, tree in trees.items() if node != server]
    return [
        path
        for path, node in trees[server].nodes.items()
        if own
        and min(own) < node.created < max(own)
        and node.created not in logged
        and not any(path in other for other in others)
    ]


def forgotten(
    server: str, trees: Mapping[str, KeeperTree], disks: Mapping[str, KeeperDisk]
) -> list[str]:
    """Return the paths of the nodes that only one server's log creates, before other transactions,
    and that no server shows; of those that are removed later nothing is known."""
    others = {txn.zxid for node, disk in disks.items() if node != server for txn in disk.records}
    last = max((txn.zxid for txn in disks[server].records), default=0)
    alone = {
        change.path: txn.zxid
        for txn in disks[server].records
        for change in txn.changes
        if change.kind is ChangeKind.CREATE and txn.zxid not in others and txn.zxid < last
    }
    removed = {
        change.path
        for disk in disks.values()
        for txn in disk.records
        for change in txn.changes
        if change.kind is ChangeKind.DELETE
    }
    shown = {path for tree in trees.values() for path in tree.nodes}
    return sorted(alone.keys() - removed - shown)


def _words(node: KeeperNode | None) -> str:
    if node is None:
        return NOTHING
    owner = f", of session {node.session:#x}" if node.session else ""
    return (
        f"version {node.version} of {node.changed:#x} ({node.data:08x}), {node.child_version} "
        f"changes of its children up to {node.children_changed:#x}{owner}"
    )


def _stored_otherwise(tree: KeeperTree, disk: KeeperDisk) -> list[str]:
    """Return the paths that the server shows in another way than it would after a restart. Raises
    HarnessError."""
    stored, later = disk.tree(tree.zxid)
    found = []
    for path in sorted(tree.nodes.keys() | stored.keys()):
        node, own = tree.nodes.get(path), stored.get(path)
        fresh = node is not None and max(node.created, node.changed) > tree.zxid
        if fresh or path in later or path == "/" or path.startswith(OWN):
            continue
        if node is None or own is None or node.data != own.data:
            found.append(path)
    return found
