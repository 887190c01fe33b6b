"""Evidence for the effect of each fault, in words for the reader of a report."""

from collections.abc import Mapping
from typing import Final

from harness.core import clock_fault
from harness.core.link_quality import LinkFault
from nemesis import (
    disk,
    membership,
    message,
    message_rules,
    moment,
    reconfig,
    resources,
    store,
)

_STOPPED: Final[Mapping[str, str]] = {
    "cut": "the proxy in its pod cut a connection at such a message",
    "half": "the proxy in its pod cut a connection in the middle of such a message",
    "drop": "the proxy in its pod dropped such a message, and forwards nothing after it",
    "shut": "the proxy in its pod cut a connection at such a message, and accepts none after it",
    "delay": "the proxy in its pod held back such a message",
    "hold": "the proxy in its pod holds back such a message",
}
"""Evidence for a stopped message, by the rule's action."""
_MET: Final = "a probe's request on the disk met the fault"
_LURKS: Final = (
    "a probe's request on the disk met the fault; for an fsync that fails once, the disk has the "
    "fault, and the end says how many requests it struck"
)
_ARMED: Final = "the proxy in its pod has the rule; the end of the fault says how many it stopped"
_STRUCK: Final = "no server process is left, and what it had begun is on its disk, unfinished"
_HELD: Final = "no server process is left, and a proxy held the other replica in the middle"
_CLEARED: Final = "the proxy has no such rule any more and holds back nothing"

_PROBED: Final[Mapping[LinkFault, tuple[str, str]]] = {
    LinkFault.DELAY: ("each takes as much longer", "they arrive without the delay"),
    LinkFault.JITTER: ("they take longer, each by another time", "they arrive at once"),
    LinkFault.REORDER: ("some were overtaken by later ones", "none was overtaken"),
    LinkFault.DUPLICATE: ("some arrived twice", "none arrived twice"),
    LinkFault.RATE: ("they arrive no faster than that", "they arrive faster"),
    LinkFault.LOSS: ("some were lost", "none was lost"),
}
"""What probes show when a fault of links begins and when it has ended."""

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
        "the server reports the new version, and its replicas are active",
        "over when the call returned",
    ),
    "stop-fetches": (
        "a probe put on another replica does not arrive",
        "a probe put on another replica arrives",
    ),
    "failpoint": (
        "the server accepted the command, which refuses unknown names; if it has "
        "system.fail_points, a failpoint that lasts is listed there as enabled",
        "the server accepted the command, and system.fail_points, if it exists, lists none as "
        "enabled",
    ),
    **{
        fault: (
            f"probes over every link of those servers: {seen}; on a link that is cut or has "
            "another fault too, the queue's counters",
            f"probes over every link of those servers: {gone}",
        )
        for fault, (seen, gone) in _PROBED.items()
    },
    membership.EMPTY: (
        "no server process is left, and its disk has no parts",
        "the server answers, its tables are active and wait for no part",
    ),
    membership.OLD: (
        "the disk of the killed server was copied, and it runs again",
        "the server runs on the copy, its tables are active and wait for no part",
    ),
    membership.REPLACE: (
        "its disk has no files, and other replicas or the ZooKeeper leader do not count it",
        "others count it, its tables are active and wait for no part",
    ),
    reconfig.NAME: (
        "the configuration that the ensemble has agreed on names the server no more, or as an "
        "observer",
        "the configuration names every server as a participant, and all serve",
    ),
    "slow-fetches": (
        "the simulated network reports that it delivers parts slowly",
        "the simulated network reports that it does not",
    ),
    **dict.fromkeys(
        clock_fault.VARIANTS,
        (
            "the server was asked for its time: it is as wrong as that",
            "the server was asked for its time: it is right",
        ),
    ),
    **resources.EVIDENCE,
    "store-pause": (
        "the kernel says that every process of the store is stopped",
        "the kernel says that none is stopped",
    ),
    **dict.fromkeys(
        store.VARIANTS,
        (
            "the store applied the rule to a request, whose line in its log names the fault",
            "the store has no such rule any more and holds no request",
        ),
    ),
    **dict.fromkeys(
        disk.POWER_CUTS,
        (
            "no server process is left; of two files on the disk, the synced one has its content "
            "and the other does not (with torn writes it may have)",
            "the servers run and answer",
        ),
    ),
    **{
        name: (_LURKS if "fail-sync" in kinds else _MET, "no request of a probe meets the fault")
        for name, (_, kinds) in disk.VARIANTS.items()
    },
    disk.FLIP: (
        "the byte is read back from the file, and is the flipped one",
        "the bits are flipped back, except those that the server has written or removed",
    ),
    **{
        name: (_ARMED if name in message.RARE else _STOPPED[str(rule["do"])], _CLEARED)
        for name, (_, rule) in message.VARIANTS.items()
    },
    message_rules.NAME: (
        "the proxy in its pod reports what was waited for: a rule, a message, an answer",
        "over when the call returned",
    ),
    **{
        name: (_STRUCK if variant.proof else _HELD, "the servers run and answer")
        for name, variant in moment.VARIANTS.items()
    },
}
"""Sentences about what was seen when a fault began and when it ended, by the f of its ops."""
