"""Killing, pausing, starting servers, and what the kernel says of them.

Signals are sent from the pod, which sees the database's processes because the two containers
share a process namespace. `docker pause` would freeze the control group instead: a frozen
process looks asleep to the kernel's process table, so nobody could verify it, and a real SIGSTOP
is what operators and other harnesses mean by a pause.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from harness.clusters.engine import asking_engine
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.errors import ClusterError, FaultError, StartError
from harness.core.topology import Role, Topology

_SIGNAL_S: Final = 10.0
"""A thread stops when it next leaves the kernel, which an fsync may delay."""
_EXIT_S: Final = 20.0
"""For the engine to notice that a server's processes are gone."""
_TERM_S: Final = 30
"""For a server to end after SIGTERM. ClickHouse waits for its merges and its sessions."""
_LAST_TERM_S: Final = 60
"""For a server that is replaced by one of another version. With its peers' and its clients'
connections open, 24.8 takes 30 s under load."""
_REFUSALS: Final = 3
"""A server that ended so many times at its start on another version's data refuses them."""
_START_S: Final = 30.0
"""For a started server to answer on its port, 0.5 to 1 s where nothing is wrong."""
_HANGS_S: Final = 6.0
"""A server that has not answered so long after its start never will."""
_ELECTED_S: Final = 5.0
"""For ZooKeeper servers that were started together to elect a leader, 0.5 to 1 s where nothing is
wrong. Without a quorum they never do."""
_BETWEEN_STARTS_S: Final = 0.5
_POLL_S: Final = 0.05
_NEXT: Final = "-next"
"""The end of the name of a container that is about to take another's place."""


