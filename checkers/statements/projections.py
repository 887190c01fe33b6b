"""Compares what projections show at rest with the tables that they are of."""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.statements.partitions import StatementPartition
from checkers.statements.steps import Shown


class ProjectedRow(NamedTuple):
    """A row of which a replica shows other copies by a projection than without one."""

    row: int
    node: str
    shown: Shown
    """Its copies without a projection, in the tables that were read by one, too."""
    projected: Shown


def projected_rows(partition: StatementPartition) -> Iterator[ProjectedRow]:
    """Yield the rows of a partition that projections show otherwise than their tables do, without
    those that a merge may have removed between the two looks."""
    for node, (tables, projected) in sorted(partition.projected.items()):
        rows = partition.shown[node]
        for row in sorted({*rows, *projected} - partition.expired.keys()):
            plain = tuple(one for one in rows.get(row, ()) if one[0] in tables)
            if plain != projected.get(row, ()):
                yield ProjectedRow(row, node, plain, projected.get(row, ()))
