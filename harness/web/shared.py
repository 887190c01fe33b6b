"""What several requests need is read and made once for all of them."""

from collections.abc import Callable, Hashable, Sequence
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


class Made(Generic[T]):
    """Values that were made from a state, by key, for callers in any thread. They are kept until
    the state is another; of more than `values_max`, those that were asked for last."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._lock = Lock()
        self._state: Sequence[object] = ()
        self._values: dict[Hashable, T] = {}

    def get(self, state: Sequence[object], key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of the key, which `make` makes from the state. The states are the same
        if their objects are. Raises what `make` raises.

        One value is made at a time: threads that make two in turn take as long.
        """
        with self._lock:
            if list(map(id, self._state)) != list(map(id, state)):
                self._state = state
                self._values.clear()
            value = self._values.pop(key) if key in self._values else make()
            self._values[key] = value
            if len(self._values) > self._values_max:
                del self._values[next(iter(self._values))]
            return value