class Processes:
    """The servers of one cluster.

    `answers(node)` says why a server does not answer on its own port, None when it does;
    `unready(node)`, why it cannot serve; `last_lines(node)` is the end of its log; `create(node)`
    makes and starts the container of a node that has none.
    """

    def __init__(
        self,
        client: docker.DockerClient,
        topology: Topology,
        containers: Mapping[str, str],
        pods: Mapping[str, PodAgent],
        answers: Callable[[str], str | None],
        unready: Callable[[str], str | None],
        last_lines: Callable[[str], str],
        create: Callable[[str], None],
    ) -> None:
        self._client = client
        self._topology = topology
        self._containers = containers
        self._pods = pods
        self._answers = answers
        self._unready = unready
        self._last_lines = last_lines
        self._create = create

    def kill(self, nodes: Iterable[str]) -> None:
        """SIGKILL; returns when the processes are gone. Of what does not run, nothing happens."""
        on_each(nodes, lambda node: self._signal(node, "KILL", "gone"))

    def pause(self, nodes: Iterable[str]) -> None:
        """SIGSTOP; returns when every thread is stopped. Raises FaultError for a server that
        does not run."""
        on_each(nodes, self._pause)

    def resume(self, nodes: Iterable[str]) -> None:
        """SIGCONT; returns when no thread is stopped."""
        on_each(nodes, lambda node: self._signal(node, "CONT", "continued"))

    def running(self, node: str) -> bool:
        """Whether the kernel has a process of the server."""
        return bool(self._list(node))

    def paused(self, node: str) -> bool:
        """Whether there are processes of the server and every thread of theirs is stopped."""
        processes = self._list(node)
        return bool(processes) and all(set(p["states"]) <= set("TtZX") for p in processes)

    def start(self, nodes: Iterable[str]) -> None:
        """Starts what does not run, and returns when each server answers on its own port, with
        or without a quorum behind it. Raises ClusterError."""
        keepers, replicas = self._keepers_first(nodes)
        on_each(keepers, self._start)
        if not all(map(self.running, replicas)):
            self._await_leader(keepers)
        on_each(replicas, self._start)

    def restart(self, nodes: Iterable[str]) -> None:
        """SIGTERM, wait, start. Raises FaultError when a server had to be killed after all; it
        has been started again then."""
        nodes = tuple(nodes)
        ended = on_each(nodes, self._stop)
        self.start(nodes)
        killed = [node for node, graceful in ended.items() if not graceful]
        if killed:
            raise FaultError(
                f"{' '.join(killed)}: did not end {_TERM_S} s after SIGTERM; was killed and "
                "started again"
            )

    def replace(
        self,
        node: str,
        image: str,
        environment: Mapping[str, str],
        change: Callable[[Container | None], None],
    ) -> float:
        """SIGTERM, wait, and start a container of another image in the place of the one that has
        ended. Returns when the server answers: the seconds since SIGTERM. `change` is called in
        between, with the container that has ended; None where an earlier call was cut short.
        Raises StartError when the new server does not answer, FaultError when the one before it
        had to be killed after all."""
        ended = self._container(node)
        began = time.monotonic()
        graceful = True
        if ended is None:
            change(None)
        else:
            fresh = self._made_like(ended, node, image, environment)
            began = time.monotonic()
            try:
                graceful = self._stop(node, _LAST_TERM_S)
                change(ended)
            except BaseException:
                with asking_engine(f"remove a container of {node}"):
                    fresh.remove(force=True)
                raise
            with asking_engine(f"replace the container of {node}"):
                ended.remove(force=True)
                fresh.rename(self._containers[node])
        self._start(node, ends_max=_REFUSALS)
        if not graceful:
            raise FaultError(
                f"{node}: did not end {_LAST_TERM_S} s after SIGTERM; was killed, and replaced"
            )
        return time.monotonic() - began

    def _made_like(
        self, other: Container, node: str, image: str, environment: Mapping[str, str]
    ) -> Container:
        """Return a container that joins the same pod and has the same volumes and labels. It is
        made while the other still serves: what takes longest on a busy machine costs no client
        anything. The compose tool would take seconds, with the server away."""
        self._remove_unused(node)
        config = {
            "Image": image,
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "Labels": other.attrs["Config"]["Labels"],
            "HostConfig": other.attrs["HostConfig"],
        }
        with asking_engine(f"make a container of {image} for {node}"):
            api: Any = self._client.api
            made = api.create_container_from_config(config, f"{self._containers[node]}{_NEXT}")
            return self._client.containers.get(made["Id"])

    def _remove_unused(self, node: str) -> None:
        """What a call that was cut short has left."""
        with asking_engine(f"look for a container of {node}"), suppress(NotFound):
            self._client.containers.get(f"{self._containers[node]}{_NEXT}").remove(force=True)

    def _keepers_first(self, nodes: Iterable[str]) -> tuple[list[str], list[str]]:
        """A replica needs ZooKeeper to start."""
        nodes = tuple(nodes)
        first = [node for node in nodes if self._topology.node(node).role is Role.ZOOKEEPER]
        return first, [node for node in nodes if node not in first]

    def _await_leader(self, keepers: Sequence[str]) -> None:
        """Or until it is clear that there will be none now."""
        deadline = time.monotonic() + _ELECTED_S
        while any(map(self._unready, keepers)) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _list(self, node: str) -> list[dict[str, Any]]:
        processes: list[dict[str, Any]] = self._pods[node].ask("processes")
        return processes

    def _signal(self, node: str, name: str, until: str) -> int:
        done = self._pods[node].ask("signal", name=name, until=until, wait_s=_SIGNAL_S)
        if not done["reached"]:
            left = " ".join(f"{p['pid']} {p['name']} {p['states']}" for p in done["processes"])
            raise FaultError(
                f"{node}: not {until} {_SIGNAL_S:g} s after SIG{name}; processes and states of "
                f"their threads: {left}"
            )
        return int(done["signalled"])

    def _pause(self, node: str) -> None:
        if not self._signal(node, "STOP", "stopped"):
            raise FaultError(f"{node}: cannot be paused, its server does not run")

    def _container(self, node: str) -> Container | None:
        """None: it has none, for an upgrade was cut short."""
        with asking_engine(f"find the container of {node}"):
            try:
                return self._client.containers.get(self._containers[node])
            except NotFound:
                return None

    def _start(self, node: str, *, ends_max: int | None = None) -> None:
        """As a service manager would: a server that ends, or hangs, is started again; with
        `ends_max` not after it ended by itself so many times.

        18.16.1 with a replicated table needs one of its ZooKeeper servers when it starts. Where
        it reaches none it ends with error 132 or "Invalid argument", or hangs for good at
        "Starting up tables", even when ZooKeeper comes back (measured: 6 and 2 of 8 starts); or,
        on a busy machine, it answers without the table until it is started again (9 of 14).
        """
        began = time.monotonic()
        starts = ends = 0
        while True:
            if self.paused(node):
                raise ClusterError(f"{node}: cannot answer, it is paused; resume it first")
            if not self.running(node):
                self._run(node)
                starts += 1
            why = self._await_answer(node)
            if why is None:
                return
            ends += not self.running(node)
            if ends == ends_max or time.monotonic() - began > _START_S:
                raise StartError(
                    f"{node}: does not answer {time.monotonic() - began:.0f} s and {starts} starts "
                    f"on: {why}; the end of its log:\n{self._last_lines(node)}"
                )
            self._signal(node, "KILL", "gone")
            time.sleep(_BETWEEN_STARTS_S)

    def _run(self, node: str) -> None:
        container = self._exited(node)
        if container is None:
            self._remove_unused(node)
            self._create(node)
            return
        with asking_engine(f"start {node}"):
            container.start()

    def _await_answer(self, node: str) -> str | None:
        """None once it answers; else why it does not, when it ended or hangs."""
        hangs = time.monotonic() + _HANGS_S
        while (why := self._answers(node)) is not None:
            if not self.running(node):
                return "it ended"
            if time.monotonic() > hangs:
                return why
            time.sleep(_POLL_S)
        return None

    def _exited(self, node: str) -> Container | None:
        """The container, once the engine knows that its processes are gone: until then it would
        take a start for done. None: there is none."""
        deadline = time.monotonic() + _EXIT_S
        while True:
            container = self._container(node)
            if container is None or container.status in ("exited", "created"):
                return container
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{node}: has no process, yet the engine still calls its container "
                    f"{container.status} after {_EXIT_S:g} s"
                )
            time.sleep(0.02)

    def _stop(self, node: str, term_s: int = _TERM_S) -> bool:
        """SIGTERM; whether it ended by itself. A paused server is resumed, for it could not."""
        self._signal(node, "CONT", "continued")
        container = self._container(node)
        if container is None:
            return True
        with asking_engine(f"stop {node}"):
            container.stop(timeout=term_s)
            container.reload()
        return bool(container.attrs["State"]["ExitCode"] != 137)
