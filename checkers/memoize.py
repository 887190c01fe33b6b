"""Caches what several checkers compute from one history."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from harness.core.history import History

T = TypeVar("T")


def memoize_per_history(find: Callable[[History], T]) -> Callable[[History], T]:
    """Return the same function, with results cached as long as their history lives."""
    known: WeakKeyDictionary[History, T] = WeakKeyDictionary()

    @wraps(find)
    def found(history: History) -> T:
        if history not in known:
            known[history] = find(history)
        return known[history]

    return found
