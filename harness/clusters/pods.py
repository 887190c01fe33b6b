"""Commands to the agents inside the pods, over connections that stay open.

A `docker exec` costs 0.15 s here and a round trip to an open one 1 ms; cutting and verifying a
partition takes several to each pod.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import docker

from harness.clusters.engine import asking_engine
from harness.core.errors import ClusterError

_AGENT: Final = ("python3", "/usr/local/bin/pod_agent.py")
_GRACE_S: Final = 10.0
"""A command's own waiting time excepted, an answer takes milliseconds; so long on a machine
that is overloaded."""


class PodAgent:
    """The agent in one pod. One command at a time; callers on other threads wait their turn."""

    def __init__(self, client: docker.DockerClient, container: str, node: str) -> None:
        self._client = client
        self._container = container
        self._node = node
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._response: Any = None
        self._port = 0

    def probe_port(self) -> int:
        """Where its pod listens for probes; changes when the connection is opened again."""
        with self._lock:
            self._open(time.monotonic() + _GRACE_S)
            return self._port

    def run(self, *argv: str, text: str = "", wait_s: float = 10.0) -> str:
        """Runs a program in the pod and returns its output; raises ClusterError when it fails."""
        done = self.ask("run", wait_s=wait_s, argv=list(argv), text=text)
        if done["status"] != 0:
            raise ClusterError(
                f"pod of {self._node}: {' '.join(argv)} ended with {done['status']}: "
                f"{done['stderr'].strip()}"
            )
        return str(done["stdout"])

    def ask(self, command: str, *, wait_s: float | None = None, **arguments: Any) -> Any:
        """The agent's answer. `wait_s` is passed on: how long the command itself may take.

        Raises ClusterError when the pod does not answer; the next call connects anew.
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
        """Ends the connection, hence the agent. May be called twice."""
        with self._lock:
            self._drop()

    def _open(self, deadline: float) -> None:
        if self._socket is not None:
            return
        with asking_engine(f"reach the pod of {self._node}"):
            api = self._client.api
            made = api.exec_create(self._container, list(_AGENT), stdin=True)
            response: Any = api.exec_start(made["Id"], socket=True)
        self._response = response  # to close it; its end would be the socket's
        self._socket = getattr(response, "_sock", response)
        self._port = self._exchange(["hello", {}], deadline)["ok"]["port"]

    def _exchange(self, request: object, deadline: float) -> Mapping[str, Any]:
        assert self._socket is not None
        try:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            out = b""
            while not out.endswith(b"\n"):
                out += self._frame(deadline)
            answer: Mapping[str, Any] = json.loads(out)
        except (OSError, ValueError) as error:
            self._drop()
            raise ClusterError(f"pod of {self._node}: does not answer ({error})") from error
        return answer

    def _frame(self, deadline: float) -> bytes:
        """One frame of Docker's stream: a byte for the stream, three of nothing, the length."""
        stream, length = struct.unpack(">BxxxL", self._exactly(8, deadline))
        body = self._exactly(length, deadline)
        if stream != 1:
            raise OSError(body.decode(errors="replace").strip().splitlines()[-1])
        return body

    def _exactly(self, length: int, deadline: float) -> bytes:
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
        for opened in (self._socket, self._response):
            if opened is not None:
                opened.close()
        self._socket = self._response = None
