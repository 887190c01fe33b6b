"""Parts of a cluster, each of which has one or more of its capabilities."""

from typing import ClassVar, TypeVar

from harness.core.errors import UsageError

P = TypeVar("P")


class HasParts:
    """Cluster whose capabilities are those of its parts: the bases of their classes.

    The cluster's class declares the classes, because capabilities are checked before a cluster is
    made.
    """

    name: str
    parts: ClassVar[tuple[type, ...]] = ()

    def __init__(self, *parts: object) -> None:
        assert tuple(map(type, parts)) == self.parts, "a cluster has the parts that it declares"
        self._by_capability = {base: part for part in parts for base in type(part).__mro__}

    @classmethod
    def has(cls, capability: type) -> bool:
        """Return whether clusters of this class have a capability."""
        return any(capability in part.__mro__ for part in cls.parts)

    def part(self, capability: type[P]) -> P:
        """Return the part that has a capability. Raises UsageError if the cluster lacks it."""
        part = self._by_capability.get(capability)
        if not isinstance(part, capability):
            raise UsageError(
                f"cluster {self.name} lacks {capability.__name__}; choose another cluster"
            )
        return part
