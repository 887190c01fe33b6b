"""How the effect of each fault is seen, in words, for whoever reads a report."""

from collections.abc import Mapping
from typing import Final

from nemesis import message

_STOPPED: Final[Mapping[str, str]] = {
    "cut": "the proxy in its pod cut a connection at such a message",
    "half": "the proxy in its pod cut a connection in the middle of such a message",
    "drop": "the proxy in its pod kept such a message, and lets nothing pass after it",
    "shut": "the proxy in its pod cut a connection at such a message, and lets none pass after it",
    "delay": "the proxy in its pod kept such a message back",
    "hold": "the proxy in its pod keeps such a message back",
}
"""By what a rule does with a message."""
_LIES_IN_WAIT: Final = "the proxy in its pod has the rule; how many it kept back its end tells"
_PASSES: Final = "the proxy has no such rule any more and holds no connection"

EVIDENCE: Final[Mapping[str, tuple[str, str]]] = {
    "partition": (
        "every link was probed: exactly the cut ones are dead, all others alive",
        "every link was probed: all alive",
    ),
    "kill": ("no server process is left", "the servers run and answer"),
    "pause": (
        "the kernel says that every process of the server is stopped",
        "the kernel says that none is stopped",
    ),
    "restart": ("the processes ended, new ones run and answer", "over when the call returned"),
    "upgrade": (
        "the server itself says the new version, and its replicas are active",
        "over when the call returned",
    ),
    "stop-fetches": (
        "a probe put on another replica does not arrive",
        "a probe put on another replica arrives",
    ),
    "failpoint": (
        "the server took the command, which refuses unknown names, and where it has "
        "system.fail_points it lists one that lasts as enabled",
        "the server took the command, and lists none as enabled where it has a list",
    ),
    "loss": (
        "packets were lost on every link of that server",
        "on none of its links is a packet lost",
    ),
    "slow-fetches": ("the network says that it brings it parts slowly", "and that it does not"),
    "clock-skew": ("the clock says that it goes slowly", "and that it goes right"),
    **{
        name: (_LIES_IN_WAIT if name in message.RARE else _STOPPED[str(rule["do"])], _PASSES)
        for name, (_, rule) in message.VARIANTS.items()
    },
}
"""By the f of its ops: what was seen when it began, and when it ended."""
