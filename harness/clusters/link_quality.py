"""Quality of links: packets that are delayed, reordered, doubled, lost or slow, seen by probes.

Packets are degraded where they come in: those of a link a → b in b's pod, before the packet filter
that cuts links sees them. A rule of iptables puts them into a queue of the kernel, which the
program packet-queue of the pod empties. All pods share one clock, so that probes measure each
direction of a link by itself.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.clusters.links import FilterChain
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.core.capabilities import CanDegradeLinks
from harness.core.clock import WallClock
from harness.core.errors import ClusterError
from harness.core.link_quality import HOLD_MS, LinkEvidence, LinkFault
from harness.core.topology import Link

PROGRAM: Final = "packet-queue"
_QUEUE: Final = 7
_RULE: Final = f"-j NFQUEUE --queue-num {_QUEUE} --queue-bypass"
_UNUSED_ADDRESS: Final = "192.0.2.1"
"""Address for documentation, RFC 5737."""

_FIELDS: Final[Mapping[LinkFault, str]] = {
    LinkFault.DELAY: "delay_ms",
    LinkFault.JITTER: "jitter_ms",
    LinkFault.REORDER: "reorder",
    LinkFault.DUPLICATE: "duplicate",
    LinkFault.RATE: "rate_kbit",
    LinkFault.LOSS: "loss",
}
"""Names of the amounts for the program."""

_COUNTED: Final[Mapping[LinkFault, str]] = {
    LinkFault.REORDER: "reordered",
    LinkFault.DUPLICATE: "duplicated",
    LinkFault.LOSS: "lost",
}
"""Counts of the program, by the faults that affect single packets."""

_PACKET_BYTES: Final = 1_000
_HEADER_BYTES: Final = 28
_SLOW_QUEUE_MS: Final = 1_000.0
"""Time that a packet may wait before a slow link, see packet_queue/src/link.rs."""
_ARRIVAL_S: Final = 0.3
"""Time for which probes are waited for, beyond what the faults add. They take less than 1 ms unless
the machine is overloaded."""
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Volley:
    """Probes that show one fault."""

    count: int
    gap_us: int
    bytes: int = 64

    @property
    def length_ms(self) -> float:
        """Return how long it takes to send them."""
        return self.count * self.gap_us / 1e3


_VOLLEYS: Final[Mapping[LinkFault, Volley]] = {
    LinkFault.DELAY: Volley(8, 2_000),
    LinkFault.JITTER: Volley(24, 8_000),
    LinkFault.REORDER: Volley(48, 2_000),
    LinkFault.DUPLICATE: Volley(24, 1_000),
    LinkFault.RATE: Volley(16, 0, _PACKET_BYTES),
    LinkFault.LOSS: Volley(32, 1_000),
}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What arrived of one volley over one link."""

    sent: int
    arrived: int = 0
    copies: int = 0
    overtaken: int = 0
    delay_ms_min: float = 0.0
    delay_ms_median: float = 0.0
    delay_ms_max: float = 0.0
    span_ms: float = 0.0

    @property
    def kbit_per_s(self) -> float:
        """Return how fast the probes arrived, all after the first."""
        bits = max(0, self.arrived - 1) * (_PACKET_BYTES + _HEADER_BYTES) * 8
        return bits / max(self.span_ms, 0.001)


