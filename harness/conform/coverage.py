"""What a run covers of the protocol's model: elements, by which a night is steered.

An element is a text, of three kinds:

- a step and the state of the table in which it was taken: "quorum pending, 1 inactive: EndQuorum";
- a step and what became of a part: "part on 2+ replicas, after another's step: GetPart";
- a distance, in powers of 2: "log lag 8", the entries of the log that an active replica had not
  pulled, and "steps of an open quorum 16".

A step is a transaction of a table, named by the kinds of what it does. States are so coarse
that most runs reach nothing new. Simulated servers have elements of this kind, too, but with more
states, because nothing has to be read from a log there (crates/simulator/src/coverage.rs).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.conform.model import Model
from harness.conform.replica import Replica

FAR: Final = 4
"""Number of entries of the log that a replica lacks from which on it is behind."""
LONG: Final = 8
"""Number of entries from which on a queue is long."""
MANY: Final = 2
"""Number from which on things are not counted."""
OF_PARTS: Final = frozenset(
    {"Insert", "QuorumInsert", "AttachPart", "GetPart", "RemovePart", "UndoFetch", "FetchAgain"}
    | {"AssignMerge", "AssignMutation"}
)
"""Steps whose words name a replica and a part."""


def state_of(model: Model) -> str:
    """Return the state of a table in words; "healthy" if there is nothing to say."""
    replicas = model.replicas.values()
    newest = max(model.mutations, default="")
    counts = {
        "inactive": sum(one.session is None for one in replicas),
        "lost": sum(one.lost for one in replicas),
        "behind": sum(_lag(model, one) >= FAR for one in replicas),
        "with a long queue": sum(len(one.queue) >= LONG for one in replicas),
        "to mutate": sum(one.mutated < newest for one in replicas),
    }
    words = [f"{_some(count)} {what}" for what, count in counts.items() if count]
    if model.quorums:
        words.insert(0, "quorum pending" if len(model.quorums) < MANY else "quorums pending")
    if model.failed:
        words.append("a quorum failed before")
    return ", ".join(words) or "healthy"


def _some(count: int) -> str:
    return str(count) if count < MANY else f"{MANY}+"


def _lag(model: Model, replica: Replica) -> int:
    return model.length - (replica.pointer or 0)


@dataclass
class Coverage:
    """The elements of one table's transactions up to now."""

    elements: set[str] = field(default_factory=set)
    _last: dict[str, str] = field(default_factory=dict)
    """By part: the replica of the last step that concerned it."""
    _open: int = 0
    """Number of steps in a row, up to the last one, that left a quorum pending."""

    def take(self, before: str, actions: Sequence[str], model: Model) -> None:
        """Add the elements of a step, given the state before it, what it does, and the model after
        it."""
        words = [action.split(" ") for action in actions]
        step = " + ".join(sorted({name for name, *_ in words}))
        self.elements.add(f"{before}: {step}")
        for name, *of in words:
            if name in OF_PARTS and len(of) > 1:
                self._part(of[0], of[1], name, model)
        active = (one for one in model.replicas.values() if one.session is not None)
        self._distance("log lag", max((_lag(model, one) for one in active), default=0))
        self._open = self._open + 1 if model.quorums else 0
        self._distance("steps of an open quorum", self._open)

    def _part(self, replica: str, part: str, name: str, model: Model) -> None:
        holders = sum(part in one.parts for one in model.replicas.values())
        last, self._last[part] = self._last.get(part), replica
        whose = {None: "its first step", replica: "after the same replica's step"}
        by = whose.get(last, "after another's step")
        where = f"{_some(holders)} replica{'s' * (holders != 1)}"
        self.elements.add(f"part on {where}, {by}: {name}")

    def _distance(self, what: str, value: int) -> None:
        if value >= MANY:
            self.elements.add(f"{what} {1 << (value.bit_length() - 1)}")
