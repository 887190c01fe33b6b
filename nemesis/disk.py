"""Faults of disks: power cuts, and a disk that is full, failing, slow, read-only or rotten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.core.capabilities import CanCutPower, CanKill, HasFaultyDisks, ReportsLeader
from harness.core.disk_loss import Takes
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.family import Needs, NotBegunError, Watch, names
from nemesis.fault import Aim, FaultChoice, FaultEntry
from nemesis.node_fault import NodeFault
from nemesis.options import ROLES, TARGETS
from nemesis.process import Kill, not_running, start

SLOW_MS: Final = 20
"""Delay of every read, write and fsync of a slow disk: an insert then takes about a second."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """How a kind of fault shows to a program on the disk."""

    request: str
    """Request of a probe: "write", "sync" or "read"."""
    error: str
    """Error that it gets; "" for a delay."""


_SYMPTOMS: Final[Mapping[str, Symptom | None]] = {
    "full": Symptom("write", "ENOSPC"),
    "readonly": Symptom("write", "EROFS"),
    "slow": Symptom("read", ""),
    "fail-reads": Symptom("read", "EIO"),
    "fail-writes": Symptom("write", "EIO"),
    "fail-sync": None,  # a probe would use it up
    "fail-log": None,  # a probe's file is none of the log
    "slow-log": None,
}
"""Symptoms by the kind of fault."""

VARIANTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "disk-full": ("a disk has no free space", ("full",)),
    "disk-eio": (
        "one of the next three, drawn for each fault",
        ("fail-reads", "fail-writes", "fail-sync"),
    ),
    "disk-eio-reads": ("reads from a disk fail with EIO", ("fail-reads",)),
    "disk-eio-writes": ("writes to a disk fail with EIO", ("fail-writes",)),
    "disk-eio-fsync": (
        "one fsync fails with EIO, and what it should have written counts as written",
        ("fail-sync",),
    ),
    "disk-eio-log": (
        "writes of a ZooKeeper server's log fail with EIO, as if it were on a disk of its own",
        ("fail-log",),
    ),
    "disk-slow-log": (
        f"each write and fsync of a ZooKeeper server's log takes {SLOW_MS} ms longer",
        ("slow-log",),
    ),
    "disk-slow": (f"each read, write and fsync of a disk takes {SLOW_MS} ms longer", ("slow",)),
    "disk-readonly": ("a disk is read-only", ("readonly",)),
}
"""Description and kinds of faults, by name."""

FLIPPED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "clickhouse": {
        "data": (".bin",),
        "marks": (".mrk", ".mrk2", ".mrk3", ".cmrk2", ".cmrk3"),
        "checksums": ("checksums.txt",),
        "columns": ("columns.txt",),
        "count": ("count.txt",),
        "index": ("primary.idx", "primary.cidx"),
    },
    "zookeeper": {"log": ("log.*",), "snapshot": ("snapshot.*",)},
}
"""Endings of the files whose bits are flipped, by kind, by role. "log.*" is a beginning."""
_BELOW: Final = ("/data/", "/store/", "/version-2/")
_WITHOUT: Final = ("/tmp_", "/detached/", "/delete_tmp_")  # noqa: S108 # in a server's data
"""Words of the paths of such files, and words that they do not have."""


class PowerCut(Kill):
    """Family of power cuts: SIGKILL and the loss of what is not durable, then start.

    Two files on each disk, of which one was synced, show that the cut lost what it should.
    """

    takes = Takes.UNSYNCED

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        everywhere = self.f != "power-cut" or any(s.role != "zookeeper" for s in choice.specs)
        self.needs = (*self.needs, CanCutPower, *((HasFaultyDisks,) if everywhere else ()))
        self._seed = 0
        self._wrong: tuple[str, ...] = ()
        self._lost: Mapping[str, Mapping[str, Json]] = {}

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return also the seed that decides what survives a torn write."""
        return {**super().plan(seed, turn), "seed": seed.child("torn", turn).below(0, 2**32)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Cut the power of the planned nodes; say what was lost."""
        given = plan.get("seed", 0)
        assert isinstance(given, int), "the plan of this family has a number"
        self._seed = given
        done = super().begin(cluster, plan, watch)
        lost = {node: dict(what) for node, what in self._lost.items()}
        done["fsync"] = cluster.part(CanCutPower).synced()
        return {**done, "lost": lost, "text": f"{done['text']}: {_losses(self._lost)}"}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        torn = self.f == "power-cut-torn"
        seeds = {node: self._seed + at for at, node in enumerate(nodes)} if torn else {}
        self._lost = cluster.part(CanCutPower).cut_power(nodes, seeds)
        wrong = []
        for node, lost in self._lost.items():
            if not lost["synced"]:
                wrong.append(f"disk of {node}: a synced file has lost its content")
            if lost["unsynced"] and not torn:
                wrong.append(f"disk of {node}: a file that was not synced has kept its content")
        self._wrong = tuple(wrong)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [*super()._unverified(cluster, nodes), *self._wrong]


class DiskFault(NodeFault):
    """Family of one fault of disks. Servers that it ends are started when it ends."""

    needs: Needs = (HasFaultyDisks, CanKill, ReportsLeader)
    heal_rank = 2
    """Healed after links and paused processes, and before killed ones, whose starts need disks."""

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._kind = VARIANTS[self.f][1][0]
        self._delay_ms = SLOW_MS

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return also the kind of the fault; what cannot be read is taken."""
        kind = seed.child("kind").choice(turn, VARIANTS[self.f][1])
        takes = {"takes": Takes.UNREADABLE.value} if kind == "fail-reads" else {}
        return {**super().plan(seed, turn), "kind": kind, **takes}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Make the disks of the planned nodes fail, and see it in a probe's request. A script's
        plan may have the delay of a slow disk."""
        self._kind = str(plan.get("kind", self._kind))
        delay_ms = plan.get("delay_ms", SLOW_MS)
        assert isinstance(delay_ms, int), "a delay is a number of milliseconds"
        self._delay_ms = delay_ms
        done = super().begin(cluster, plan, watch)
        return {**done, "text": f"{done['text']}: {self._kind}"}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        fault: Mapping[str, Json] = {"kind": self._kind, "delay_ms": self._delay_ms}
        cluster.part(HasFaultyDisks).set_disk_fault(nodes, self.f, fault)

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        return [
            f"disk of {node}: no {self._kind} is seen"
            for node in nodes
            if not self._seen(cluster, node)
        ]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(HasFaultyDisks).clear_disk_fault(nodes, self.f)
        start(cluster, self._topology, nodes)

    def _note(self, cluster: Cluster, nodes: Sequence[str]) -> str:
        hits = [_hits(cluster, node).get(self.f, 0) for node in nodes]
        ended = [node for node in nodes if not cluster.part(CanKill).running(node)]
        struck = f": requests struck: {' '.join(map(str, hits))}" if nodes else ""
        return f"{struck}; {names(ended)} had ended" if ended else struck

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        failing = [
            f"disk of {node}: {self.f} goes on"
            for node in nodes
            if self.f in _hits(cluster, node) or self._shows(cluster, node)
        ]
        return [*failing, *not_running(cluster, nodes)]

    def _seen(self, cluster: Cluster, node: str) -> bool:
        """Return whether the fault shows to a probe; if no probe can see it, whether the disk has
        it."""
        in_force = self.f in _hits(cluster, node)
        return in_force if _SYMPTOMS[self._kind] is None else self._shows(cluster, node)

    def _shows(self, cluster: Cluster, node: str) -> bool:
        symptom = _SYMPTOMS[self._kind]
        if symptom is None:
            return False
        met = cluster.part(HasFaultyDisks).probe_disk(node)[symptom.request]
        took = met["ms"]
        assert isinstance(took, int), "the probe measures milliseconds"
        return met["error"] == symptom.error if symptom.error else took >= SLOW_MS


class DiskFlip(NodeFault):
    """Family of flipped bits, one on each disk.

    They are flipped back when the fault ends unless the server has removed or written them since.
    Servers that ended are started.
    """

    needs: Needs = (HasFaultyDisks, CanKill, ReportsLeader)
    takes = Takes.UNREADABLE
    heal_rank = 2

    def __init__(self, choice: FaultChoice) -> None:
        super().__init__(choice)
        self._seed = Seed(0)
        self._found: dict[str, Mapping[str, Json]] = {}

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:
        """Return also the seed that chooses files and bits."""
        return {**super().plan(seed, turn), "seed": seed.child("bits", turn).below(0, 2**32)}

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Flip a bit on the disks of the planned nodes, and read it back."""
        given = plan.get("seed", 0)
        assert isinstance(given, int), "the plan of this family has a number"
        self._seed = Seed(given)
        self._found = {}
        done = super().begin(cluster, plan, watch)
        where = ", ".join(
            f"{n} {what['file']} at {what['offset']}" for n, what in self._found.items()
        )
        return {**done, "flipped": dict(self._found), "text": where}

    def _inject(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        for node in nodes:
            role = "zookeeper" if node in self._topology.keepers else "clickhouse"
            own = self._seed.child(node)
            for kind in own.shuffled(0, tuple(FLIPPED[role])):
                files = {"below": _BELOW, "endings": FLIPPED[role][kind], "without": _WITHOUT}
                found = cluster.part(HasFaultyDisks).flip_bit(node, files, own.below(1, 2**32))
                if isinstance(found, Mapping):
                    self._found[node] = {**found, "kind": kind}
                    break
        if not self._found:
            raise NotBegunError(f"{names(nodes)}: no file to flip a bit of")

    def _unverified(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return [
            f"disk of {node}: {what['file']} at {what['offset']} is read as {what['read']}, not "
            f"as {what['byte']}"
            for node, what in self._found.items()
            if what["read"] != what["byte"]
        ]

    def _revert(self, cluster: Cluster, nodes: Sequence[str]) -> None:
        cluster.part(HasFaultyDisks).restore_bits(nodes)
        start(cluster, self._topology, nodes)

    def _remaining(self, cluster: Cluster, nodes: Sequence[str]) -> Sequence[str]:
        flips = {node: cluster.part(HasFaultyDisks).disk_state(node)["flips"] for node in nodes}
        left = [
            f"disk of {node}: {count} bits are flipped" for node, count in flips.items() if count
        ]
        return [*left, *not_running(cluster, nodes)]


def _losses(lost: Mapping[str, Mapping[str, Json]]) -> str:
    return ", ".join(
        f"{node} lost {what['pages']} pages of {what['files']} files and {what['changes']} changes"
        + (f", of which {what['kept']} survived" if what["kept"] else "")
        for node, what in lost.items()
    )


def _hits(cluster: Cluster, node: str) -> Mapping[str, Json]:
    hits = cluster.part(HasFaultyDisks).disk_state(node)["hits"]
    assert isinstance(hits, Mapping), "the disk counts requests by fault"
    return hits


_AIM: Final = Aim(role="clickhouse", target="one", roles=ROLES, targets=TARGETS)
_LOG_AIM: Final = Aim(role="zookeeper", target="one")
_OF_LOGS: Final = (("fail-log",), ("slow-log",))
_PROBED: Final = "a probe's request on the disk met the fault"
_LURKS: Final = "the disk has the fault, and the end says how many requests it struck"
_PROBED_OR_LURKS: Final = f"{_PROBED}; for an fsync that fails once, {_LURKS}"


def _seen(kinds: tuple[str, ...]) -> str:
    if kinds in _OF_LOGS:
        return _LURKS
    return _PROBED_OR_LURKS if "fail-sync" in kinds else _PROBED


FAULTS: Final = (
    *(
        FaultEntry(
            name=name,
            text=text,
            seen="no server process is left; of two files on the disk, the synced one has its "
            "content and the other does not (with torn writes it may have)",
            gone="the servers run and answer",
            make=PowerCut,
            aim=_AIM,
        )
        for name, text in {
            "power-cut": "SIGKILL, every write that is not durable is lost, then start",
            "power-cut-torn": "the same, but of the lost writes some pages and sectors survive, "
            "and the first changes of metadata",
        }.items()
    ),
    *(
        FaultEntry(
            name=name,
            text=text,
            seen=_seen(kinds),
            gone="no request of a probe meets the fault",
            make=DiskFault,
            aim=_LOG_AIM if kinds in _OF_LOGS else _AIM,
        )
        for name, (text, kinds) in VARIANTS.items()
    ),
    FaultEntry(
        name="disk-flip",
        text="one bit of a file is wrong: of a part, or of ZooKeeper's log or snapshot",
        seen="the byte is read back from the file, and is the flipped one",
        gone="the bits are flipped back, except those that the server has written or removed",
        make=DiskFlip,
        aim=_AIM,
    ),
)
"""Each affects one ClickHouse server, or the role and the target that follow its name."""
