"""Reads a judgement back from the JSON of `Judgement.json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from checkers.judge import Judgement
from checkers.ladder import Ladder, Level, Rung
from checkers.triage.explanation import Cause
from harness.core.errors import HarnessError
from harness.core.op import Json
from harness.core.verdict import Anomaly, Status, Verdict


def judgement_of(results: Mapping[str, Json]) -> Judgement:
    """Return the judgement of a results.json, ignoring other entries. Raises HarnessError for
    anything else."""
    try:
        ladder = _mapping(results["ladder"])
        verdicts = [_mapping(entry) for entry in _list(results["verdicts"])]
        return Judgement(
            Status(str(results["status"])),
            tuple(_verdict(entry) for entry in verdicts),
            Ladder(
                Level.named(ladder["promise"]),
                tuple(_rung(_mapping(entry)) for entry in _list(ladder["rungs"])),
                tuple(str(text) for text in _list(ladder["contradictions"])),
            ),
            {e["checker"]: float(e["seconds"]) for e in verdicts if e["seconds"] is not None},
            _explanation(results.get("explanation")),
        )
    except (AssertionError, KeyError, TypeError, ValueError, HarnessError) as error:
        raise HarnessError(
            f"not the results of a judgement ({type(error).__name__}: {error}); "
            "expected status, ladder and verdicts: judge the run again"
        ) from error


def _explanation(said: object) -> Cause | None:
    return None if said is None else Cause.stored(_mapping(said))


def _rung(entry: Mapping[str, Any]) -> Rung:
    return Rung(
        Level.named(entry["level"]),
        Status(entry["status"]),
        bool(entry["promised"]),
        str(entry["by"]),
        str(entry["text"]),
    )


def _verdict(entry: Mapping[str, Any]) -> Verdict:
    return Verdict(
        checker=str(entry["checker"]),
        status=Status(entry["status"]),
        summary=str(entry["summary"]),
        checked=int(entry["checked"]),
        anomalies=tuple(_anomaly(_mapping(a)) for a in _list(entry["anomalies"])),
        figures=_mapping(entry["figures"]),
    )


def _anomaly(entry: Mapping[str, Any]) -> Anomaly:
    return Anomaly(
        kind=str(entry["kind"]),
        text=str(entry["text"]),
        ops=tuple(int(index) for index in entry["ops"]),
        key=None if entry["key"] is None else int(entry["key"]),
        value=None if entry["value"] is None else int(entry["value"]),
        time_ns=int(entry["time_ns"]),
        steps=tuple(str(step) for step in entry["steps"]),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r} is not an object")
    return value


def _list(value: object) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
