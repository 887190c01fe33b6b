"""Pods and containers of one cluster, which its parts share."""

from collections.abc import Mapping
from pathlib import Path

import docker
from docker.models.containers import Container

from compose.plan import DIRECTORY, KEEP, OWNER, ClusterPlan, Images, plan_cluster
from compose.render import render_again
from compose.settings import Settings
from harness.clusters import logs
from harness.clusters.base_image import require_images
from harness.clusters.compose_tool import compose_up
from harness.clusters.engine import engine, engine_request
from harness.clusters.manifest import ClusterManifest
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent, find_pods
from harness.clusters.processes import end_of
from harness.core.clock import utc_now
from harness.core.engines import Engines
from harness.core.errors import ClusterError
from harness.core.os_process import this_process
from harness.core.protocols import Endpoint
from harness.core.topology import Node, Role, Topology


class Containers:
    """Pods and containers of the nodes of one cluster, by node.

    `secrets` are variables of the environment of its containers. `agents` and `addresses` are those
    of the pods, none until they run.
    """

    def __init__(
        self,
        name: str,
        topology: Topology,
        directory: Path,
        images: Images,
        settings: Settings,
        *,
        keep: bool,
        secrets: Mapping[str, str],
    ) -> None:
        self.name = name
        self.topology = topology
        self.directory = directory
        self.images = images
        self.settings = settings
        self.keep = keep
        self.agents: dict[str, PodAgent] = {}
        self.addresses: dict[str, str] = {}
        self.reported: dict[str, str] = {}
        """Versions that nodes reported, which are more exact than an image's label."""
        self._endpoints: dict[str, Endpoint] = {}
        self._secrets = secrets
        self._client: docker.DockerClient | None = None
        self._collected_s: float | None = None
        """Time of the last collection of logs, in seconds since 1970, as the engine counts."""
        self._removed: dict[str, bytes] = {}
        """Output of the containers that upgrades removed, by node, since the last `collect`."""
        self.plan = self._make_plan()
        self.container_names = {s.node.name: s.container for s in self.plan.servers}
        self.pod_names = {p.node.name: p.container for p in self.plan.pods}

    @property
    def engines(self) -> Engines:
        """Return the engines of the servers and of upgrades."""
        return self.images.engines(self.topology).reporting(self.reported)

    def engine(self) -> docker.DockerClient:
        """Return the connection to the Docker engine."""
        if self._client is None:
            self._client = engine()
        return self._client

    def endpoint(self, node: str) -> Endpoint:
        """Return a replica's native port or a ZooKeeper server's client port, on 127.0.0.1."""
        self.topology.node(node)
        if node not in self._endpoints:
            raise ClusterError(f"{node}: has no port, the cluster {self.name} is not up")
        return self._endpoints[node]

    def container(self, node: str) -> Container:
        """Return the container of a server, as the engine has it now. Raises ClusterError."""
        with engine_request(f"find {node}"):
            return self.engine().containers.get(self.container_names[node])

    def start(self, *nodes: str) -> None:
        """Create and start the containers of these nodes, or of all. Raises ClusterError."""
        images = (self.images.pod, *(server.image for server in self.plan.servers))
        require_images(self.engine(), dict.fromkeys(images))
        compose_up(self.name, self.directory / "compose.yml", *nodes, secrets=self._secrets)

    def find_pods(self) -> None:
        """Connect to the agents of the pods, which run. Raises ClusterError."""
        pods = find_pods(self.engine(), self.plan)
        self._endpoints.update({node: pod.endpoint for node, pod in pods.items()})
        self.agents.update({node: pod.agent for node, pod in pods.items()})
        self.addresses.update({node: pod.address for node, pod in pods.items()})
        on_each(self.agents.values(), PodAgent.probe_port)  # while the servers are starting

    def change_version(self, node: str, version: str, ended: Container | None) -> None:
        """Render the configuration of a node for another version, and keep the output of its
        container that has ended."""
        if ended is not None:
            with engine_request(f"read the logs of {node}"):
                output = logs.output_of(ended, self._collected_s)
            self._removed[node] = self._removed.get(node, b"") + output
        self.topology = self.topology.with_version(node, version)
        self.plan = self._make_plan()
        self.reported.pop(node, None)
        render_again(self.plan, node, self.directory)

    def collect(self, directory: Path) -> None:
        """Move every node's logs to `directory`/<node>/, also those of dead servers."""
        client, since_s = self.engine(), self._collected_s
        self._collected_s = utc_now().timestamp()

        def move(node: Node) -> None:
            container, pod = self.container_names[node.name], self.pod_names[node.name]
            agent, before = self.agents[node.name], self._removed.pop(node.name, b"")
            to = directory / node.name
            logs.collect_node(client, container, pod, agent, node, to, since_s, before)
            if node.role is Role.CLICKHOUSE:
                logs.truncate_logs(agent)

        on_each(self.topology.nodes, move)

    def errors(self, node: str, bytes_max: int) -> str:
        """Return the end of a node's log since the last `collect`, see `KeepsErrors`."""
        if self.topology.node(node).role is Role.CLICKHOUSE:
            return logs.errors_of(self.agents[node], bytes_max)
        with engine_request(f"read the logs of {node}"):
            output = logs.output_of(self.container(node), self._collected_s)
        return (self._removed.get(node, b"") + output)[-bytes_max:].decode(errors="replace")

    def end(self, node: str) -> str:
        """Return how the container of a server ended; "" if it runs. Raises ClusterError."""
        with engine_request(f"look at {node}"):
            return end_of(self.engine().containers.get(self.container_names[node]))

    def last_lines(self, node: str) -> str:
        """Return the end of a node's log. Raises ClusterError."""
        return logs.last_lines(self.engine(), self.container_names[node], self.topology.node(node))

    def save(self) -> None:
        """Write the manifest, by which another process finds the cluster."""
        addresses = {node: f"{one.host}:{one.port}" for node, one in self._endpoints.items()}
        found = ClusterManifest(self.name, self.topology, self.images, self.settings, addresses)
        found.save(self.directory)

    def close_agents(self) -> None:
        """Close the connections to the pods; idempotent."""
        for agent in self.agents.values():
            agent.close()

    def close(self) -> None:
        """Close the connections to the pods and the engine; idempotent."""
        self.close_agents()
        if self._client is not None:
            self._client.close()
            self._client = None

    def _make_plan(self) -> ClusterPlan:
        kept = {KEEP: "1"} if self.keep else {}
        labels = {OWNER: this_process(), DIRECTORY: str(self.directory), **kept}
        topology, settings, images = self.topology, self.settings, self.images
        return plan_cluster(topology, settings, images, name=self.name, labels=labels)
