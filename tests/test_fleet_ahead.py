"""Runs that are copied while earlier ones are judged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from harness.core.errors import HarnessError
from harness.fleet.ahead import ITEMS_AHEAD, copied_ahead
from harness.fleet.plan import Item

WAIT_S = 60.0
ITEMS = [Item(f"{number:02}", 1) for number in range(3 * ITEMS_AHEAD)]


class Copies:
    """Places that note when they are entered and left."""

    def __init__(self) -> None:
        self.entered = {item.run: Event() for item in ITEMS}
        self.left: list[str] = []

    @contextmanager
    def place_of(self, item: Item) -> Iterator[Path]:
        self.entered[item.run].set()
        if item.run == "03":
            raise HarnessError("it is broken")
        try:
            yield Path(item.run)
        finally:
            self.left.append(item.run)

    def are_entered(self) -> list[str]:
        return [run for run, event in self.entered.items() if event.is_set()]


def test_items_keep_their_order_and_each_has_its_own_error() -> None:
    copies, judged = Copies(), list[str]()
    for item, place in copied_ahead(ITEMS, copies.place_of):
        if item.run == "03":
            with pytest.raises(HarnessError, match="it is broken"), place:
                raise AssertionError("it is entered")
            continue
        with place as path:
            assert path == Path(item.run)
            assert copies.left == judged
        judged.append(item.run)
    runs = [item.run for item in ITEMS]
    assert copies.left == judged == [*runs[:3], *runs[4:]]


def test_the_next_items_are_copied_before_the_first_is_judged() -> None:
    copies = Copies()
    places = copied_ahead(ITEMS, copies.place_of)
    _, first = next(places)
    for item in ITEMS[:ITEMS_AHEAD]:
        assert copies.entered[item.run].wait(WAIT_S)
    assert copies.are_entered() == [item.run for item in ITEMS[:ITEMS_AHEAD]]
    with first:
        pass
    places.close()
    assert sorted(copies.left) == [run for run in copies.are_entered() if run != "03"]


def test_whoever_asks_for_no_more_leaves_nothing() -> None:
    copies = Copies()
    places = copied_ahead(ITEMS, copies.place_of)
    for _ in range(2):
        with next(places)[1]:
            pass
    places.close()
    assert sorted(copies.left) == [run for run in copies.are_entered() if run != "03"]
