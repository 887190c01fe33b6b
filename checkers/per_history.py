"""What several checkers ask of one history, found out once."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from harness.core.history import History

T = TypeVar("T")


def per_history(find: Callable[[History], T]) -> Callable[[History], T]:
    """The same function; what it finds is kept for as long as the history is."""
    known: WeakKeyDictionary[History, T] = WeakKeyDictionary()

    @wraps(find)
    def found(history: History) -> T:
        if history not in known:
            known[history] = find(history)
        return known[history]

    return found
