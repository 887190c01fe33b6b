"""Rules for single messages that a script gives: hold a message, await it, release it.

The variants of nemesis/message.py are for faults at random; this family does what the plan of each
of its calls says. A plan names a replica or a list of them ("node") and a rule of their proxies
("rule"), and says what to "do":

    hold     install the rule, which holds back each message that it applies to
    count    install the rule, which forwards and counts them
    await    wait until the rule has applied to `messages` (1) of them; one that counts: until these
             are answered
    release  remove the rule, forward what it held back, and wait until that is answered
    cut      remove the rule, and end the connections of the messages that it held back
    answers  wait until the replica answers a query and no table is read-only; without a rule
    listens  the same, but its tables may be read-only
    expired  wait until the replica is not active in ZooKeeper; without a rule

A rule of several replicas has been applied if one of their proxies has done so. The other fields
of a plan are the rule's (compose/images/pod/pod_proxy.py), its edge called "side".
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from harness.core.capabilities import CanIntercept
from harness.core.connections import QueryError, ZooKeeperError
from harness.core.errors import FaultError
from harness.core.op import Json
from harness.core.protocols import Cluster
from harness.core.seed import Seed
from nemesis.family import Needs, Watch, names
from nemesis.fault import FaultChoice, FaultEntry

NAME: Final = "message-hold"
ACTIONS: Final = ("hold", "count", "await", "release", "cut")
POLL_NS: Final = 5_000_000
AWAITED_S: Final = 20.0
"""Time to wait for a message and for an answer. A replica that has just been started on a busy
machine sends its first message after ten seconds."""
STATE_S: Final = 40.0
"""Time to wait for a state. A session expires after five seconds; a server of 18.16 that starts
before its old session has expired takes ten more seconds to become active."""
ANSWER_S: Final = 2.0
ROOT: Final = "/harness"
READ_ONLY: Final = (
    "SELECT count() FROM system.replicas WHERE database LIKE 'harness_%' "
    "AND (is_readonly OR is_session_expired)"
)


class MessageRules:
    """Family of the rules of a script. See the module."""

    f = NAME
    once = True
    heal_rank = 0
    needs: Needs = (CanIntercept,)
    turns = 0
    """Number of faults at random."""

    def __init__(self, choice: FaultChoice) -> None:
        self._topology = choice.topology
        self._touched: dict[str, None] = {}
        """Every replica whose proxy ever had a rule."""

    def plan(self, seed: Seed, turn: int) -> Mapping[str, Json]:  # noqa: ARG002
        """Raise AssertionError: scripts have the plans."""
        raise AssertionError(f"{self.f} draws no faults")

    def finish(self, cluster: Cluster) -> None:
        """No-op: there are no steps to take."""

    def begin(self, cluster: Cluster, plan: Mapping[str, Json], watch: Watch) -> dict[str, Json]:
        """Do what the plan says. Raises FaultError if what it waits for does not come."""
        do, name, given = str(plan.get("do")), str(plan.get("rule")), plan.get("node")
        nodes = [str(one) for one in given] if isinstance(given, list) else [str(given)]
        said = f"{do} {name} on {names(nodes)}" if do in ACTIONS else f"{do} {names(nodes)}"
        if do not in (*ACTIONS, *STATES) or not set(nodes) <= set(self._topology.replicas):
            raise FaultError(
                f"{said}: expected one of {' '.join((*ACTIONS, *STATES))}, and replicas"
            )
        watch.check()
        if do in STATES:
            look, within_s = partial(STATES[do], cluster, nodes[0]), STATE_S
        else:
            count = plan.get("messages", 1)
            assert isinstance(count, int), "a number of messages is a number"
            self._change(cluster, do, name, nodes, plan)
            place = f"{name} on {names(nodes)}"
            look = partial(_lacking, cluster.part(CanIntercept), nodes, place, name, do, count)
            within_s = AWAITED_S
        if wrong := _until(Watch(within_s, watch.abandoned, watch.clock), look):
            raise FaultError(wrong)
        return {"text": said}

    def _change(
        self, cluster: Cluster, do: str, name: str, nodes: Sequence[str], plan: Mapping[str, Json]
    ) -> None:
        """Install or remove the rule."""
        servers = cluster.part(CanIntercept)
        if do in ("hold", "count"):
            self._touched |= dict.fromkeys(nodes)
            words = {
                "edge" if key == "side" else key: plan[key] for key in RULE_FIELDS if key in plan
            }
            servers.intercept(nodes, {**words, "name": name, "do": do})
        elif do in ("release", "cut"):
            servers.release(nodes, name, cut=do == "cut")

    def end(self, cluster: Cluster, watch: Watch) -> dict[str, Json]:  # noqa: ARG002
        """Raise AssertionError: each call is over when it returns."""
        raise AssertionError(f"{self.f} has no end")

    def undo(self, cluster: Cluster) -> None:
        """Remove all rules wherever there ever was one."""
        if self._touched:
            cluster.part(CanIntercept).clear_rules(list(self._touched))

    def broken(self, cluster: Cluster) -> Sequence[str]:
        """Return which proxies still have rules."""
        return [
            f"the proxy of {node} still holds back messages"
            for node in self._touched
            if cluster.part(CanIntercept).intercepted(node)["hits"]
        ]


RULE_FIELDS: Final = ("channel", "side", "op", "words", "without", "after", "alone", "skip")
"""Fields of a plan that belong to the proxy's rule."""


