"""Cluster of real servers on a Docker engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, ClassVar

from compose.plan import Images
from compose.render import render
from compose.settings import Settings
from harness.clusters.clocks import NodeClocks, prepare_clocks
from harness.clusters.connections import OpenConnections, ServerNames
from harness.clusters.containers import Containers
from harness.clusters.disks import NodeDisks, write_program
from harness.clusters.engine import engine_request, outlasting
from harness.clusters.ensemble import EnsembleMembers
from harness.clusters.failpoints import Failpoints
from harness.clusters.fetches import Fetches
from harness.clusters.link_quality import LinkQuality
from harness.clusters.links import Links
from harness.clusters.manifest import ClusterManifest
from harness.clusters.membership import NodeStorage, TableReplicas
from harness.clusters.processes import Processes
from harness.clusters.proxies import Proxies
from harness.clusters.reachable import Reachable
from harness.clusters.readiness import Readiness
from harness.clusters.removal import lock_cluster, remove_run
from harness.clusters.resources import NodeResources
from harness.clusters.server_files import ErrorLogs, ServerFiles, TransactionLogs
from harness.clusters.store_http import HttpStoreChannel
from harness.clusters.store_rule import StoreRules
from harness.clusters.upgrades import Upgrades
from harness.clusters.user_store import UserStore
from harness.core.bucket import Bucket
from harness.core.connections import StoreChannel
from harness.core.engines import Engines
from harness.core.errors import ClusterError, ObjectsLeftError
from harness.core.protocols import Endpoint
from harness.core.runtime import Runtime, WallTime
from harness.core.seed import Seed
from harness.core.topology import Topology


class DockerCluster(Reachable):
    """Cluster of real servers.

    `directory` holds the compose file, the configuration and the manifest that `attach` needs. A
    cluster that is made with `keep` outlives its process, and `clean` leaves it alone. The keys of
    a user's bucket are those in the environment; without them UsageError is raised.
    """

    parts: ClassVar[tuple[type, ...]] = (
        Links,
        OpenConnections,
        ServerNames,
        LinkQuality,
        Processes,
        Upgrades,
        Readiness,
        Fetches,
        Failpoints,
        Proxies,
        StoreRules,
        ServerFiles,
        ErrorLogs,
        TransactionLogs,
        NodeDisks,
        NodeClocks,
        NodeResources,
        NodeStorage,
        TableReplicas,
        EnsembleMembers,
    )

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
        self.directory = directory.absolute()
        self.keep = keep
        self._attached = False
        self._lock: IO[str] | None = None
        self._user_store = UserStore.of(topology, self.name)
        containers = self._containers = Containers(
            self.name,
            topology,
            self.directory,
            images,
            settings or Settings(),
            keep=keep,
            secrets=self._user_store.keys.environment if self._user_store is not None else {},
        )
        self._fetches = Fetches(topology.replicas, self.endpoint)
        self._readiness = Readiness(
            self.name,
            topology,
            self.endpoint,
            self._fetches.refusal,
            containers.end,
            containers.last_lines,
        )
        self._processes = Processes(
            containers.engine,
            topology,
            containers.container_names,
            containers.agents,
            self._readiness.why_not_alive,
            self._readiness.why_unready,
            containers.last_lines,
            containers.start,
        )
        agents, addresses = containers.agents, containers.addresses
        links = Links(agents, addresses, lambda: self.part(LinkQuality).slack_s())
        data = {pod.node.name: pod.data for pod in containers.plan.pods}
        super().__init__(
            links,
            OpenConnections(agents, addresses),
            ServerNames(agents, addresses, topology.keepers),
            LinkQuality(agents, addresses, links.is_cut),
            self._processes,
            Upgrades(containers, self._processes, self._readiness),
            self._readiness,
            self._fetches,
            Failpoints(self.endpoint),
            Proxies(agents, topology.replicas, self._processes, self._readiness),
            StoreRules(lambda: self.endpoint(topology.stores[0])),
            ServerFiles(containers),
            ErrorLogs(containers),
            TransactionLogs(containers),
            NodeDisks(containers, self._processes),
            NodeClocks(containers),
            NodeResources(containers, self._readiness),
            NodeStorage(agents, data),
            TableReplicas(topology, self.endpoint),
            EnsembleMembers(containers),
        )

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

    def up(self) -> None:
        """Bring the cluster up and return when every server serves.

        Raises ClusterError with the end of the log of a server that does not come up, after it has
        removed what it created; an attached cluster stays as it is.
        """
        if self._lock is None:
            self._lock = lock_cluster(self.directory)
        if self._attached:
            self._containers.find_pods()
            self._heal()
            self._await_whole()
            return
        try:
            render(self._containers.plan, self.directory)
            write_program(self._containers.settings, self.directory)
            prepare_clocks(self._containers.plan, self.directory)
            self._containers.start()
            self._containers.find_pods()
            if self._user_store is not None:
                agents = self._containers.agents
                self._user_store.check_reachable(agents, self.topology.replicas)
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
            self._containers.close_agents()
            outlasting(lambda: remove_run(self._containers.engine(), self.name, self.directory))
        except ObjectsLeftError:
            raise
        except ClusterError as error:
            clean = f"harness clean {self.name}" if self.keep else "harness clean"
            raise ClusterError(f"{error}; {clean} removes what is left") from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connections to the cluster and leave it running; idempotent."""
        self._containers.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def ping(self) -> None:
        """Raise ClusterError if the engine does not answer."""
        with engine_request("ping"):
            self._containers.engine().ping()

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port, on 127.0.0.1."""
        return self._containers.endpoint(node)

    def store_channel(self, timeout_s: float) -> StoreChannel:
        """Return a new connection to the object store."""
        if self._user_store is not None:
            return self._user_store.channel(timeout_s)
        own = self.endpoint(self.topology.stores[0])
        return HttpStoreChannel(Bucket(f"http://{own.host}:{own.port}"), timeout_s)

    @property
    def topology(self) -> Topology:
        """Return the nodes, each with its version of now."""
        return self._containers.topology

    @property
    def images(self) -> Images:
        """Return the images of the servers and of upgrades."""
        return self._containers.images

    @property
    def engines(self) -> Engines:
        """Return the engines of the servers and of upgrades."""
        return self._containers.engines

    def offer(self, images: Images) -> None:
        """Add images that nodes may be upgraded to."""
        self._containers.images = self.images.with_servers(images)

    def collect(self, directory: Path) -> None:
        """Move every node's logs to `directory`/<node>/, also those of dead servers."""
        self._containers.collect(directory)

    def _heal(self) -> None:
        """End whatever faults an earlier process has left."""
        clocks = self.part(NodeClocks)
        self.part(Links).mend()
        self.part(OpenConnections).end_silence(self.topology.names)
        self.part(ServerNames).end_misnaming(self.topology.replicas)
        self.part(LinkQuality).restore_links()
        self._processes.resume(self.topology.names)
        self.part(NodeDisks).heal_disks()
        clocks.reset_clocks(clocks.clocked())
        self.part(NodeResources).feed_all()
        self._processes.start(self.topology.names)
        self._fetches.start_fetches(self.topology.replicas)
        if self.topology.stores:
            self.part(StoreRules).set_store_rule({})

    def _await_whole(self) -> None:
        self._readiness.await_ready()
        self._containers.reported = dict(self.versions())
        self._readiness.await_ddl()
        self._fetches.create()
        self._containers.save()
