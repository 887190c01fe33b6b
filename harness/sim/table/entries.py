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


def spelled(data: object) -> str:
    """A node's data as 18.16.1 writes it."""
    if isinstance(data, Quorum):
        return (
            f"version: 1\npart_name: {data.part.name}\n"
            f"required_number_of_replicas: {data.needed}\n"
            f"actual_number_of_replicas: {len(data.replicas)}\nreplicas:\n"
            + "".join(f"{replica}\n" for replica in data.replicas)
        )
    if isinstance(data, Entry):
        body = [*(part.name for part in data.parts), "into"] if data.parts else []
        kind = {GET: "get", MERGE: "merge", MUTATE: "mutate"}[data.kind]
        lines = [f"source replica: {data.source}", kind, *body, data.new.name]
        lines += [f"quorum: {data.quorum}"] if data.quorum else []
        return "format version: 4\n" + "\n".join(lines) + "\n"
    if isinstance(data, dict):
        parts = "".join(f"{partition}\t{part.name}\n" for partition, part in data.items())
        return f"version: 2\nparts count: {len(data)}\n{parts}"
    return str(data)


class Mutation(NamedTuple):
    """/mutations/…: an ALTER UPDATE or DELETE."""

    number: int
    """Parts of a lower version are to be changed."""
    partition: str
    change: str
    """The command, for `mutations.changed`."""
    made_by: str
