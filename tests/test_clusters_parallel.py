"""The same thing on several nodes at once."""

import threading

import pytest

from harness.clusters.parallel import on_each
from harness.core.errors import ClusterError


def test_every_item_once_and_in_order() -> None:
    assert list(on_each(["b", "a", "b"], str.upper).items()) == [("b", "B"), ("a", "A")]
    assert on_each([], str.upper) == {}


def test_all_at_once() -> None:
    meet = threading.Barrier(3, timeout=100)
    assert len(on_each(range(3), lambda _: meet.wait())) == 3


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended = []

    def do(item: int) -> None:
        if item != 2:
            raise ClusterError(f"node {item}")
        ended.append(item)

    with pytest.raises(ClusterError, match="node 1"):
        on_each([1, 2, 3], do)
    assert ended == [2]
