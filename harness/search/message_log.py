"""The messages of simulated replicas that decide about quorums, parts and lost replicas.

A simulation logs every request to ZooKeeper (keeper/message_log.rs of the simulator). Those below
are the ones whose order decides what an insert, a fetch, a clone or a read finds. Each has a name
that is the same in every run of a script in which it is sent, and a rule by which a proxy of a real
replica knows it.

number   a block number is taken                      join, end  the quorum of a part is updated
commit   the part of an insert is committed           fail       a quorum is marked as failed
part     a replica announces a part that it did not   active     a replica becomes active
         insert: it fetched or merged it              lose       a replica is marked as lost
assign   a merge or a drop is logged                  clone      a lost replica takes the pointer
status   /quorum/status is read before an update      queue      of its source, then queues parts
last     so is /quorum/last_part                      back       it is not lost any more
select   /quorum/last_part is read by a select        look       the queue of another is listed
failed   /quorum/failed_parts is listed               gone       the session of a replica ended

The simulator asks for several nodes in one request where servers send several; such a request is
known by the first of them. A request whose connection was lost is no message that took effect: it
is a lost one, of which either the request or the answer did not arrive.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from harness.core.op import Json

TABLE: Final = re.compile(r"/harness/[^/]+/[^/]+(?=/)")
PART: Final = re.compile(r"/replicas/[^/]+/parts/([^/]+)$")
REPLICA_NAME: Final = re.compile(r"ch\d+$")
REPLICA: Final = re.compile(r"/replicas/([^/]+)/")
ENTRY: Final = re.compile(r"^(merge|mutate|drop)\n(\S+)_\d+_\d+_\d+$", re.MULTILINE)
"""The kind of an entry of the log, and the partition of the first part that it names."""
CHANGES: Final = ("create", "remove", "set")
NEVER: Final = 1 << 62
"""Position in ZooKeeper's order of what did not get there."""
ANYBODY: Final = frozenset({"assign", "fail", "lose"})
"""Messages that any replica may send; which one does is chance, and not in their names."""
NUMBERED: Final = frozenset({"active", "clone", "failed", "number", "queue", "select"})
"""Messages of which real servers send as many as simulated ones, so that the first is the first and
the second the second. Others with a number are sent again because the first was refused."""
SERIAL: Final = frozenset({"active", "back", "clone", "failed", "queue"})
"""Messages of one thread of a replica, the one that makes it active: each waits for the answer to
the one before."""
OF_PART: Final = frozenset({"part", "status", "last", "join", "end"})
"""Messages of one thread of a replica about one part, in this order."""
LOSABLE: Final = frozenset({"active", "assign", "clone", "commit", "end", "fail", "join", "part"})
"""Messages whose loss matters: they change what others find."""


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
    """Fields of the rule of a proxy; {} if no proxy can know it."""
    lost_ns: int | None = None
    """Time at which its connection was lost; None if it was answered."""
    lost: str = ""
    """What did not arrive, if its connection was lost: "request" or "response"."""

    @property
    def anybody(self) -> bool:
        """Return whether another replica might have sent it as well."""
        return self.what in ANYBODY

    def conflicts(self, other: "KeyMessage") -> bool:
        """Return whether their order matters: one changes what the other reads or changes; one
        announces a part and the other ends a quorum, which should be on enough replicas by then; or
        a select looks for the last part while its own replica announces one."""
        pair = {self.what, other.what}
        if self.node == other.node and not (self.anybody or other.anybody):
            return pair == {"part", "select"}
        if pair == {"part", "end"}:
            return True
        if pair == {"active", "failed"}:  # only an active replica can find that a part has failed
            return True
        if pair == {"part"}:  # each looks whether the other's has the same checksums
            return False
        return bool(self.writes & (other.writes | other.reads) or self.reads & other.writes)


def key_messages(log: bytes, since_ns: int) -> Sequence[KeyMessage]:
    """Return the messages that matter and were sent at this time or later, in ZooKeeper's order;
    then those that were lost."""
    found: list[KeyMessage] = []
    threads: dict[tuple[str, int], str] = {}
    """The part about which the thread of a node goes on, by the time at which it was answered."""
    seen: Counter[str] = Counter()
    for node, kind, sent_ns, effect_ns, ended_ns, applied, end, operations in json.loads(log):
        if kind == "fetch" or not REPLICA_NAME.match(node):
            continue
        ops = [(name, TABLE.sub("", path), data) for name, path, data in operations]
        own = [m[1] for name, path, _ in ops if name == "create" and (m := PART.search(path))]
        part = own[0] if own else threads.get((node, sent_ns), "")
        inserts = any(name == "create" and path.startswith("/log/log-") for name, path, _ in ops)
        # An insert waits for its quorum by reading the status again and again.
        if ended_ns is not None and part and not inserts:
            threads[node, ended_ns] = part
        if sent_ns < since_ns or (effect_ns is None and end != "lost"):
            continue
        known = ("gone", "", {}) if kind == "gone" else _known(node, kind, ops, part)
        if known is None:
            continue
        what, about, rule = known
        words = (what, about) if what in ANYBODY else (node, what, about)
        name = " ".join(word for word in words if word)
        # The order of two entries of the log decides nothing by itself.
        ops = [one for one in ops if one[1] != "/log/log-"]
        changes = {_node(path) for n, path, _ in ops if n in CHANGES and end != "refused"}
        writes = frozenset(changes) if kind != "gone" else frozenset({_active(node)})
        lost = "request" if effect_ns is None else "response" if end == "lost" else ""
        if lost and what not in LOSABLE:
            lost = ""
            if effect_ns is None:
                continue
        seen[name] += 1
        found.append(
            KeyMessage(
                name if seen[name] == 1 else f"{name} #{seen[name]}", node, what, about,
                seen[name], sent_ns, effect_ns or ended_ns,
                (applied if applied is not None else NEVER, kind == "read", effect_ns or ended_ns),
                writes, frozenset(_node(path) for _, path, _ in ops) - writes, rule,
                ended_ns if lost else None, lost,
            )
        )  # fmt: skip
    return sorted(found, key=lambda message: message.state)


