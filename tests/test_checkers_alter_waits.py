"""The checker of what ALTER waits for, on histories by hand."""

from typing import Any

import pytest
from checkers_cases import Event, _call, fault, history

from checkers.ddl.alter_waits import AlterWaits
from checkers.ddl.alters import ADD, DROP
from harness.core.verdict import Status

ALL, OWN = ["ch1", "ch2"], ["ch1"]


def altered(
    begin: float,
    end: float,
    *,
    f: str = ADD,
    column: int = 7,
    kind: str = "ok",
    waits: list[str] | None = None,
    overlaps: bool = False,
    **has: bool,
) -> list[Event]:
    """Return an ALTER on ch1, and what each replica had right after it."""
    seen: dict[str, Any] = {"has": has, "waits": ALL if waits is None else waits}
    value = {**seen, "overlaps": overlaps}
    process = round(begin)
    return _call(process, f, begin, end, kind, "ch1", None, column, value, None)


GOOD = altered(1, 2, ch1=True, ch2=True)
LATE = altered(1, 2, ch1=True, ch2=False)
EARLY = altered(1, 5, overlaps=True, ch1=True, ch2=False)


@pytest.mark.parametrize(
    ("calls", "status", "checked"),
    [
        ((GOOD,), Status.VALID, 1),
        ((LATE,), Status.INVALID, 1),
        ((altered(1, 2, f=DROP, ch1=False, ch2=False),), Status.VALID, 1),
        ((altered(1, 2, f=DROP, ch1=False, ch2=True),), Status.INVALID, 1),
        # The setting says that only the replica which was asked is waited for.
        ((GOOD, altered(3, 4, waits=OWN, column=8, ch1=True, ch2=False)), Status.VALID, 1),
        ((altered(1, 2, waits=OWN, ch1=False, ch2=False),), Status.INVALID, 0),
        # A replica that does not answer says nothing, and neither does an ALTER without an end.
        ((altered(1, 2, ch1=True),), Status.UNKNOWN, 0),
        ((altered(1, 2, kind="info", ch1=True, ch2=False),), Status.UNKNOWN, 0),
        # On servers that end the first ALTER when the second begins, the first is not judged.
        ((EARLY, altered(3, 4, column=8, ch1=True, ch2=True)), Status.VALID, 1),
        ((LATE, altered(1.5, 4, column=8, ch1=True, ch2=True)), Status.INVALID, 2),
        ((EARLY, altered(6, 7, column=8, ch1=True, ch2=True)), Status.INVALID, 2),
        # A DROP of unknown outcome may have removed the column.
        ((altered(0, 0.5, f=DROP, kind="info"), LATE), Status.UNKNOWN, 0),
        ((altered(0, 0.5, f=DROP, kind="fail"), LATE), Status.INVALID, 1),
    ],
)
def test_alters_against_what_replicas_had(
    calls: tuple[list[Event], ...], status: Status, checked: int
) -> None:
    verdict = AlterWaits().check(history(*calls))
    assert (verdict.status, verdict.checked) == (status, checked)


def test_a_witness_names_the_replica_and_the_fault() -> None:
    verdict = AlterWaits().check(history(fault(0.5, 9), LATE))
    assert verdict.anomalies[0].text == (
        "op #3 add-column 7 on ch1 was ok at 0.002 s, and ch2 did not have the column, during "
        "partition {ch1 | ch2}"
    )
    assert AlterWaits().check(history(GOOD)).summary == (
        "1 other replica waited for, each had followed"
    )
