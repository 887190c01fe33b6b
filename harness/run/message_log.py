"""The messages of simulated replicas that decide about quorums and parts.

A simulation logs every request to ZooKeeper (keeper/message_log.rs of the simulator). Those below
are the ones whose order decides what an insert, a fetch or a read finds. Each has a name that is
the same in every run of a script in which it is sent, and a rule by which a proxy of a real replica
knows it.

number   a block number is taken                      join, end  the quorum of a part is updated
commit   the part of an insert is committed           fail       a quorum is marked as failed
part     another replica announces the part           active     a replica becomes active
status   /quorum/status is read before an update      last       so is /quorum/last_part
failed   /quorum/failed_parts is listed

The simulator asks for several nodes in one request where servers send several; such a request is
known by the first of them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.core.op import Json

TABLE: Final = re.compile(r"/harness/[^/]+/[^/]+(?=/)")
PART: Final = re.compile(r"/replicas/[^/]+/parts/([^/]+)$")
CHANGES: Final = ("create", "remove", "set")


@dataclass(frozen=True, slots=True)
class KeyMessage:
    """A message that matters."""

    name: str
    """What it is, such as "ch2 end 0_1_1_0"."""
    node: str
    what: str
    part: str
    """The part that it is about; "" if it is about none."""
    number: int
    """Its number among those of this kind of the node, from 1."""
    sent_ns: int
    effect_ns: int
    state: tuple[int, bool, int]
    """Position in ZooKeeper's order: the number of transactions applied; whether it reads; time."""
    writes: frozenset[str]
    """Nodes of the table that it changes."""
    reads: frozenset[str]
    """Nodes that it looks at, and does not change."""
    rule: Mapping[str, Json] = field(hash=False)
    """Fields of the rule of a proxy."""

    def conflicts(self, other: "KeyMessage") -> bool:
        """Return whether their order matters: one changes what the other reads or changes, or one
        announces a part and the other ends a quorum, which should be on enough replicas by then."""
        if {self.what, other.what} == {"part", "end"}:
            return True
        return bool(self.writes & (other.writes | other.reads) or self.reads & other.writes)


def key_messages(log: bytes, since_ns: int) -> Sequence[KeyMessage]:
    """Return the messages that matter and were sent at this time or later, in ZooKeeper's order."""
    found: list[KeyMessage] = []
    threads: dict[tuple[str, int], str] = {}
    """The part about which the thread of a node goes on, by the time at which it was answered."""
    seen: Counter[tuple[str, str]] = Counter()
    for node, kind, sent_ns, effect_ns, answered_ns, applied, succeeded, operations in json.loads(
        log
    ):
        if kind == "fetch":
            continue
        ops = [(name, TABLE.sub("", path), data) for name, path, data in operations]
        own = [m[1] for name, path, _ in ops if name == "create" and (m := PART.search(path))]
        part = own[0] if own else threads.get((node, sent_ns), "")
        inserts = any(name == "create" and path.startswith("/log/log-") for name, path, _ in ops)
        # An insert waits for its quorum by reading the status again and again.
        if answered_ns is not None and part and not inserts:
            threads[node, answered_ns] = part
        if effect_ns is None or sent_ns < since_ns:
            continue
        known = _known(node, kind, ops, part)
        if known is None:
            continue
        what, rule = known
        name = f"{node} {what} {part}".rstrip()
        seen[name, ""] += 1
        number = seen[name, ""]
        touched = [(n in CHANGES and succeeded is not False, path) for n, path, _ in ops]
        writes = frozenset(_node(path) for changed, path in touched if changed)
        reads = frozenset(_node(path) for _, path in touched) - writes
        found.append(
            KeyMessage(
                name if number == 1 else f"{name} #{number}", node, what, part, number, sent_ns,
                effect_ns, (applied, kind == "read", effect_ns), writes, reads, rule,
            )
        )  # fmt: skip
    return sorted(found, key=lambda message: message.state)


def _node(path: str) -> str:
    """Return the node by which two messages conflict: all failed parts are one, and so are all
    block numbers of a partition and all entries of the log."""
    for whole in ("/quorum/failed_parts", "/log/log-"):
        if path.startswith(whole):
            return whole
    return re.sub(r"/block-\d*$", "/block-", path)


def _known(
    node: str, kind: str, ops: Sequence[tuple[str, str, str]], part: str
) -> tuple[str, Mapping[str, Json]] | None:
    """Return what a message is, and its rule; None if it does not matter."""
    paths = [path for _, path, _ in ops]
    changed = {path for name, path, _ in ops if name in CHANGES}
    if kind == "read":
        return _read(ops[0][0], paths[0], _own(node, part), part) if ops else None
    if "/quorum/last_part" in changed and part:
        return "end", {"words": ["/quorum/status", "/quorum/last_part", part]}
    if any(path.startswith("/quorum/failed_parts/") for path in changed):
        return "fail", {"words": [next(p for p in paths if p.startswith("/quorum/failed_parts/"))]}
    if "/log/log-" in changed and _own(node, part) in changed:
        return "commit", {"words": ["/log/log-", _own(node, part)]}
    if "/quorum/status" in changed and part:
        words = ["/quorum/status", part]
        return "join", {"words": words, "without": ["/log/log-", "/quorum/last_part"]}
    if _own(node, part) in changed and part:
        return "part", {"words": [_own(node, part)], "without": ["/log/log-"]}
    if any(path.endswith("/block-") for path in changed):
        return "number", {"words": ["/block_numbers/", "/block-"], "without": ["/log/log-"]}
    if any(path.endswith("/is_active") for path in changed):
        return "active", {"words": ["/is_active", "tcp_port: "]}
    return None


def _read(name: str, path: str, announced: str, part: str) -> tuple[str, Mapping[str, Json]] | None:
    rules: Iterable[tuple[str, str]] = (("status", "/quorum/status"), ("last", "/quorum/last_part"))
    for what, wanted in rules:
        if path == wanted and part and name == "get":
            return what, {"op": "read", "words": [wanted], "after": [announced]}
    if path == "/quorum/failed_parts" and name == "list":
        return "failed", {"op": "read", "words": [path]}
    return None


def _own(node: str, part: str) -> str:
    return f"/replicas/{node}/parts/{part}"
