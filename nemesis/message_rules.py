"""Rules for single messages that a script gives: hold a message, await it, release it.

The variants of nemesis/message.py are for faults at random; this family does what the plan of each
of its calls says. A plan names a replica ("node") and a rule of its proxy ("rule"), and says what
to "do":

    hold     install the rule, which holds back each message that it applies to
    count    install the rule, which forwards and counts them
    await    wait until the rule has applied to `messages` (1) of them; one that counts: until these
             are answered
    release  remove the rule, forward what it held back, and wait until that is answered

The other fields of a plan are the rule's (compose/images/pod/pod_proxy.py), its edge called "side".
"""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.core.capabilities import CanIntercept
from harness.core.dialect import Mechanism
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from harness.core.topology import Topology
from nemesis.family import Watch

NAME: Final = "message-hold"
TEXT: Final = "messages are held back and released as a script says; without one, no faults"
ACTIONS: Final = ("hold", "count", "await", "release")
POLL_NS: Final = 5_000_000
AWAITED_S: Final = 10.0
"""Time to wait for a message and for an answer."""


class MessageRules:
    """Family of the rules of a script. See the module."""

    f = NAME
    once = True
    heal_rank = 0
    needs: tuple[type | Mechanism, ...] = (CanIntercept,)
    turns = 0
    """Number of faults at random."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._touched: dict[str, None] = {}
        """Every replica whose proxy ever had a rule."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:  # noqa: ARG002
        """Raise AssertionError: scripts have the plans."""
        raise AssertionError(f"{self.f} draws no faults")

    def finish(self, cluster: Cluster) -> None:
        """No-op: there are no steps to take."""

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Do what the plan says. Raises FaultError if what it waits for does not come."""
        do, node, name = (str(plan.get(field)) for field in ("do", "node", "rule"))
        if do not in ACTIONS or node not in self._topology.replicas:
            raise FaultError(
                f"{do} {name} on {node}: expected one of {' '.join(ACTIONS)} and a replica"
            )
        servers = _interceptable(cluster)
        watch.check()
        if do in ("hold", "count"):
            self._touched[node] = None
            words = {
                "edge" if key == "side" else key: plan[key] for key in RULE_FIELDS if key in plan
            }
            servers.intercept([node], {**words, "name": name, "do": do})
        elif do == "release":
            servers.release([node], name)
        wait = Watch(AWAITED_S, watch.abandoned, watch.clock)
        count = plan.get("messages", 1)
        assert isinstance(count, int), "a number of messages is a number"
        if wrong := _until(wait, servers, node, name, do, count):
            raise FaultError(wrong)
        return {"text": f"{do} {name} on {node}"}

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:  # noqa: ARG002
        """Raise AssertionError: each call is over when it returns."""
        raise AssertionError(f"{self.f} has no end")

    def undo(self, cluster: Cluster) -> None:
        """Remove all rules wherever there ever was one."""
        if self._touched:
            _interceptable(cluster).clear_rules(list(self._touched))

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return which proxies still have rules."""
        return [
            f"the proxy of {node} still holds back messages"
            for node in self._touched
            if _interceptable(cluster).intercepted(node)["hits"]
        ]


RULE_FIELDS: Final = ("channel", "side", "op", "words", "without", "after", "alone")
"""Fields of a plan that belong to the proxy's rule."""


def _until(
    watch: Watch, servers: CanIntercept, node: str, name: str, do: str, count: int
) -> str | None:
    """Wait until the proxy is in the state that a call leads to; return what is lacking."""
    clock = watch.clock()
    while wrong := _lacking(servers.intercepted(node), f"{name} on {node}", name, do, count):
        watch.check()
        if clock.now_ns() >= watch.within_s * 1e9:
            return wrong
        clock.sleep_until(clock.now_ns() + POLL_NS)
    return None


def _lacking(state: Mapping[str, Json], said: str, name: str, do: str, count: int) -> str | None:
    hits, unanswered = state["hits"], state["unanswered"]
    assert isinstance(hits, Mapping), "hits are by rule"
    assert isinstance(unanswered, Mapping), "unanswered requests are by rule"
    left = unanswered.get(name, 0)
    assert isinstance(left, int), "a proxy counts"
    if do == "release":
        return f"{said}: {left} of its messages are not answered" if left else None
    if name not in hits:
        return f"{said}: the proxy has no such rule"
    if do != "await":
        return None
    number = hits[name]
    assert isinstance(number, int), "a proxy counts"
    counted = number - (left if state["counts"] and name in _names(state["counts"]) else 0)
    return f"{said}: {counted} messages, {count} expected" if counted < count else None


def _names(value: Json) -> Sequence[Json]:
    assert isinstance(value, list), "names are a list"
    return value


def _interceptable(cluster: Cluster) -> CanIntercept:
    assert isinstance(cluster, CanIntercept), "capabilities are checked before the run"
    return cluster