def _until(watch: Watch, look: Callable[[], str | None]) -> str | None:
    """Wait until nothing is lacking; return what is."""
    clock = watch.clock()
    while wrong := look():
        watch.check()
        if clock.now_ns() >= watch.within_s * 1e9:
            return wrong
        clock.sleep_until(clock.now_ns() + POLL_NS)
    return None


def _lacking(
    servers: CanIntercept, nodes: Sequence[str], place: str, name: str, do: str, count: int
) -> str | None:
    """Return what is lacking for the proxies to be in the state that an action leads to."""
    states = [servers.intercepted(node) for node in nodes]
    left = sum(_number(state["unanswered"], name) for state in states)
    if do == "cut":
        return None
    if do == "release":
        return f"{place}: {left} of its messages are not answered" if left else None
    if not all(_has(state["hits"], name) for state in states):
        return f"{place}: the proxy has no such rule"
    if do != "await":
        return None
    counted = left  # a message whose connection has ended is not held back any more
    if any(_has(state["counts"], name) for state in states):
        counted = sum(_number(state["hits"], name) for state in states) - left
    return f"{place}: {counted} messages, {count} expected" if counted < count else None


def _has(names: Json, name: str) -> bool:
    assert isinstance(names, Mapping | list), "rules are listed by name"
    return name in names


def _number(numbers: Json, name: str) -> int:
    assert isinstance(numbers, Mapping), "numbers are by rule"
    number = numbers.get(name, 0)
    assert isinstance(number, int), "a proxy counts"
    return number


def _unanswering(cluster: Cluster, node: str) -> str | None:
    """Return why a replica does not take inserts; None if it does."""
    columns, why = _answer(cluster, node, READ_ONLY)
    return why or (f"{node}: its tables are read-only" if columns and any(columns[0]) else None)


def _unlistening(cluster: Cluster, node: str) -> str | None:
    """Return why a replica takes no queries; None if it does."""
    return _answer(cluster, node, "SELECT 1")[1]


def _answer(cluster: Cluster, node: str, sql: str) -> tuple[Sequence[Sequence[object]], str | None]:
    """Return the columns of a replica's answer, and the reason if there is none."""
    channel = cluster.query_channel(node, ANSWER_S)
    try:
        return channel.ask(sql, {}, None), None
    except QueryError as error:
        return [], f"{node}: does not answer: {error}"
    finally:
        channel.disconnect()


def _unexpired(cluster: Cluster, node: str) -> str | None:
    """Return why a replica counts as active; None if its session has ended."""
    session = cluster.zookeeper(cluster.topology.keepers)
    try:
        for token in session.ask("get_children", ROOT):
            paths = [
                f"{ROOT}/{token}/{table}/replicas/{node}/is_active"
                for table in session.ask("get_children", f"{ROOT}/{token}")
            ]
            active = [path for path, found in session.each("exists", paths).items() if found]
            if active:
                return f"{node}: its session has not ended: {active[0]} is there"
    except ZooKeeperError as error:
        return f"ZooKeeper does not answer: {error}"
    finally:
        session.close()
    return None


STATES: Final[Mapping[str, Callable[[Cluster, str], str | None]]] = {
    "answers": _unanswering,
    "listens": _unlistening,
    "expired": _unexpired,
}
"""Actions that wait for a state of a replica: what returns why it is not in the state."""


FAULTS: Final = (
    FaultEntry(
        name=NAME,
        text="messages are held back and released as a script says; without one, no faults",
        seen="the proxy in its pod reports what was waited for: a rule, a message, an answer",
        gone="over when the call returned",
        make=MessageRules,
    ),
)
