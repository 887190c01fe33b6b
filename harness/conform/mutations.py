"""The steps of mutations: UPDATE and DELETE, which replace parts one by one.

Source: ReplicatedMergeTreeQueue and StorageReplicatedMergeTree::mutate of 25.8.
"""

from typing import TYPE_CHECKING

from harness.conform.entries import MutationEntry, PartName
from harness.conform.rules import names_of, require

if TYPE_CHECKING:
    from harness.conform.model import Model


def add(model: "Model", node: str, mutation: MutationEntry) -> None:
    """Add a mutation. Its number in a partition is higher than that of each earlier one, since the
    partition was forgotten. Raises Departure."""
    for partition, number in mutation.numbers.items():
        earlier = [*model.mutations.values()][_first(model, partition) :]
        last = max((m.numbers.get(partition, -1) for m in earlier), default=-1)
        require(number > last, f"its number {number} in {partition} follows {last}")
    model.mutations[node] = mutation


def mutate(model: "Model", part: PartName, old: PartName) -> None:
    """Log the mutation of a part. Raises Departure."""
    numbers = {m.numbers.get(part.partition) for m in model.mutations.values()}
    require(part.version in numbers, f"no mutation has the number {part.version}")
    newest = max(old.version, old.high)
    require(part.version > newest, f"{old.name} is newer than mutation {part.version}")


def finish(model: "Model", name: str, node: str) -> None:
    """Set a replica's mutation_pointer: it has the effect of every mutation up to this one. Raises
    Departure."""
    replica = model.replica(name)
    require(node >= replica.mutated, f"its mutation_pointer goes back from {replica.mutated}")
    require(node in model.mutations, f"there is no mutation {node}")
    numbers = model.mutations[node].numbers
    place = [*model.mutations].index(node)
    behind = [
        part.name
        for part in replica.parts.values()
        if _first(model, part.partition) <= place
        and max(part.low, part.version) < numbers.get(part.partition, 0)
        and part.name not in model.replaced
        and not replica.drops(part)
    ]
    require(not behind, f"{name} still has {names_of(behind)}")
    replica.mutated = node


def _first(model: "Model", partition: str) -> int:
    """Return the place of the first mutation whose number counts in a partition: those of before it
    was forgotten are of other blocks."""
    known = model.forgotten.get(partition)
    return 0 if known is None else known.mutations