class LinkQuality(CanDegradeLinks):
    """Faults of the links of one cluster. Several may be in force on a link."""

    def __init__(
        self,
        pods: Mapping[str, PodAgent],
        addresses: Mapping[str, str],
        is_cut: Callable[[Link], bool],
    ) -> None:
        self._pods = pods
        self._addresses = addresses
        self._is_cut = is_cut
        self._chain = FilterChain(pods, "HARNESS-QUALITY", "raw", ("PREROUTING", "!", "-i", "lo"))
        self._lock = threading.Lock()
        self._amounts: dict[Link, dict[LinkFault, float]] = defaultdict(dict)
        self._seeds: dict[str, int] = defaultdict(int)
        """Seed of the choices on the links that end at a node."""

    def why_unavailable(self) -> str | None:
        """Return what the pods' image or the kernel lacks; None if nothing."""
        node = next(iter(self._pods))
        with self._lock:
            try:
                self._ask(node, {"do": "state"})
                self._chain.write(node, [f"-s {_UNUSED_ADDRESS} {_RULE}"])
                self._write(node)
                raw = self._ask(node, {"do": "state"})["raw"]
            except ClusterError as error:
                return str(error)
        return f"it cannot send copies of packets: {raw}" if raw else None

    def degrade_links(
        self, links: Iterable[Link], fault: LinkFault, amount: float, seed: int
    ) -> None:
        with self._lock:
            changed = set()
            for link in links:
                self._amounts[link][fault] = amount
                self._seeds[link.target] = seed
                changed.add(link.target)
            on_each(changed, self._write)

    def restore_links(self, faults: Iterable[LinkFault] = tuple(LinkFault)) -> None:
        """End these faults on every link; idempotent. What was held back passes."""
        ended = tuple(faults)
        with self._lock:
            for amounts in self._amounts.values():
                for fault in ended:
                    amounts.pop(fault, None)
            on_each(self._pods, self._write)

    def slack_s(self) -> float:
        """Return how much longer than usual a packet may take now."""
        with self._lock:
            every = [self._slack_ms(amounts) for amounts in self._amounts.values()]
        return max(every, default=0.0) / 1e3

    def link_evidence(
        self, links: Iterable[Link], fault: LinkFault, amount: float
    ) -> dict[Link, LinkEvidence]:
        """Send probes over these links and return whether they show a fault of this amount.

        Where a link is cut, or has another fault too, the program's own report decides: the probes
        could not tell what delayed or lost them.
        """
        wanted = tuple(links)
        arrivals = self._exchange(wanted, _VOLLEYS[fault])
        states = self._states(wanted)
        with self._lock:
            mixed = {link for link in wanted if self._amounts[link].keys() - {fault}}
        return {
            link: _reported(fault, states[link])
            if link in mixed or self._is_cut(link)
            else _probed(fault, amount, arrivals[link])
            for link in wanted
        }

    def packets(self, links: Iterable[Link]) -> int:
        """Return how many packets were queued on these links since they were degraded."""
        return sum(int(state["packets"]) for state in self._states(tuple(links)).values() if state)

    def _states(self, links: tuple[Link, ...]) -> dict[Link, Mapping[str, Any] | None]:
        """Return what the programs report of links; None for one that is not degraded."""
        states = on_each({link.target for link in links}, lambda n: self._ask(n, {"do": "state"}))
        return {
            link: states[link.target]["links"].get(self._addresses[link.source]) for link in links
        }

    def _exchange(self, links: tuple[Link, ...], volley: Volley) -> dict[Link, Arrivals]:
        """Send a volley over each link and return what arrived, once all has or time is over."""
        exchange = uuid.uuid4().int >> 66  # the program's numbers have 63 bits
        ends = {node for link in links for node in (link.source, link.target)}
        ports = on_each(ends, lambda n: self._ask(n, {"do": "state"})["port"])
        by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for link in links:
            to = {"address": self._addresses[link.target], "port": ports[link.target]}
            by_source[link.source].append(
                {**to, "count": volley.count, "bytes": volley.bytes, "gap_us": volley.gap_us}
            )
        on_each(
            by_source,
            lambda n: self._ask(n, {"do": "probe", "exchange": exchange, "to": by_source[n]}),
        )
        clock, patience_s = WallClock(), volley.length_ms / 1e3 + self.slack_s() + _ARRIVAL_S
        while True:
            found = self._heard(links, exchange, volley.count)
            missing = any(one.arrived < one.sent for one in found.values())
            if not missing or clock.now_ns() > patience_s * 1e9:
                return found
            clock.sleep_until(clock.now_ns() + int(_POLL_S * 1e9))

    def _heard(self, links: tuple[Link, ...], exchange: int, sent: int) -> dict[Link, Arrivals]:
        targets = {link.target for link in links}
        heard = on_each(targets, lambda n: self._ask(n, {"do": "heard", "exchange": exchange}))
        return {
            link: Arrivals(sent, **heard[link.target].get(self._addresses[link.source], {}))
            for link in links
        }

    def _slack_ms(self, amounts: Mapping[LinkFault, float]) -> float:
        delay_ms = amounts.get(LinkFault.DELAY, 0.0) + amounts.get(LinkFault.JITTER, 0.0)
        hold_ms = HOLD_MS if LinkFault.REORDER in amounts else 0.0
        return delay_ms + hold_ms + (_SLOW_QUEUE_MS if LinkFault.RATE in amounts else 0.0)

    def _write(self, node: str) -> None:
        """Tell the program of a pod what its links are like, and queue their packets."""
        links = {
            self._addresses[link.source]: self._quality(amounts)
            for link, amounts in self._amounts.items()
            if link.target == node and amounts
        }
        if not links and not self._pods[node].call("running", program=PROGRAM):
            return
        self._ask(node, {"do": "set", "seed": self._seeds[node], "links": links})
        self._chain.replace(node, (f"-s {source} {_RULE}" for source in sorted(links)))

    def _quality(self, amounts: Mapping[LinkFault, float]) -> dict[str, float]:
        return {_FIELDS[fault]: amount for fault, amount in amounts.items()} | {"hold_ms": HOLD_MS}

    def _ask(self, node: str, message: Mapping[str, Any]) -> Any:
        """Return the program's answer; it is started if it does not run. Raises ClusterError."""
        answer = self._pods[node].call("ask", program=PROGRAM, message=message, start_it=True)
        if "error" in answer:
            raise ClusterError(f"pod of {node}: {PROGRAM}: {answer['error']}")
        return answer["ok"]


