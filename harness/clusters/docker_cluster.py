"""A cluster of real servers on a Docker engine."""

import fcntl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Final

import docker
from docker.models.containers import Container

from compose.plan import DIRECTORY, KEEP, OWNER, PORTS, Images, Plan, plan
from compose.render import render, render_again
from compose.settings import Settings, Storage
from harness.clusters import failpoints, keeper, owner, readiness
from harness.clusters.compose_tool import compose_up
from harness.clusters.engine import asking_engine, engine
from harness.clusters.fetches import Fetches
from harness.clusters.kept import Kept
from harness.clusters.links import Links
from harness.clusters.logs import collect_node, emptied, last_lines, written
from harness.clusters.losses import Losses
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.clusters.processes import Processes
from harness.clusters.proxies import Proxies
from harness.clusters.removal import LOCK, remove_files, remove_run
from harness.clusters.replica import inactive_tables, tables_led, watches_of
from harness.core.clock import utc_now
from harness.core.dialect import Engines
from harness.core.errors import ClusterError
from harness.core.op import Json
from harness.core.protocols import Endpoint
from harness.core.seed import Seed
from harness.core.topology import Link, Node, Role, Topology

_READY_S: Final = 60.0
_VERSION_S: Final = 5.0


class DockerCluster:
    """Cluster, CanPartition, CanLosePackets, CanKill, CanRestart, CanUpgrade, CanPause, CanLead,
    CanLeadTables, CanStopFetches, CanIntercept, CanLook and CanConfigure.

    `directory` holds the compose file, the configuration and what `attach` needs. A cluster
    that is made with `keep` outlives its process, and `clean` spares it.
    """

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        *,
        images: Images,
        settings: Settings | None = None,
        name: str | None = None,
        keep: bool = False,
    ) -> None:
        self.name = name or f"harness-{Seed.fresh().value:08x}"
        self.topology = topology
        self.images = images
        self.settings = settings or Settings()
        self.directory = directory.absolute()
        self.keep = keep
        self._attached = False
        self._collected_s: float | None = None
        """When logs were collected last, in seconds since 1970, as the engine counts."""
        self._lock: IO[str] | None = None
        self._client: docker.DockerClient | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._agents: dict[str, PodAgent] = {}
        self._links = Links({}, {})
        self._losses = Losses({}, {}, self._links)
        self._fetches = Fetches(topology.replicas, self.endpoint)
        self._upgrading = threading.Lock()
        self._reported: dict[str, str] = {}
        """What nodes said that they run, which is more exact than an image's label."""
        self._removed: dict[str, bytes] = {}
        """What containers that upgrades removed had written, by node, since the last `collect`."""
        self._plan = self._planned()
        self._containers = {s.node.name: s.container for s in self._plan.servers}
        self._pods = {p.node.name: p.container for p in self._plan.pods}

    @staticmethod
    def attach(directory: Path) -> "DockerCluster":
        """The kept cluster whose directory this is. Its `up` heals it: links mended, servers
        started and resumed, fetches on. Raises ClusterError when there is none or another
        process uses it."""
        found = Kept.load(directory)
        cluster = DockerCluster(
            found.topology,
            directory,
            images=found.images,
            settings=found.settings,
            name=found.name,
            keep=True,
        )
        cluster._attached = True
        cluster._fetches.created = True
        return cluster

    # --- Cluster ------------------------------------------------------------------------------

    def up(self) -> None:
        """Brings the cluster up and returns when every server serves. Raises ClusterError with
        the last lines of the log of a server that does not come up. When it raises, whatever it
        raises, it has removed what it created; a kept cluster stays as it is."""
        self._take_lock()
        if self._attached:
            self._find_pods()
            self._heal()
            self._await_whole()
            return
        try:
            render(self._plan, self.directory)
            compose_up(self.name, self.directory / "compose.yml")
            self._find_pods()
            self._await_whole()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Removes everything of this cluster from the engine, and its directory; may be called
        twice, and after `up` failed half-way. Raises ClusterError, with how to remove the rest."""
        try:
            self._close_agents()
            remove_run(self._engine(), self.name)
            remove_files(self.directory)
        except ClusterError as error:
            clean = f"harness clean {self.name}" if self.keep else "harness clean"
            raise ClusterError(f"{error}; {clean} removes what is left") from error
        finally:
            self.close()

    def close(self) -> None:
        """Lets go of the cluster and leaves it running; may be called twice."""
        self._close_agents()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def ping(self) -> None:
        """Raises ClusterError when the engine is gone."""
        with asking_engine("ping"):
            self._engine().ping()

    def endpoint(self, node: str) -> Endpoint:
        """A replica's native port, a ZooKeeper server's client port, on 127.0.0.1."""
        self.topology.node(node)
        if node not in self._endpoints:
            raise ClusterError(f"{node}: has no port, the cluster {self.name} is not up")
        return self._endpoints[node]

    @property
    def engines(self) -> Engines:
        """Which servers they are, and which they were or may be before the cluster ends."""
        known = self.images.engines(self.topology)
        return replace(
            known,
            nodes={
                node: replace(engine, version=self._reported.get(node, engine.version))
                for node, engine in known.nodes.items()
            },
        )

    def versions(self) -> Mapping[str, str]:
        """What each node says it runs; nodes that do not answer are left out."""
        said = on_each(
            self.topology.nodes, lambda n: readiness.version_of(n, self.endpoint(n.name))
        )
        return {node.name: version for node, version in said.items() if version}

    def unready(self) -> Sequence[str]:
        """Why the servers cannot serve now, a reason each; empty when all can."""
        reasons = on_each(self.topology.nodes, self._unready).values()
        out = [reason for reason in reasons if reason]
        if not out and self.leader() is None:
            out.append("ZooKeeper has no leader")
        return out

    def collect(self, directory: Path) -> None:
        """Moves every node's logs to `directory`/<node>/, of dead servers too: of a cluster that
        serves many runs each has its own."""
        client, since_s = self._engine(), self._collected_s
        self._collected_s = utc_now().timestamp()

        def moved(node: Node) -> None:
            container, pod = self._containers[node.name], self._pods[node.name]
            before = self._removed.pop(node.name, b"")
            collect_node(client, container, pod, node, directory / node.name, since_s, before)
            if node.role is Role.CLICKHOUSE and self.settings.storage is Storage.MEMORY:
                emptied(self._agents[node.name])

        on_each(self.topology.nodes, moved)

    # --- CanPartition -------------------------------------------------------------------------

    def cut(self, links: Iterable[Link]) -> None:
        """Drops every packet of these links; others stay as they are."""
        self._links.cut(links)

    def mend(self) -> None:
        """Ends every cut; may be called twice."""
        self._links.mend()

    def reachable(self, links: Iterable[Link]) -> Mapping[Link, bool]:
        """Sends something over each link and says whether it arrived."""
        return self._links.reachable(links)

    # --- CanLosePackets -----------------------------------------------------------------------

    def unfit_for_loss(self) -> str | None:
        """Why packets cannot be lost here, as the kernel says; None: they can."""
        return self._losses.unfit()

    def lose_packets(self, nodes: Iterable[str]) -> None:
        """Three of ten, on all links of these nodes."""
        self._losses.begin(nodes)

    def keep_packets(self, nodes: Iterable[str]) -> None:
        """Ends that; may be called twice."""
        self._losses.end(nodes)

    def losing_packets(self, node: str) -> Mapping[Link, bool]:
        """Of each of its links, whether packets that are sent over it now are lost."""
        return self._losses.seen(node)

    # --- CanKill, CanRestart ------------------------------------------------------------------

    def kill(self, nodes: Iterable[str]) -> None:
        """SIGKILL; returns when the processes are gone. Data and cuts stay."""
        self._processes().kill(nodes)

    def start(self, nodes: Iterable[str]) -> None:
        """Starts what does not run, and returns when each server answers on its own port."""
        self._processes().start(nodes)

    def running(self, node: str) -> bool:
        """Whether the server process exists."""
        return self._processes().running(node)

    def restart(self, nodes: Iterable[str]) -> None:
        """SIGTERM, wait, start; returns when each server answers."""
        self._processes().restart(nodes)

    # --- CanUpgrade ---------------------------------------------------------------------------

    def offer(self, images: Images) -> None:
        """Lets nodes be upgraded to these images too."""
        self.images = self.images.with_servers(images)

    def upgrade(self, node: str, version: str) -> float:
        """SIGTERM, wait, start on that version; returns when the server answers: the seconds since
        SIGTERM. The pod stays, and with it the network, the cuts and the volumes; the
        configuration is rendered for the new version. Raises StartError."""
        with self._upgrading:

            def change(container: Container | None) -> None:
                """While none runs: a server reads its configuration again when that changes."""
                if container is not None:
                    with asking_engine(f"read the logs of {node}"):
                        said = written(container, self._collected_s)
                    self._removed[node] = self._removed.get(node, b"") + said
                self.topology = self.topology.with_version(node, version)
                self._plan = self._planned()
                self._reported.pop(node, None)
                render_again(self._plan, node, self.directory)

            wanted = self.images.of(self.topology.with_version(node, version).node(node))
            environment = self._plan.server(node).environment
            try:
                away_s = self._processes().replace(node, wanted.tag, environment, change)
            finally:
                self._save()
            self._await_version(node)
        return away_s

    def inactive(self, node: str) -> Sequence[str]:
        """Why the server does not do its part in the cluster, a reason each."""
        why = self._unready(self.topology.node(node))
        if why is not None:
            return [why]
        if node in self.topology.keepers:
            return []
        try:
            return [f"{node}: {t} is not active" for t in inactive_tables(self.endpoint(node))]
        except ClusterError as error:
            return [f"{node} does not answer: {error}"]

    # --- CanPause -----------------------------------------------------------------------------

    def pause(self, nodes: Iterable[str]) -> None:
        """SIGSTOP; returns when every thread is stopped."""
        self._processes().pause(nodes)

    def resume(self, nodes: Iterable[str]) -> None:
        """SIGCONT; of what is not paused, nothing happens."""
        self._processes().resume(nodes)

    def paused(self, node: str) -> bool:
        """Whether every thread of the server is stopped, as the kernel says."""
        return self._processes().paused(node)

    # --- CanLead, CanLeadTables, CanStopFetches ---------------------------------------------------

    def leader(self) -> str | None:
        """The ZooKeeper server that leads now; None: none does. A deposed leader that has not
        noticed yet calls itself one too, so the newest term decides."""
        states = on_each(self.topology.keepers, lambda node: keeper.state(self.endpoint(node)))
        leading = [
            (state.epoch, node)
            for node, state in states.items()
            if state and state.mode in ("leader", "standalone")
        ]
        return max(leading)[1] if leading else None

    def serving(self) -> frozenset[str]:
        """The ZooKeeper servers that say that they lead or follow."""
        states = on_each(self.topology.keepers, lambda node: keeper.state(self.endpoint(node)))
        return frozenset(node for node, state in states.items() if state and state.mode)

    def table_leader(self) -> str | None:
        """The replica that leads most of the run's tables now, as it says itself."""
        led = on_each(self.topology.replicas, lambda node: tables_led(self.endpoint(node)))
        most = max(self.topology.replicas, key=lambda node: led[node])
        return most if led[most] else None

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Of every table that exists; until the server ends."""
        self._fetches.stop(nodes)

    def start_fetches(self, nodes: Iterable[str]) -> None:
        """May be called twice."""
        self._fetches.start(nodes)

    def fetching(self, node: str) -> bool:
        """Whether a part put on another replica now reaches this one."""
        return self._fetches.fetching(node)

    # --- HasFailpoints ------------------------------------------------------------------------

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        """Until the point is disarmed, has struck, if it strikes once, or the server ends."""
        known = on_each(nodes, lambda node: failpoints.enable(self.endpoint(node), point))
        return all(known.values())

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        """May be called twice."""
        on_each(nodes, lambda node: failpoints.disable(self.endpoint(node), point))

    def armed(self, node: str, point: str) -> bool | None:
        """By system.fail_points, which servers have since 2026."""
        return failpoints.enabled(self.endpoint(node), point)

    # --- CanIntercept -------------------------------------------------------------------------

    def interpose(self) -> None:
        """Puts a proxy in the way of every replica's connections; restarts replicas the first
        time."""
        fresh = self._proxies().install()
        if fresh:
            # A connection that was there before goes on without the proxy.
            self.restart(fresh)
            self._await_ready()

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        """From now on the proxies of these replicas follow this rule too."""
        self._proxies().arm(nodes, rule)

    def let_pass(self, nodes: Iterable[str]) -> None:
        """Forgets every rule and ends what hangs; may be called twice."""
        self._proxies().clear(nodes)

    def intercepted(self, node: str) -> Mapping[str, Json]:
        """How often each rule was followed, and the connections that hang."""
        return self._proxies().state(node)

    # --- CanLook, CanConfigure ----------------------------------------------------------------

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        """Paths below `directory` of the server's data directory whose name fits `name`."""
        pod = next(pod for pod in self._plan.pods if pod.node.name == node)
        data = next((v.at for v in pod.volumes if v.name.endswith("-data")), None)
        if data is None:
            raise ClusterError(f"{node}: its data is on disk, which its pod does not see")
        root = f"/volumes{data}/{directory}"
        done = self._agents[node].ask(
            "run", wait_s=10, argv=["find", root, "-name", name, "-type", "f"], text=""
        )
        if done["status"] and "No such file" not in done["stderr"]:
            raise ClusterError(f"{node}: {root} cannot be listed: {done['stderr'].strip()}")
        return tuple(done["stdout"].split())

    def configure(self, node: str, name: str, text: str) -> None:
        """Writes a file that the server merges into its configuration; "" takes it away."""
        extra = self.directory / "config" / node / "config.d"
        extra.mkdir(exist_ok=True)
        extra.chmod(0o755)
        if not text:
            (extra / name).unlink(missing_ok=True)
            return
        partial = extra / f".{name}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o644)
        partial.replace(extra / name)

    # --- how ----------------------------------------------------------------------------------

    def _labels(self) -> dict[str, str]:
        labels = {OWNER: owner.this_process(), DIRECTORY: str(self.directory)}
        return {**labels, KEEP: "1"} if self.keep else labels

    def _engine(self) -> docker.DockerClient:
        if self._client is None:
            self._client = engine()
        return self._client

    def _close_agents(self) -> None:
        for agent in self._agents.values():
            agent.close()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = (self.directory / LOCK).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise ClusterError(f"{self.directory}: another process uses this cluster") from error
        self._lock = lock

    def _planned(self) -> Plan:
        return plan(
            self.topology, self.settings, self.images, name=self.name, labels=self._labels()
        )

    def _save(self) -> None:
        """For whoever attaches to it."""
        Kept(self.name, self.topology, self.images, self.settings).save(self.directory)

    def _await_version(self, node: str) -> None:
        """Asks a server that answers already. A ZooKeeper server says its version once it has a
        quorum, which here it may lack: then the image's label is all that is known."""
        deadline = time.monotonic() + _VERSION_S
        found = self.topology.node(node)
        while (said := readiness.version_of(found, self.endpoint(node))) is None:
            if time.monotonic() > deadline:
                return
            time.sleep(0.1)
        self._reported[node] = said

    def _find_pods(self) -> None:
        client = self._engine()
        addresses = {}
        for pod in self._plan.pods:
            node = pod.node.name
            with asking_engine(f"find the pod of {node} of the cluster {self.name}"):
                attrs = client.containers.get(pod.container).attrs["NetworkSettings"]
            published = attrs["Ports"].get(f"{PORTS[pod.node.role]}/tcp")
            if not published:
                raise ClusterError(f"{pod.container}: does not run; remove the cluster")
            self._endpoints[node] = Endpoint("127.0.0.1", int(published[0]["HostPort"]))
            addresses[node] = attrs["Networks"][self._plan.network]["IPAddress"]
            self._agents[node] = PodAgent(client, pod.container, node)
        on_each(self._agents.values(), PodAgent.probe_port)  # while the servers are starting
        self._links = Links(self._agents, addresses)
        self._losses = Losses(self._agents, addresses, self._links)

    def _processes(self) -> Processes:
        return Processes(
            self._engine(),
            self.topology,
            self._containers,
            self._agents,
            self._alive,
            lambda node: self._unready(self.topology.node(node)),
            self._last_lines,
            lambda node: compose_up(self.name, self.directory / "compose.yml", node),
        )

    def _proxies(self) -> Proxies:
        return Proxies({node: self._agents[node] for node in self.topology.replicas})

    def _alive(self, node: str) -> str | None:
        return readiness.is_alive(self.topology.node(node), self.endpoint(node))

    def _last_lines(self, node: str) -> str:
        return last_lines(self._engine(), self._containers[node], self.topology.node(node))

    def _heal(self) -> None:
        self.mend()
        self.keep_packets(self.topology.names)
        self.resume(self.topology.names)
        self.start(self.topology.names)
        self.start_fetches(self.topology.replicas)

    def _await_whole(self) -> None:
        self._await_ready()
        self._reported = dict(self.versions())
        self._await_none(self._without_ddl)
        self._fetches.create()
        self._save()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        # ZooKeeper before sessions: a replica that finds none fills its log with errors.
        for nodes in (self.topology.keepers, self.topology.replicas):
            on_each(nodes, partial(self._await_node, deadline=deadline))
        self._await_none(self.unready)

    def _await_none(self, reasons: Callable[[], Sequence[str]]) -> None:
        deadline = time.monotonic() + _READY_S
        while found := reasons():
            if time.monotonic() > deadline:
                raise ClusterError(f"cluster {self.name}: not ready: {'; '.join(found)}")
            time.sleep(0.1)

    def _without_ddl(self) -> Sequence[str]:
        """Which servers do not execute statements ON CLUSTER yet, as far as can be seen: one with
        tables waits for changes in any case.

        The thread that executes them tries again later where it found no ZooKeeper at first. Until
        it succeeds a server that is given one may die of a segmentation fault, and its first writes
        may come at any time; behind a write that a cut holds up all reads of its session wait
        (18.16.1).
        """
        watches = on_each(self.topology.replicas, lambda node: watches_of(self.endpoint(node)))
        return [f"{node} executes nothing ON CLUSTER" for node, n in watches.items() if not n]

    def _await_node(self, name: str, deadline: float) -> None:
        node = self.topology.node(name)
        while (why := self._unready(node)) is not None:
            with asking_engine(f"look at {node.name}"):
                status = self._engine().containers.get(self._containers[node.name]).status
            if status == "exited" or time.monotonic() > deadline:
                raise ClusterError(
                    f"{node.name}: did not come up: {why}; its container is {status}; the end "
                    f"of its log:\n{self._last_lines(node.name)}"
                )
            time.sleep(0.1)

    def _unready(self, node: Node) -> str | None:
        endpoint = self.endpoint(node.name)
        return readiness.why_unready(node, endpoint, self._fetches.refusal)
