"""The table of faults: what a shell does in place of each.

A fault begins and ends by commands of Docker and by statements, so that whoever has a reproduction
needs nothing but Docker. Each command is a function of `reproduce.sh` and of an integration test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.core.op import Json
from harness.export import proxies, stores
from harness.export.errors import NotExportableError

Plan: TypeAlias = Mapping[str, Json]
CUT_KEEPER: Final = "zk1"
"""ZooKeeper server that a reproduction cuts off from its peers, and that does not lead."""


@dataclass(frozen=True, slots=True)
class FaultCommand:
    """A command that makes or ends a fault, by the name of what does it."""

    name: str
    """Name of `FAULT_TEXTS`, which is a function of reproduce.sh and of an integration test."""
    node: str
    arguments: tuple[str, ...] = ()

    @property
    def is_of_proxy(self) -> bool:
        """Return whether the proxy does it."""
        return self.name in PROXY_TEXTS


@dataclass(frozen=True, slots=True)
class CommandPair:
    """A family of faults that hit nodes: the names of the commands for each."""

    begin: str
    end: str


NODE_FAULTS: Final[Mapping[str, CommandPair]] = {
    "stop-fetches": CommandPair("stop_fetches", "start_fetches"),
    "kill": CommandPair("kill_server", "start_server"),
    "pause": CommandPair("pause_server", "resume_server"),
}
"""Families of faults that hit the nodes of their plan."""
FAULT_TEXTS: Final[Mapping[str, str]] = {
    "stop_fetches": "SYSTEM STOP FETCHES",
    "start_fetches": "SYSTEM START FETCHES",
    "kill_server": "docker kill",
    "start_server": "docker start",
    "pause_server": "docker pause",
    "resume_server": "docker unpause",
    "restart_server": "docker restart",
    "cut_off": "docker network disconnect, from the other ZooKeeper servers; its clients stay",
    "reconnect": "docker network connect",
    "mend_store": "the proxy before the store forwards everything again",
}
"""What each command of a fault does to its server, for a reader."""
ARM: Final = "arm"
"""Name of the command that gives the proxy before ZooKeeper a rule."""
PROXY_TEXTS: Final[Mapping[str, str]] = {
    ARM: "",
    "await_stopped": "wait until the proxy has done so",
    "await_held": "wait until the proxy holds it back",
    "release": "the proxy forwards what it held back",
    "cut_held": "the proxy ends the connection of what it held back",
    "clear": "the proxy forwards everything again",
}
"""The same of commands to the proxy; what a rule does depends on it."""
BREAK_STORE: Final = "break_store"
"""Name of the command that gives the proxy before the object store a rule."""
FAULT_NAMES: Final = (*FAULT_TEXTS, *PROXY_TEXTS, BREAK_STORE)
"""Names of all commands, which a control leaves out."""
REFUSED: Final[tuple[tuple[str, str], ...]] = (("disk-", "it makes a file system fail on command"),)
"""Families that a shell cannot make, by the beginning of their names, with the reasons."""


def begin_commands(f: str, plan: Plan) -> Sequence[FaultCommand]:
    """Return the commands by which a fault begins or is made, see `end_commands` for its end.
    Raises NotExportableError."""
    if f == "partition":
        if "order" not in plan:
            raise NotExportableError(
                f"fault {plan['name']}: it cuts links between single servers, and a shell cuts off "
                "only a ZooKeeper server that follows, from its peers"
            )
        return [FaultCommand("cut_off", follower_of(plan))]
    if f == "restart":
        return [FaultCommand("restart_server", node) for node in _nodes(plan)]
    if f == proxies.SCRIPTED:
        return [_scripted(plan)]
    if stores.is_of_store(f):
        return [
            FaultCommand(BREAK_STORE, node, (stores.store_rule(f, plan),)) for node in _nodes(plan)
        ]
    if f in NODE_FAULTS:
        return [FaultCommand(NODE_FAULTS[f].begin, node) for node in _nodes(plan)]
    if proxies.is_of_messages(f):
        return [FaultCommand(ARM, node, (proxies.arm_of(f),)) for node in _nodes(plan)]
    raise NotExportableError(f"fault {f}: no command of Docker does the same")


def end_commands(f: str, plan: Plan) -> Sequence[FaultCommand]:
    """Return the commands that end a fault which began with this plan."""
    if f == "partition":
        return [FaultCommand("reconnect", follower_of(plan))]
    if proxies.is_of_messages(f):
        return [FaultCommand("clear", node) for node in _nodes(plan)]
    if stores.is_of_store(f):
        return [FaultCommand("mend_store", node) for node in _nodes(plan)]
    return [FaultCommand(NODE_FAULTS[f].end, node) for node in _nodes(plan)]


def awaited_command(f: str, plan: Plan) -> FaultCommand | None:
    """Return the command that waits until a fault of messages has stopped one; None if it need not.
    Raises NotExportableError."""
    if f == proxies.SCRIPTED or not proxies.is_of_messages(f) or not proxies.awaits(f, plan):
        return None
    nodes = _nodes(plan)
    if len(nodes) > 1:
        raise NotExportableError(f"fault {f}: it waits for a message of any of {' '.join(nodes)}")
    return FaultCommand("await_stopped", nodes[0], (f,))


def _scripted(plan: Plan) -> FaultCommand:
    do, node, rule = str(plan["do"]), plan["node"], str(plan["rule"])
    if do not in _SCRIPTED or not isinstance(node, str):
        raise NotExportableError(
            f"fault {proxies.SCRIPTED}: a shell does not {do} what {node} sends"
        )
    if do == "hold":
        return FaultCommand(ARM, node, (proxies.scripted_rule(plan),))
    count = (str(plan.get("messages", 1)),) if do == "await" else ()
    return FaultCommand(_SCRIPTED[do], node, (rule, *count))


_SCRIPTED: Final[Mapping[str, str]] = {
    "hold": ARM,
    "await": "await_held",
    "release": "release",
    "cut": "cut_held",
}
"""Commands by what a script's step does with a message."""


def follower_of(plan: Plan) -> str:
    """Return the ZooKeeper server that a partition cuts off: the one that a run has cut off, or the
    one that a script takes."""
    return str(plan.get("follower", CUT_KEEPER))


def refuse_family(name: str) -> None:
    """Raise NotExportableError if a shell cannot make the faults of this name."""
    why = next((why for prefix, why in REFUSED if name.startswith(prefix)), None)
    if why is not None:
        raise NotExportableError(f"fault {name}: {why}")


def _nodes(plan: Plan) -> Sequence[str]:
    nodes = plan["nodes"]
    assert isinstance(nodes, list), "the plan of a fault of nodes has a list of them"
    return [str(node) for node in nodes]