def _active(node: str) -> str:
    return f"/replicas/{node}/is_active"


def _node(path: str) -> str:
    """Return the node by which two messages conflict: all failed parts are one, and so are all
    block numbers of a partition and all entries of a queue."""
    if path.startswith("/quorum/failed_parts"):
        return "/quorum/failed_parts"
    return re.sub(r"(/block-|/queue)(-?\d*|/queue-\d*)$", r"\1", path)


def _known(
    node: str, kind: str, ops: Sequence[tuple[str, str, str]], part: str
) -> tuple[str, str, Mapping[str, Json]] | None:
    """Return what a message is, what it is about, and its rule; None if it does not matter."""
    if not ops:
        return None
    if kind == "read":
        return _read(ops, _own(node, part), node, part)
    changed = {path for name, path, _ in ops if name in CHANGES}
    return _of_quorum(ops, changed, node, part) or _of_replica(ops, changed, node)


def _of_quorum(
    ops: Sequence[tuple[str, str, str]], changed: AbstractSet[str], node: str, part: str
) -> tuple[str, str, Mapping[str, Json]] | None:
    """Return what a message about quorums and parts is; None if it is another."""
    failed = [path for path in changed if path.startswith("/quorum/failed_parts/")]
    if "/quorum/last_part" in changed and part:
        return "end", part, {"words": ["/quorum/status", "/quorum/last_part", part]}
    if failed:
        return "fail", failed[0].rpartition("/")[2], {"words": [failed[0]]}
    if "/log/log-" in changed and _own(node, part) in changed:
        return "commit", part, {"words": ["/log/log-", _own(node, part)]}
    if "/quorum/status" in changed and part:
        words = ["/quorum/status", part]
        return "join", part, {"words": words, "without": ["/log/log-", "/quorum/last_part"]}
    if _own(node, part) in changed and part:
        return "part", part, {"words": [_own(node, part)], "without": ["/log/log-"]}
    if any(path.endswith("/block-") for path in changed):
        return "number", part, {"words": ["/block_numbers/", "/block-"], "without": ["/log/log-"]}
    made = [data for name, path, data in ops if name == "create" and path == "/log/log-"]
    if made and (entry := ENTRY.search(made[0])):
        # Which parts a merge finds decides the end of its name.
        return "assign", entry[2], {"words": ["/log/log-", f"\n{entry[1]}\n", f"\n{entry[2]}_"]}
    return None


def _of_replica(
    ops: Sequence[tuple[str, str, str]], changed: AbstractSet[str], node: str
) -> tuple[str, str, Mapping[str, Json]] | None:
    """Return what a message about replicas is: active, lost, cloned; None if it is another."""
    own = f"/replicas/{node}"
    if any(name == "create" and path == _active(node) for name, path, _ in ops):
        return "active", "", {"words": ["/is_active", "tcp_port: "]}
    lost = [path for path in changed if path.endswith("/is_lost")]
    if lost and lost[0] == f"{own}/is_lost":
        return "back", "", {"words": lost}
    if lost and (other := REPLICA.match(lost[0])):
        return "lose", other[1], {"words": lost}
    pointer = f"{own}/log_pointer" in changed
    if pointer and any(path.endswith("/is_lost") for _, path, _ in ops):
        return "clone", "", {"words": [f"{own}/log_pointer", "/is_lost"]}
    if f"{own}/queue/queue-" in changed and not pointer and len(ops) == 1:
        words = [f"{own}/queue/queue-", "format version: "]  # not the removal of an entry
        return "queue", "", {"words": words, "without": ["/log_pointer"]}
    return None


def _read(
    ops: Sequence[tuple[str, str, str]], announced: str, node: str, part: str
) -> tuple[str, str, Mapping[str, Json]] | None:
    name, path, _ = ops[0]
    if [path for _, path, _ in ops[:2]] == ["/quorum/status", "/quorum/failed_parts"]:
        # A linearizable select of the simulator decides by one request.
        return "select", "", {"op": "read", "words": ["/quorum/last_part"]}
    rules: Iterable[tuple[str, str]] = (("status", "/quorum/status"), ("last", "/quorum/last_part"))
    for what, wanted in rules:
        if path == wanted and part and name == "get":
            return what, part, {"op": "read", "words": [wanted], "after": [announced]}
    if len(ops) == 1 and path == "/quorum/last_part" and name == "get":
        return "select", "", {"op": "read", "words": ["/quorum/last_part"]}
    if path == "/quorum/failed_parts" and name == "list":
        return "failed", "", {"op": "read", "words": [path]}
    if path.endswith("/queue") and (other := REPLICA.match(path)) and other[1] != node:
        return "look", other[1], {"op": "read", "words": [path], "without": ["/queue/queue-"]}
    return None


def _own(node: str, part: str) -> str:
    return f"/replicas/{node}/parts/{part}"
