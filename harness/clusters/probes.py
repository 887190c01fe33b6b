"""Datagrams from pod to pod, to see for oneself what a link does with packets."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping

from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.topology import Link


class Probes:
    """Between the pods of one cluster. A probe over a link that carries packets is in the target's
    queue when `sendto` returns, unless an address had to be resolved first."""

    def __init__(self, pods: Mapping[str, PodAgent], addresses: Mapping[str, str]) -> None:
        self._pods = pods
        self._addresses = addresses

    def named(self, links: Iterable[Link], count: int = 1) -> dict[str, Link]:
        """So many new probes for each link, by nonce."""
        run = uuid.uuid4().hex[:12]
        every = [link for link in links for _ in range(count)]
        return {f"{run} {number}": link for number, link in enumerate(every)}

    def exchange(self, probes: Mapping[str, Link], wait_s: float) -> frozenset[str]:
        """Sends each once, and returns the nonces of those that came: once all have, or after
        `wait_s`. One that comes later is heard when its nonce is sent again."""
        self._send(probes)
        by_target: dict[str, list[str]] = defaultdict(list)
        for nonce, link in probes.items():
            by_target[link.target].append(nonce)
        answers = on_each(
            by_target,
            lambda node: self._pods[node].ask("heard", wait_s=wait_s, nonces=by_target[node]),
        )
        return frozenset(nonce for answer in answers.values() for nonce in answer)

    def _send(self, probes: Mapping[str, Link]) -> None:
        targets = (link.target for link in probes.values())
        ports = on_each(targets, lambda node: self._pods[node].probe_port())
        by_source: dict[str, list[Mapping[str, str | int]]] = defaultdict(list)
        for nonce, link in probes.items():
            probe: dict[str, str | int] = {
                "address": self._addresses[link.target],
                "port": ports[link.target],
                "nonce": nonce,
            }
            by_source[link.source].append(probe)
        on_each(by_source, lambda node: self._pods[node].ask("send", probes=by_source[node]))
