"""The same thing on several nodes at once."""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def on_each(items: Iterable[T], do: Callable[[T], R]) -> dict[T, R]:
    """What `do` returned for each item, in their order. Every one is waited for; then the first
    error, in their order, is raised."""
    todo: Collection[T] = tuple(dict.fromkeys(items))
    if not todo:
        return {}
    if len(todo) == 1:
        return {item: do(item) for item in todo}
    pool = ThreadPoolExecutor(len(todo))
    try:
        futures = {item: pool.submit(do, item) for item in todo}
        wait(futures.values())
    finally:
        # Not waited for: after Ctrl-C the others may take a minute to give up.
        pool.shutdown(wait=False, cancel_futures=True)
    return {item: future.result() for item, future in futures.items()}
