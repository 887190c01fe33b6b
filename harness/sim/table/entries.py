"""What replicas of a table write into ZooKeeper."""

from typing import NamedTuple

from harness.sim.table.parts import Info

GET, MERGE, MUTATE = "GET_PART", "MERGE_PARTS", "MUTATE_PART"


class Entry(NamedTuple):
    """Of the log and of queues."""

    kind: str
    new: Info
    source: str = ""
    """The replica that wrote it."""
    parts: tuple[Info, ...] = ()
    """What is merged or mutated."""
    quorum: int = 0
    block_id: str = ""


class Quorum(NamedTuple):
    """/quorum/status: the insert that has no quorum yet."""

    part: Info
    needed: int
    replicas: tuple[str, ...]


class Mutation(NamedTuple):
    """/mutations/…: an ALTER UPDATE or DELETE."""

    number: int
    """Parts of a lower version are to be changed."""
    partition: str
    change: str
    """The command, for `mutations.changed`."""
    made_by: str
