"""Cluster of real servers on a Docker engine."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import docker
from docker.models.containers import Container

from compose.plan import DIRECTORY, KEEP, OWNER, ClusterPlan, Images, entrypoint, plan_cluster
from compose.render import render, render_again, write_override
from compose.settings import Settings
from harness.clusters import logs, replica
from harness.clusters.base_image import require_images
from harness.clusters.clocks import NodeClocks, prepare_clocks
from harness.clusters.compose_tool import compose_up
from harness.clusters.disks import NodeDisks, write_program
from harness.clusters.engine import engine, engine_request, outlasting
from harness.clusters.ensemble import HasEnsemble
from harness.clusters.fetches import Fetches
from harness.clusters.link_faults import HasLinkFaults
from harness.clusters.link_quality import LinkQuality
from harness.clusters.links import Links
from harness.clusters.manifest import ClusterManifest
from harness.clusters.membership import HasMembership, Membership
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent, find_pods
from harness.clusters.processes import Processes, end_of
from harness.clusters.progress import following_progress
from harness.clusters.proxies import Proxies
from harness.clusters.reachable import Reachable
from harness.clusters.readiness import Readiness, await_version
from harness.clusters.removal import lock_cluster, remove_run
from harness.clusters.resources import NodeResources
from harness.clusters.store_http import HttpStoreChannel
from harness.clusters.store_rule import store_rule
from harness.clusters.user_store import UserStore
from harness.core.bucket import Bucket
from harness.core.clock import utc_now
from harness.core.connections import StoreChannel
from harness.core.engines import Engines
from harness.core.errors import ClusterError, ObjectsLeftError
from harness.core.op import Json
from harness.core.os_process import this_process
from harness.core.parts import HasParts
from harness.core.protocols import Endpoint
from harness.core.runtime import Runtime, WallTime
from harness.core.seed import Seed
from harness.core.topology import Node, Role, Topology


class DockerCluster(
    HasParts,
    Reachable,
    HasLinkFaults,
    HasMembership,
    HasEnsemble,
    NodeDisks,
    NodeClocks,
    NodeResources,
):
    """Cluster of real servers; it has every capability for which a section below is named.

    `directory` holds the compose file, the configuration and the manifest that `attach` needs. A
    cluster that is made with `keep` outlives its process, and `clean` leaves it alone. The keys of
    a user's bucket are those in the environment; without them UsageError is raised.
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
        self.runtime: Runtime = WallTime()
        self.readings: Sequence[str] = ()
        self.name = name or f"harness-{Seed.fresh().value:08x}"
        self.topology = topology
        self.images = images
        self.settings = settings or Settings()
        self.directory = directory.absolute()
        self.keep = keep
        self._attached = False
        self._collected_s: float | None = None
        """Time of the last collection of logs, in seconds since 1970, as the engine counts."""
        self._lock: IO[str] | None = None
        self._client: docker.DockerClient | None = None
        self._endpoints: dict[str, Endpoint] = {}
        self._agents: dict[str, PodAgent] = {}
        self._links = Links({}, {})
        self._quality = LinkQuality({}, {}, self._links.is_cut)
        self._membership = Membership(topology, {}, {}, self.endpoint)
        self._fetches = Fetches(topology.replicas, self.endpoint)
        refusal = self._fetches.refusal
        self._readiness = Readiness(
            self.name, topology, self.endpoint, refusal, self._end, self._last_lines
        )
        self._upgrading = threading.Lock()
        self._reported: dict[str, str] = {}
        """Versions that nodes reported, which are more exact than an image's label."""
        self._removed: dict[str, bytes] = {}
        """Output of the containers that upgrades removed, by node, since the last `collect`."""
        self._plan = self._make_plan()
        self._containers = {s.node.name: s.container for s in self._plan.servers}
        self._pods = {p.node.name: p.container for p in self._plan.pods}
        self._user_store = UserStore.of(topology, self.name)

    @staticmethod
    def attach(directory: Path) -> "DockerCluster":
        """Return the kept cluster of a directory.

        Its `up` heals it: links, clocks, servers, disks, fetches and the store. Raises ClusterError
        if there is no cluster or another process uses it.
        """
        found = ClusterManifest.load(directory)
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
        """Bring the cluster up and return when every server serves.

        Raises ClusterError with the end of the log of a server that does not come up, after it has
        removed what it created; an attached cluster stays as it is.
        """
        if self._lock is None:
            self._lock = lock_cluster(self.directory)
        if self._attached:
            self._find_pods()
            self.mend()
            self.restore_links()
            self.resume(self.topology.names)
            self.heal_disks()
            self.reset_clocks(self.clocked())
            self.feed_all()
            self.start(self.topology.names)
            self.start_fetches(self.topology.replicas)
            if self.topology.stores:
                self.set_store_rule({})
            self._await_whole()
            return
        try:
            render(self._plan, self.directory)
            write_program(self.settings, self.directory)
            prepare_clocks(self._plan, self.directory)
            self._compose_up()
            self._find_pods()
            if self._user_store is not None:
                self._user_store.check_reachable(self._agents, self.topology.replicas)
            self._await_whole()
        except BaseException as error:
            try:
                self.down()
            except ClusterError as left:
                raise ClusterError(f"{str(error) or type(error).__name__}\n{left}") from error
            raise

    def down(self) -> None:
        """Remove everything of this cluster from the engine, and its directory. Wait a while for
        an engine that is being restarted.

        It may be called twice, and after `up` has failed. Raises ClusterError, which says how to
        remove the rest.
        """
        try:
            self._close_agents()
            outlasting(lambda: remove_run(self._engine(), self.name, self.directory))
        except ObjectsLeftError:
            raise
        except ClusterError as error:
            clean = f"harness clean {self.name}" if self.keep else "harness clean"
            raise ClusterError(f"{error}; {clean} removes what is left") from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connections to the cluster and leave it running; idempotent."""
        self._close_agents()
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def ping(self) -> None:
        """Raise ClusterError if the engine does not answer."""
        with engine_request("ping"):
            self._engine().ping()

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port, on 127.0.0.1."""
        self.topology.node(node)
        if node not in self._endpoints:
            raise ClusterError(f"{node}: has no port, the cluster {self.name} is not up")
        return self._endpoints[node]

    def store_channel(self, timeout_s: float) -> StoreChannel:
        """Return a new connection to the object store."""
        if self._user_store is not None:
            return self._user_store.channel(timeout_s)
        own = self.endpoint(self.topology.stores[0])
        return HttpStoreChannel(Bucket(f"http://{own.host}:{own.port}"), timeout_s)

    @property
    def engines(self) -> Engines:
        """Return the engines of the servers and of upgrades."""
        return self.images.engines(self.topology).reporting(self._reported)

    def collect(self, directory: Path) -> None:
        """Move every node's logs to `directory`/<node>/, also those of dead servers."""
        client, since_s = self._engine(), self._collected_s
        self._collected_s = utc_now().timestamp()

        def move(node: Node) -> None:
            container, pod = self._containers[node.name], self._pods[node.name]
            before = self._removed.pop(node.name, b"")
            logs.collect_node(client, container, pod, node, directory / node.name, since_s, before)
            if node.role is Role.CLICKHOUSE:
                logs.truncate_logs(self._agents[node.name])

        on_each(self.topology.nodes, move)

    # --- CanKill, CanRestart ------------------------------------------------------------------

    def kill(self, nodes: Iterable[str]) -> None:
        """Send SIGKILL and return when the processes are gone. Data and cuts stay."""
        self._processes().kill(nodes)

    def start(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Start the servers that do not run, and return when each answers, or before."""
        self._processes().start(nodes, answers)

    def running(self, node: str) -> bool:
        """Return whether the server process exists."""
        return self._processes().running(node)

    def restart(self, nodes: Iterable[str], answers: bool = True) -> None:
        """Send SIGTERM, wait, start, and return when each server answers, or before."""
        self._processes().restart(nodes, answers)

    # --- CanUpgrade ---------------------------------------------------------------------------

    def offer(self, images: Images) -> None:
        """Add images that nodes may be upgraded to."""
        self.images = self.images.with_servers(images)

    def upgrade(self, node: str, version: str) -> float:
        """Restart a server on another version and return the seconds until it answers again.

        The pod stays, and with it the network, the cuts and the volumes. The configuration is
        rendered for the new version. Raises StartError.
        """
        with self._upgrading:

            def change(container: Container | None) -> None:
                # The configuration may change only while no server runs, which would reload it.
                if container is not None:
                    with engine_request(f"read the logs of {node}"):
                        output = logs.output_of(container, self._collected_s)
                    self._removed[node] = self._removed.get(node, b"") + output
                self.topology = self.topology.with_version(node, version)
                self._plan = self._make_plan()
                self._reported.pop(node, None)
                render_again(self._plan, node, self.directory)

            wanted = self.images.of(self.topology.with_version(node, version).node(node))
            environment = self._plan.server(node).environment
            program = entrypoint(wanted, self.settings)
            try:
                away_s = self._processes().replace(node, wanted.tag, environment, program, change)
            finally:
                self._save()
            reported = await_version(self.topology.node(node), self.endpoint(node))
            if reported is not None:
                self._reported[node] = reported
        return away_s

    def inactive(self, node: str) -> Sequence[str]:
        """Return why the server is not an active member of the cluster, a reason each."""
        return self._readiness.inactive(node)

    # --- CanPause -----------------------------------------------------------------------------

    def pause(self, nodes: Iterable[str]) -> None:
        """Send SIGSTOP and return when every thread is stopped."""
        self._processes().pause(nodes)

    def resume(self, nodes: Iterable[str]) -> None:
        """Send SIGCONT; no-op for servers that are not paused."""
        self._processes().resume(nodes)

    def paused(self, node: str) -> bool:
        """Return whether the kernel reports every thread of the server as stopped."""
        return self._processes().paused(node)

    # --- CanStopFetches -----------------------------------------------------------------------

    def stop_fetches(self, nodes: Iterable[str]) -> None:
        """Stop the fetches of every table that exists, until the server is restarted."""
        self._fetches.stop(nodes)

    def start_fetches(self, nodes: Iterable[str]) -> None:
        """Start the fetches of every table; idempotent."""
        self._fetches.start(nodes)

    def fetching(self, node: str) -> bool:
        """Return whether a part that is inserted on another replica now reaches this one."""
        return self._fetches.fetching(node)

    # --- HasFailpoints ------------------------------------------------------------------------

    def arm(self, nodes: Iterable[str], point: str) -> bool:
        """Arm a failpoint until it is disarmed, has triggered (once, unless it lasts), or the
        server is restarted. Return whether all servers know it."""
        known = on_each(nodes, lambda n: replica.enable_failpoint(self.endpoint(n), point))
        return all(known.values())

    def disarm(self, nodes: Iterable[str], point: str) -> None:
        """Disarm a failpoint; idempotent."""
        on_each(nodes, lambda node: replica.disable_failpoint(self.endpoint(node), point))

    def armed(self, node: str, point: str) -> bool | None:
        """Return whether system.fail_points (since 2026) lists it as enabled."""
        return replica.failpoint_enabled(self.endpoint(node), point)

    # --- CanIntercept -------------------------------------------------------------------------

    def interpose(self) -> None:
        """Install a proxy for every replica's connections; the first time, restart replicas."""
        if fresh := self._proxies().install():
            self.restart(fresh)  # connections that exist already do not pass through the proxy
            self._readiness.await_ready()

    def intercept(self, nodes: Iterable[str], rule: Mapping[str, Json]) -> None:
        """Add a rule to the proxies of these replicas."""
        self._proxies().arm(nodes, rule)

    def release(self, nodes: Iterable[str], name: str, cut: bool = False) -> None:
        """Remove a rule and forward what it held back, or end its connections; idempotent."""
        self._proxies().release(nodes, name, cut)

    def clear_rules(self, nodes: Iterable[str]) -> None:
        """Remove every rule and end the connections that are held back; idempotent."""
        self._proxies().clear(nodes)

    def intercepted(self, node: str) -> Mapping[str, Json]:
        """Return the hits of each rule, and the number of connections that are held back."""
        return self._proxies().state(node)

    # --- CanDegradeStore ----------------------------------------------------------------------

    def set_store_rule(self, rule: Mapping[str, Json]) -> None:
        """Apply a rule to the requests of other nodes; {} ends it. Idempotent."""
        store_rule(self.endpoint(self.topology.stores[0]), rule)

    def store_rule(self) -> Mapping[str, Json]:
        """Return the rule in force by name, its hits, and the connections that hang."""
        return store_rule(self.endpoint(self.topology.stores[0]))

    # --- CanListFiles, CanConfigure; Keeps-, Grows- and DatesTransactions ---------------------

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        """Return paths below `directory` in the server's data whose file name matches `name`."""
        data = self._plan.server(node).data
        return self._agents[node].files(f"/volumes{data}/{directory}", name)

    def configure(self, node: str, name: str, text: str) -> None:
        """Write a file that the server merges into its configuration; "" removes the file."""
        write_override(self._plan, node, self.directory, name, text)

    def transactions(self) -> Mapping[str, bytes]:
        """Return the transaction log of each ZooKeeper server that has one."""
        places = {n: (self._containers[n], self._pods[n]) for n in self.topology.keepers}
        found = on_each(places, lambda node: logs.transactions_of(self._engine(), *places[node]))
        return {node: log for node, log in found.items() if log}

    def transactions_since(self, node: str, file: str, offset: int) -> tuple[Sequence[str], bytes]:
        """Return the names of a ZooKeeper server's log files, and one's bytes from `offset` on."""
        return logs.transactions_since(self._agents[node], file, offset)

    def dates_may_be_wrong(self) -> bool:
        """Return whether the clocks of ZooKeeper's servers can be set wrong."""
        return self.settings.wrong_clocks

    def following_progress(
        self, heard: Callable[[float, float, int, bool], None]
    ) -> AbstractContextManager[None]:
        """Ask the ZooKeeper servers for their newest transactions while the block runs."""
        return following_progress(map(self.endpoint, self.topology.keepers), heard)

    # --- parts of the above -------------------------------------------------------------------

    def _engine(self) -> docker.DockerClient:
        if self._client is None:
            self._client = engine()
        return self._client

    def _close_agents(self) -> None:
        for agent in self._agents.values():
            agent.close()

    def _make_plan(self) -> ClusterPlan:
        kept = {KEEP: "1"} if self.keep else {}
        labels = {OWNER: this_process(), DIRECTORY: str(self.directory), **kept}
        topology, settings, images = self.topology, self.settings, self.images
        return plan_cluster(topology, settings, images, name=self.name, labels=labels)

    def _save(self) -> None:
        ClusterManifest(self.name, self.topology, self.images, self.settings).save(self.directory)

    def _find_pods(self) -> None:
        pods = find_pods(self._engine(), self._plan)
        self._endpoints = {node: pod.endpoint for node, pod in pods.items()}
        self._agents = {node: pod.agent for node, pod in pods.items()}
        addresses = {node: pod.address for node, pod in pods.items()}
        on_each(self._agents.values(), PodAgent.probe_port)  # while the servers are starting
        self._links = Links(self._agents, addresses, lambda: self._quality.slack_s())
        self._quality = LinkQuality(self._agents, addresses, self._links.is_cut)
        self._membership = Membership(
            self.topology,
            self._agents,
            {pod.node.name: pod.data for pod in self._plan.pods},
            self.endpoint,
        )

    def _processes(self) -> Processes:
        return Processes(
            self._engine(),
            self.topology,
            self._containers,
            self._agents,
            self._readiness.why_not_alive,
            self._readiness.why_unready,
            self._last_lines,
            self._compose_up,
        )

    def _compose_up(self, *nodes: str) -> None:
        secrets = self._user_store.keys.environment if self._user_store is not None else {}
        images = (self.images.pod, *(server.image for server in self._plan.servers))
        require_images(self._engine(), dict.fromkeys(images))
        compose_up(self.name, self.directory / "compose.yml", *nodes, secrets=secrets)

    def _proxies(self) -> Proxies:
        return Proxies({node: self._agents[node] for node in self.topology.replicas})

    def _end(self, node: str) -> str:
        with engine_request(f"look at {node}"):
            return end_of(self._engine().containers.get(self._containers[node]))

    def _last_lines(self, node: str) -> str:
        return logs.last_lines(self._engine(), self._containers[node], self.topology.node(node))

    def _await_whole(self) -> None:
        self._readiness.await_ready()
        self._reported = dict(self.versions())
        self._readiness.await_ddl()
        self._fetches.create()
        self._save()
