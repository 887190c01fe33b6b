"""Capabilities: what some clusters can do and others cannot.

A nemesis or a workload states the capabilities that it needs. A cluster that lacks one is refused
before the run starts.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from harness.core.clock_fault import ClockFault, ClockReading
from harness.core.link_quality import LinkEvidence, LinkFault
from harness.core.op import Json
from harness.core.resources import Resource
from harness.core.topology import Link


class Conditional(Protocol):
    """Capability that a cluster may lack although others of its class have it."""

    def why_unavailable(self) -> str | None:
        """Return why the cluster lacks it, such as a kernel without the means; None if it has
        it."""
        ...


@runtime_checkable
class CanPartition(Protocol):
    """The cluster cuts links, each direction by itself."""

    def cut(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links; others stay as they are."""
        ...

    def mend(self) -> None:
        """End every cut; idempotent."""
        ...

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link and return whether it arrived."""
        ...


@runtime_checkable
class CanReject(Protocol):
    """The cluster cuts links so that whoever opens a TCP connection over one is refused at once."""

    def reject(self, links: Iterable[Link]) -> None:
        """Drop every packet of these links, and answer those of TCP with a reset; others stay as
        they are. `CanPartition.mend` ends it."""
        ...

    def resetting(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Open a TCP connection over each link and return whether a reset of `reject` ended it."""
        ...


@runtime_checkable
class CanKill(Protocol):
    """The cluster kills server processes (SIGKILL) and starts them again."""

    def kill(self, nodes: Iterable[str]) -> None:
        """Kill the servers and return when the processes are gone."""
        ...

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Start the servers that do not run, and return when each answers; without `answers`, when
        the replicas among them have been started."""
        ...

    def running(self, node: str) -> bool:
        """Return whether the server process exists."""
        ...


@runtime_checkable
class CanRestart(Protocol):
    """The cluster stops servers gracefully and starts them again."""

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Send SIGTERM, wait, start, and return when each server answers, or as CanKill.start does
        without `answers`."""
        ...


@runtime_checkable
class CanUpgrade(Protocol):
    """The cluster restarts servers on another version, with their data."""

    def upgrade(self, node: str, version: str) -> float:
        """Send SIGTERM, wait, and start on that version, as a Node names it. Return the seconds
        from SIGTERM until the server answers. Its data, its network and its cuts stay. Raises
        StartError, with the end of its log, if it does not answer; it has the new version even
        then."""
        ...

    def inactive(self, node: str) -> Sequence[str]:
        """Return why the server is not an active member of the cluster, a reason each, such as a
        replica of a table that is not active; empty if it is."""
        ...


@runtime_checkable
class CanPause(Protocol):
    """The cluster pauses server processes (SIGSTOP, SIGCONT)."""

    def pause(self, nodes: Iterable[str]) -> None:
        """Pause the servers and return when they are stopped."""
        ...

    def resume(self, nodes: Iterable[str]) -> None:
        """Resume the servers; no-op for those that are not paused."""
        ...

    def paused(self, node: str) -> bool:
        """Return whether the kernel reports every process of the server as stopped."""
        ...


@runtime_checkable
class ReportsLeader(Protocol):
    """The cluster reports which ZooKeeper server leads."""

    def leader(self) -> str | None:
        """Return the ZooKeeper server that leads now; None if none does."""
        ...

    def serving(self) -> frozenset[str]:
        """Return the ZooKeeper servers that report that they lead or follow. One that was cut off
        still does so for tickTime x syncLimit."""
        ...


@runtime_checkable
class ReportsTableLeader(Protocol):
    """The cluster reports which replica leads a table, that is, assigns its merges and
    mutations."""

    def table_leader(self) -> str | None:
        """Return the replica that leads most of the run's tables now; None if none leads any."""
        ...


