"""Connections to the agents inside the pods.

A `docker exec` costs 0.15 s and a round trip on an open connection 1 ms, so connections stay open:
to cut and verify a partition takes several commands to each pod.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import docker

from compose.plan import PORTS, ClusterPlan
from harness.clusters.engine import engine_request
from harness.core.errors import ClusterError
from harness.core.protocols import Endpoint

_AGENT: Final = ("python3", "/usr/local/bin/pod_agent.py")
_GRACE_S: Final = 60.0
"""Time limit of an answer, beyond the waiting time of the command itself. It takes milliseconds
unless the machine is overloaded: one stood still for more than 10 s."""


class PodAgent:
    """Connection to the agent in one pod. It executes one command at a time; other threads wait."""

    def __init__(self, client: docker.DockerClient, container: str, node: str) -> None:
        self._client = client
        self._container = container
        self._node = node
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._response: Any = None
        self._port = 0

    def probe_port(self) -> int:
        """Return the port on which the pod receives probes; each new connection has another."""
        with self._lock:
            self._open(time.monotonic() + _GRACE_S)
            return self._port

    def run(self, *argv: str, text: str = "", wait_s: float = 10.0) -> str:
        """Run a program in the pod and return its output. Raises ClusterError if it fails."""
        done = self.call("run", wait_s=wait_s, argv=list(argv), text=text)
        if done["status"] != 0:
            raise ClusterError(
                f"pod of {self._node}: {' '.join(argv)} ended with {done['status']}: "
                f"{done['stderr'].strip()}"
            )
        return str(done["stdout"])

    def files(self, directory: str, name: str) -> tuple[str, ...]:
        """Return the regular files below a directory whose name matches a pattern.

        There are none if the directory does not exist. Raises ClusterError.
        """
        kind = "d" if name.endswith("/") else "f"
        argv = ["find", directory, "-name", name.rstrip("/"), "-type", kind]
        done = self.call("run", wait_s=10, argv=argv, text="")
        if done["status"] and "No such file" not in done["stderr"]:
            raise ClusterError(
                f"{self._node}: {directory} cannot be listed: {done['stderr'].strip()}"
            )
        return tuple(done["stdout"].split())

    def call(self, command: str, *, wait_s: float | None = None, **arguments: Any) -> Any:
        """Execute a command and return the agent's answer.

        `wait_s` is passed on as the time that the command itself may take. Raises ClusterError if
        the pod does not answer; the next call opens a new connection.
        """
        if wait_s is not None:
            arguments["wait_s"] = wait_s
        deadline = time.monotonic() + (wait_s or 0.0) + _GRACE_S
        with self._lock:
            self._open(deadline)
            answer = self._exchange([command, arguments], deadline)
        if "error" in answer:
            raise ClusterError(f"pod of {self._node}: {command}: {answer['error']}")
        return answer["ok"]

    def close(self) -> None:
        """Close the connection, which ends the agent; idempotent."""
        with self._lock:
            self._drop()

    def _open(self, deadline: float) -> None:
        if self._socket is not None:
            return
        with engine_request(f"reach the pod of {self._node}"):
            api = self._client.api
            made = api.exec_create(self._container, list(_AGENT), stdin=True)
            response: Any = api.exec_start(made["Id"], socket=True)
        self._response = response  # kept alive: its destructor would close the socket
        self._socket = getattr(response, "_sock", response)
        self._port = self._exchange(["hello", {}], deadline)["ok"]["port"]

    def _exchange(self, request: object, deadline: float) -> Mapping[str, Any]:
        assert self._socket is not None
        try:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            out = bytearray()
            while not out.endswith(b"\n"):
                out += self._frame(deadline)
            answer: Mapping[str, Any] = json.loads(out)
        except (OSError, ValueError) as error:
            self._drop()
            raise ClusterError(f"pod of {self._node}: does not answer ({error})") from error
        return answer

    def _frame(self, deadline: float) -> bytes:
        """Return one frame of Docker's stream, whose header is a stream number and a length."""
        stream, length = struct.unpack(">BxxxL", self._receive(8, deadline))
        body = self._receive(length, deadline)
        if stream != 1:
            raise OSError(body.decode(errors="replace").strip().splitlines()[-1])
        return body

    def _receive(self, length: int, deadline: float) -> bytes:
        assert self._socket is not None
        got = b""
        while len(got) < length:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            more = self._socket.recv(length - len(got))
            if not more:
                raise OSError("the connection ended; is the pod running?")
            got += more
        return got

    def _drop(self) -> None:
        # The HTTP response closes its buffer before the socket below. Its destructor would flush
        # the buffer of a closed socket, an error that Python prints since 3.13.
        http = getattr(self._response, "_response", None)
        for opened in (http, self._socket, self._response):
            if opened is not None:
                opened.close()
        self._socket = self._response = None


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod, its address in the cluster's network, and the endpoint of its node."""

    agent: PodAgent
    address: str
    endpoint: Endpoint


def find_pods(client: docker.DockerClient, plan: ClusterPlan) -> dict[str, RunningPod]:
    """Return the pods of a cluster by node. Raises ClusterError if one does not run."""
    found: dict[str, RunningPod] = {}
    for pod in plan.pods:
        node = pod.node.name
        with engine_request(f"find the pod of {node} of the cluster {plan.name}"):
            attrs = client.containers.get(pod.container).attrs["NetworkSettings"]
        published = attrs["Ports"].get(f"{PORTS[pod.node.role]}/tcp")
        if not published:
            raise ClusterError(f"{pod.container}: does not run; remove the cluster")
        found[node] = RunningPod(
            PodAgent(client, pod.container, node),
            attrs["Networks"][plan.network]["IPAddress"],
            Endpoint("127.0.0.1", int(published[0]["HostPort"])),
        )
    return found
