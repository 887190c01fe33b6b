"""What several requests at once need is read once for all of them."""

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Value that `read` returns, for callers in any thread.

    Each caller gets a value whose reading began after its call, as if it had read alone. One
    reading at a time is under way, and all callers that wait for it to end share the next: however
    many they are, none waits for more than two.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = Lock()
        self._begun = 0
        self._value: tuple[int, T] | None = None
        """The last value, and which reading returned it."""

    def get(self) -> T:
        """Return the value. Raises what `read` raises."""
        before = self._begun
        with self._lock:
            if self._value is None or self._value[0] <= before:
                self._begun += 1
                self._value = self._begun, self._read()
            return self._value[1]
