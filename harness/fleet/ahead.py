"""Copies runs of a store elsewhere to this machine while earlier ones are judged.

A request to a bucket takes longer than judging a small history, and a run takes several requests,
each of which waits for the one before.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from harness.fleet.plan import Item

ITEMS_AHEAD: Final = 8
"""Number of items that are copied at the same time, or wait to be judged."""

Place: TypeAlias = AbstractContextManager[Path]
"""Directory on this machine with the files of an item, as long as the block lasts."""


def copied_ahead(
    items: Iterable[Item], place_of: Callable[[Item], Place]
) -> Generator[tuple[Item, Place], None, None]:
    """Yield each item and its place, which a thread enters before it is asked for. What entering
    raises is raised where the place is entered."""
    waiting: deque[tuple[Item, Future[tuple[Path, ExitStack]]]] = deque()
    with ThreadPoolExecutor(ITEMS_AHEAD, "copy") as threads:
        try:
            for item in items:
                waiting.append((item, threads.submit(_entered, place_of(item))))
                if len(waiting) == ITEMS_AHEAD:
                    yield _next(waiting)
            while waiting:
                yield _next(waiting)
        finally:
            for _, future in waiting:  # nobody asked for them
                if not future.cancel() and future.exception() is None:
                    future.result()[1].close()


def _entered(place: Place) -> tuple[Path, ExitStack]:
    with ExitStack() as stack:
        return stack.enter_context(place), stack.pop_all()


def _next(waiting: deque[tuple[Item, Future[tuple[Path, ExitStack]]]]) -> tuple[Item, Place]:
    item, future = waiting.popleft()
    return item, _place(future)


@contextmanager
def _place(future: Future[tuple[Path, ExitStack]]) -> Iterator[Path]:
    path, stack = future.result()
    with stack:
        yield path