@runtime_checkable
class CanStopFetches(Protocol):
    """The cluster keeps a replica from fetching parts, so that it lags."""

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Stop the fetches of every table."""
        ...

    def start_fetches(self, nodes: Iterable[str]) -> None:
        """Start the fetches of every table; idempotent."""
        ...

    def fetching(self, node: str) -> bool:
        """Return whether a part that a probe inserts on another replica now reaches this one."""
        ...


@runtime_checkable
class HasFailpoints(Protocol):
    """The cluster arms points in the source of database servers at which they fail or wait."""

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        """Arm the point; return whether every server knows it."""
        ...

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        """Disarm the point and wake the threads that wait at it; no-op if it is not armed or
        unknown."""
        ...

    def armed(self, node: str, point: str) -> bool | None:
        """Return whether the server lists the point as armed; None if it has no list."""
        ...


@runtime_checkable
class CanDegradeLinks(Conditional, Protocol):
    """The cluster delays, reorders, duplicates, slows down and loses the packets of links."""

    def degrade_links(
        self, links: Iterable[Link], fault: LinkFault, amount: float, seed: int
    ) -> None:
        """Give these links a fault; other links, and other faults, stay as they are. The seed
        decides which packets it affects."""
        ...

    def restore_links(self, faults: Iterable[LinkFault] = tuple(LinkFault)) -> None:
        """End these faults on every link; idempotent."""
        ...

    def link_evidence(
        self, links: Iterable[Link], fault: LinkFault, amount: float
    ) -> Mapping[Link, LinkEvidence]:
        """Return what is seen on each of these links of a fault of this amount."""
        ...


@runtime_checkable
class CanSlowFetches(Protocol):
    """The cluster slows down the fetches of a replica."""

    def slow_fetches(self, nodes: Iterable[str]) -> None:
        """Slow down the fetches of these replicas by a factor of 100."""
        ...

    def stop_slow_fetches(self, nodes: Iterable[str]) -> None:
        """End the slow fetches of these replicas; idempotent."""
        ...

    def fetching_slowly(self, node: str) -> bool:
        """Return whether the fetches of the replica are slow."""
        ...


@runtime_checkable
class CanSetClocks(Conditional, Protocol):
    """The cluster makes the clocks of its servers wrong."""

    def set_clocks(self, nodes: Iterable[str], fault: ClockFault) -> None:
        """Make the clocks of these servers wrong, in place of any other fault of theirs."""
        ...

    def clock_fault(self, node: str) -> ClockFault:
        """Return the fault that was set last; ClockFault() if the clock was reset since."""
        ...

    def reset_clocks(self, nodes: Iterable[str]) -> None:
        """Make the clocks of these servers right; idempotent."""
        ...

    def read_clocks(self, nodes: Iterable[str]) -> Mapping[str, ClockReading | str]:
        """Ask each server for its time. Return how wrong it is, or why it does not answer."""
        ...


@runtime_checkable
class CanReplaceDisks(Conditional, Protocol):
    """The cluster empties, backs up and restores the disks of servers that do not run."""

    def empty_disks(self, nodes: Iterable[str], parts_only: bool) -> None:
        """Remove everything on the disks of these servers, or only the parts of tables."""
        ...

    def disk_files(self, node: str, parts_only: bool) -> int:
        """Return the number of files of a server, or that of the parts of its tables."""
        ...

    def back_up_disks(self, nodes: Iterable[str]) -> None:
        """Copy the disks of these servers in place of an older copy."""
        ...

    def restore_disks(self, nodes: Iterable[str]) -> None:
        """Put the copy in place of the disks of these servers."""
        ...


@runtime_checkable
class CanRewindKeepers(Protocol):
    """The cluster's servers go on when all of ZooKeeper has forgotten what came after a copy of its
    disks, and assigns the numbers of blocks, log entries and transactions once more. Simulated
    replicas do not: their invariant is that the number of a block is assigned once."""

    def rewind_keepers(self, nodes: Iterable[str]) -> None:
        """Put the copy in place of the disks of all ZooKeeper servers, which do not run."""
        ...


@runtime_checkable
class CanReconfigure(Conditional, Protocol):
    """The cluster changes the members of its ZooKeeper ensemble while it runs."""

    def reconfigure(self, node: str, role: str) -> None:
        """Make the server "participant" or "observer", or remove it, for "". Raises ClusterError
        if the ensemble refuses, such as without a quorum."""
        ...

    def ensemble(self) -> Mapping[str, str]:
        """Return the role of each member, as the leader's configuration has it. Raises
        ClusterError."""
        ...


@runtime_checkable
class CanReplaceReplicas(Protocol):
    """The cluster drops the replicas of a server from their tables, and adds them again."""

    def note_tables(self, nodes: Iterable[str]) -> None:
        """Note the tables of these replicas, for `add_replicas`. Raises ClusterError."""
        ...

    def drop_replicas(self, nodes: Iterable[str]) -> None:
        """Have other replicas drop those of these servers, which do not run."""
        ...

    def add_replicas(self, nodes: Iterable[str]) -> None:
        """Create the noted tables that these servers do not have; idempotent."""
        ...

    def lacks_tables(self, node: str) -> bool:
        """Return whether a replica has none of its noted tables. Raises ClusterError."""
        ...

    def registered(self, node: str) -> bool:
        """Return whether other members know the server as one of theirs: other replicas, or the
        leader of the ZooKeeper servers, which counts its followers."""
        ...

    def behind(self, node: str) -> Sequence[str]:
        """Return a sentence for each table of a replica that has yet to fetch parts."""
        ...


@runtime_checkable
class CanRestoreReplicas(Protocol):
    """The cluster restores the replicas of its servers from their parts."""

    def restore_replicas(self, nodes: Iterable[str]) -> None:
        """Restore the read-only replicas of these servers, one server after the other; idempotent.
        Raises ClusterError."""
        ...

    def read_only(self, node: str) -> Sequence[str]:
        """Return a sentence for each table of a server that takes no inserts."""
        ...


@runtime_checkable
class CanStarve(Protocol):
    """The cluster takes resources away from its servers."""

    def why_not_starved(self, resource: Resource) -> str | None:
        """Return why servers cannot lack the resource, such as a kernel without the means; None if
        they can."""
        ...

    def starve(self, nodes: Iterable[str], resource: Resource) -> None:
        """Take the resource away from these servers."""
        ...

    def feed(self, nodes: Iterable[str], resource: Resource) -> None:
        """Give the resource back to these servers; idempotent."""
        ...

    def shortages(self, nodes: Iterable[str], resource: Resource) -> Mapping[str, str | None]:
        """Return what shows that each server lacks the resource; None where nothing does."""
        ...


@runtime_checkable
class CanIntercept(Protocol):
    """The cluster stops single messages on a replica's connections, by their content."""

    def interpose(self) -> None:
        """Install a proxy for every replica's connections to ZooKeeper and for every fetch from it,
        and return when all pass through it. The first call restarts replicas; idempotent."""
        ...

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        """Add a rule to the proxies of these replicas, see pod_proxy.py."""
        ...

    def release(self, nodes: Iterable[str], name: str, cut: bool = False) -> None:
        """Remove a rule, and forward the messages that it held back, or end their connections if
        `cut`; idempotent."""
        ...

    def clear_rules(self, nodes: Iterable[str]) -> None:
        """Remove every rule and end the connections that hang; idempotent."""
        ...

    def intercepted(self, node: str) -> Mapping[str, Json]:
        """Return "hits", how often each rule in force was applied, by name; "unanswered", to how
        many of those requests there is no answer yet, for rules that hold or count requests to
        ZooKeeper, the released ones included; "counts", the rules that count; and "stalled", the
        number of connections that hang because of a rule."""
        ...


