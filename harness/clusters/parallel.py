"""Parallel execution of one function on several items, such as nodes."""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def on_each(items: Iterable[T], do: Callable[[T], R]) -> dict[T, R]:
    """Call `do` on each distinct item in parallel and return the results by item, in their order.

    It waits for all calls. Then the first error, in the order of the items, is raised.
    """
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
        # Without waiting: after Ctrl-C the other calls may take a minute to return.
        pool.shutdown(wait=False, cancel_futures=True)
    return {item: future.result() for item, future in futures.items()}
