"""Errors survive the way from one process to another, with their text and their fields."""

import pickle
import re
from importlib import import_module
from pathlib import Path

import pyporcupine  # noqa: F401 # its errors are the product's
import pytest

import harness.native.histories  # noqa: F401
from harness.clients.clickhouse import DatabaseError
from harness.core.connections import QueryError, ZooKeeperError
from harness.core.errors import MissingExtraError, MissingMechanismError, StructuredError
from harness.core.outcomes import WRITE_OUTCOMES
from harness.sim.simulation import KeeperError, ServerError

ROOT = Path(__file__).parents[1]
ROOMS = ("harness", "checkers", "nemesis", "workloads", "compose")
ERROR = re.compile(r"^class \w+\(.*(Error|Exception)\):", re.MULTILINE)
"""Line that begins the class of an exception."""
WITH_FIELDS = (
    DatabaseError(241, "memory", WRITE_OUTCOMES[:1]),
    KeeperError("NONODE", "/a"),
    MissingExtraError("--spark", ModuleNotFoundError(name="pyspark.sql"), "spark"),
    MissingMechanismError("nemesis replace: no such thing", missing="replicas that drop another"),
    QueryError(60, "no table"),
    ServerError(252, "too many parts"),
    ZooKeeperError(True, "connection lost"),
)


def error_classes() -> list[type[BaseException]]:
    """Return every exception class of the product, those of the Rust modules included."""
    for path in sorted(one for room in ROOMS for one in (ROOT / room).rglob("*.py")):
        if ERROR.search(path.read_text()):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    found, ahead = [], [BaseException]
    while ahead:
        kind = ahead.pop()
        ahead += kind.__subclasses__()
        if kind.__module__.split(".")[0] in (*ROOMS, "pyporcupine"):
            found.append(kind)
    return sorted(set(found), key=str)


def test_every_error_with_a_constructor_is_in_the_table_below() -> None:
    own = {one for one in error_classes() if "__init__" in vars(one)}
    assert own == {type(error) for error in WITH_FIELDS}


@pytest.mark.parametrize("error", WITH_FIELDS, ids=lambda error: type(error).__name__)
def test_an_error_with_fields_is_the_same_after_pickling(error: StructuredError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_other_error_is_pickled_with_its_text(kind: type[BaseException]) -> None:
    if "__init__" not in vars(kind):
        error = kind.__new__(kind, "why")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (kind, "why")