@runtime_checkable
class CanDegradeStore(Protocol):
    """The cluster makes its object store fail, by requests."""

    def set_store_rule(self, rule: Mapping[str, Json]) -> None:
        """Apply a rule to the requests of other nodes, see store_faults.py, in place of the one in
        force; {} ends it, and the connections that it holds. Idempotent."""
        ...

    def store_rule(self) -> Mapping[str, Json]:
        """Return "name" of the rule in force, "" if there is none, "hits", to how many requests it
        applied, and "held", the number of connections that hang because of one."""
        ...


@runtime_checkable
class CanCutPower(Conditional, Protocol):
    """The cluster kills ZooKeeper servers together with what is not durable on their disks."""

    def synced(self) -> str:
        """Return what the servers sync: "default", "inserts", "all" or "never"."""
        ...

    def cut_power(
        self, nodes: Iterable[str], torn: Mapping[str, int]
    ) -> Mapping[str, Mapping[str, Json]]:
        """Kill the servers, and lose what is not durable on their disks.

        Return for each the number of lost "changes", "pages" and "files" with lost pages; how many
        of those changes and pages were "kept"; and whether of two files that were written before
        the "synced" and the "unsynced" one have their content. `torn` has a seed for each disk
        that keeps some of the changes and pages, these in part.
        """
        ...


@runtime_checkable
class HasFaultyDisks(Conditional, Protocol):
    """The cluster's disks fail on command, and those of all servers lose what is not durable."""

    def set_disk_fault(self, nodes: Iterable[str], name: str, fault: Mapping[str, Json]) -> None:
        """Make the disks fail until the fault is cleared. Its "kind" is full, readonly, slow or
        slow-log (with "delay_ms"), fail-reads, fail-writes, fail-log or fail-sync, which fails one
        fsync; those with -log are of ZooKeeper's log alone."""
        ...

    def clear_disk_fault(self, nodes: Iterable[str], name: str) -> None:
        """End a fault of the disks; idempotent."""
        ...

    def disk_state(self, node: str) -> Mapping[str, Json]:
        """Return "hits", the number of a server's requests that each fault in force applied to, by
        name; "changes" and "pages" that are not durable; "flips", the number of flipped bits."""
        ...

    def probe_disk(self, node: str) -> Mapping[str, Mapping[str, Json]]:
        """Try to "write", "sync" and "read" on the disk. Return the "error" of each, such as "EIO",
        "" if there is none, and its length in "ms"."""
        ...

    def flip_bit(self, node: str, files: Mapping[str, Sequence[str]], seed: int) -> Json:
        """Flip a bit of one of the files whose path has a word of "below" and none of "without" and
        ends with one of "endings". Return "file", "offset", "bit", and the "byte" as it should
        be and as it is "read"; None if there is no such file."""
        ...

    def restore_bits(self, nodes: Iterable[str]) -> None:
        """Flip the flipped bits back unless their bytes were written since; idempotent."""
        ...

    def sync_disks(self) -> None:
        """Make everything durable on all disks."""
        ...


@runtime_checkable
class CanListFiles(Protocol):
    """The cluster lists the files of a database server."""

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        """Return the paths below `directory` of the server's data directory, "" for all of it,
        whose file name matches the pattern `name`, such as "*.bin"; that of a directory ends with a
        slash, as in "tmp_fetch_*/". None if `directory` does not exist. Raises ClusterError."""
        ...


@runtime_checkable
class CanConfigure(Protocol):
    """The cluster changes the configuration of running servers."""

    def configure(self, node: str, name: str, text: str) -> None:
        """Write a file that the server merges into its configuration; "" removes the file."""
        ...