def _reported(fault: LinkFault, state: Mapping[str, Any] | None) -> LinkEvidence:
    """Return what the program says of a link whose probes cannot tell."""
    if state is None or not state["quality"][_FIELDS[fault]]:
        return LinkEvidence(False, "the queue does not apply it")
    counted = _COUNTED.get(fault, "delayed")
    return LinkEvidence(state[counted] > 0, f"{state[counted]} packets {counted}")


def _probed(fault: LinkFault, amount: float, probes: Arrivals) -> LinkEvidence:
    """Return whether probes show a fault. Delays and rates of a busy machine are not taken for it:
    most probes of a good link arrive at once even there."""
    if fault in _COUNTED:
        seen = {
            LinkFault.LOSS: (probes.sent - probes.arrived, "lost"),
            LinkFault.DUPLICATE: (probes.copies, "doubled"),
            LinkFault.REORDER: (probes.overtaken, "overtaken"),
        }
        count, text = seen[fault]
        return LinkEvidence(count > 0, f"{count} of {probes.sent} probes {text}")
    if probes.arrived < 2:
        return LinkEvidence(None, f"{probes.arrived} of {probes.sent} probes arrived")
    if fault is LinkFault.RATE:
        rate = probes.kbit_per_s
        return LinkEvidence(rate <= 2 * amount, f"{rate:.0f} kbit/s")
    if fault is LinkFault.DELAY:
        delay_ms = probes.delay_ms_min
        return LinkEvidence(delay_ms >= 0.9 * amount, f"{delay_ms:.1f} ms one way")
    spread_ms = probes.delay_ms_max - probes.delay_ms_min
    seen_jitter = min(spread_ms, probes.delay_ms_median) >= amount / 8
    text = f"{probes.delay_ms_min:.1f} to {probes.delay_ms_max:.1f} ms one way"
    return LinkEvidence(seen_jitter, text)
