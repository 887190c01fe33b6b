"""Parts of a cluster, each of which has one or more of its capabilities."""

from typing import ClassVar, TypeVar

from harness.core.errors import UsageError

P = TypeVar("P")


class HasParts:
    """Cluster whose capabilities are those of its parts.

    Its class declares their types, because capabilities are checked before a cluster is made.
    """

    name: str
    parts: ClassVar[tuple[type, ...]] = ()

    def __init__(self, *parts: object) -> None:
        assert tuple(map(type, parts)) == self.parts, "a cluster has the parts that it declares"
        self._parts = parts

    @classmethod
    def has(cls, capability: type) -> bool:
        """Return whether clusters of this class have a capability."""
        return any(issubclass(part, capability) for part in cls.parts)

    def part(self, capability: type[P]) -> P:
        """Return the part that has a capability. Raises UsageError if the cluster lacks it."""
        for part in self._parts:
            if isinstance(part, capability):
                return part
        raise UsageError(f"cluster {self.name} lacks {capability.__name__}; choose another cluster")
