"""The table of faults: what a shell does in place of each.

A fault begins and ends by commands of Docker and by statements, so that whoever has a reproduction
needs nothing but Docker. Each command is a function of `reproduce.sh` and of an integration test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from harness.core.op import Json
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
}
"""What each command of a fault does to its server, for a reader."""
_MESSAGE: Final = (
    "it cuts, delays or holds back single messages, for which a proxy must read the protocol; "
    "play it with `harness scenario`"
)
REFUSED: Final[tuple[tuple[str, str], ...]] = (
    ("zk-", _MESSAGE),
    ("fetch-", _MESSAGE),
    ("ddl-", _MESSAGE),
    ("message", _MESSAGE),
    ("store-", "it makes an object store fail on command, and public images of one do not"),
    ("disk-", "it makes a file system fail on command"),
)
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
    if f in NODE_FAULTS:
        return [FaultCommand(NODE_FAULTS[f].begin, node) for node in _nodes(plan)]
    raise NotExportableError(f"fault {f}: no command of Docker does the same")


def end_commands(f: str, plan: Plan) -> Sequence[FaultCommand]:
    """Return the commands that end a fault which began with this plan."""
    if f == "partition":
        return [FaultCommand("reconnect", follower_of(plan))]
    return [FaultCommand(NODE_FAULTS[f].end, node) for node in _nodes(plan)]


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
