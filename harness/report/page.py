"""report.html: one self-contained page that explains a run."""

import base64
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape
from pyporcupine import timeline

from checkers.phrasing import seconds
from harness.core.errors import HarnessError
from harness.core.history import History
from harness.core.verdict import Anomaly
from harness.report import fault_table
from harness.report.call_sql import call_sql, forms_of, setup_of
from harness.report.calls import columns, encoded
from harness.report.facts import CRASHED, RUNNING, UNREADABLE, Facts
from harness.report.node_logs import excerpts
from harness.report.settings import groups
from harness.report.story import duration, exercise, further, lifetime, promise_and_held, sentences
from harness.report.witness import PAUSE_NS, picture_of
from harness.store.statement_file import read_statements

ASSETS: Final = files("harness.report") / "assets"
SCRIPTS: Final = ("page.js", "calls.js", "painter.js", "charts.js", "statements.js", "timeline.js")
"""Scripts that follow that of `pyporcupine.timeline`, in this order."""
MARKS: Final = {"VALID": "✓", "INVALID": "✗", "UNKNOWN": "?", CRASHED: "!", UNREADABLE: "!",
                RUNNING: "●"}  # fmt: skip
LEGEND: Final = (
    ("ok", "ok"),
    ("fail", "fail"),
    ("info", "info"),
    ("holds", "holds the value"),
    ("invalid", "missing: begun after its acknowledgement"),
    ("not-due", "without it: begun before"),
    ("marked", "witness"),
    ("fault", "fault"),
    ("fault unverified", "fault not verified yet"),
)
"""Classes and labels of what the timeline paints."""
_OP: Final = re.compile(r"(?:(?<=\bop )|(?<=\bbefore ))#(\d+)|#(\d+)(?= before #)")
"""Number of an op in a text, where it cannot be that of an issue."""
BANDS_NAMED: Final = 6
"""Number of faults that get a line of their own in the picture of the witness."""


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the reports' templates, which escapes every value."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(seconds=seconds, duration=duration, lifetime=lifetime, ops=_link_ops)
    made.globals.update(MARKS=MARKS, LEGEND=LEGEND, BANDS_NAMED=BANDS_NAMED, PAUSE_NS=PAUSE_NS)
    return made


def asset(name: str) -> str:
    """Return the text of a style sheet or script of this package."""
    return (ASSETS / name).read_text(encoding="utf-8")


def style() -> Markup:
    """Return the style sheet of every page: that of the timeline, and what the pages add to it."""
    return Markup(timeline.style() + asset("page.css"))  # noqa: S704 # files of ours


def script_hash(text: str) -> str:
    """Return the hash by which a page's policy allows only this script."""
    digest = base64.b64encode(sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"


def page(facts: Facts) -> str:
    """Return the whole page."""
    script = timeline.script() + "".join(map(asset, SCRIPTS))
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            facts=facts,
            style=style(),
            script=Markup(script),  # noqa: S704
            script_hash=script_hash(script),
            sentences=sentences(facts),
            promise=promise_and_held(facts),
            exercise=exercise(facts),
            settings=groups(facts.info),
            **_witness(facts),
            **_history_values(facts),
            **_sql(facts),
        )
    )


def write(facts: Facts, path: Path) -> None:
    """Write the page atomically. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(page(facts), encoding="utf-8", errors="replace")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _witness(facts: Facts) -> Mapping[str, Any]:
    """Return the values of the template that depend on the witnesses."""
    none = {
        "picture": None,
        "anomaly": None,
        "found_by": None,
        "further": (),
        "links": _links(facts),
    }
    if facts.witness is None or facts.history is None:
        return none
    verdict, anomaly = facts.witness
    others = [
        {
            "picture": picture_of(facts.history, other),
            "anomaly": other,
            "found_by": found_by,
            "sentences": further(facts, found_by, other),
        }
        for found_by, other in facts.witnesses[1:]
    ]
    picture = picture_of(facts.history, anomaly)
    return none | {"picture": picture, "anomaly": anomaly, "found_by": verdict, "further": others}


def _anomalies(facts: Facts) -> list[tuple[str, Anomaly]]:
    """Return the anomalies of all checkers with the checkers' names, the witnesses first."""
    verdicts = facts.judgement.verdicts if facts.judgement else ()
    shown = [(verdict.checker, anomaly) for verdict, anomaly in facts.witnesses]
    every = [(verdict.checker, anomaly) for verdict in verdicts for anomaly in verdict.anomalies]
    return shown + [one for one in every if one not in shown]


def _links(facts: Facts) -> Mapping[str, Sequence[tuple[str, int]]]:
    """Return the kind and the number of each anomaly by checker."""
    links: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for number, (checker, anomaly) in enumerate(_anomalies(facts)):
        links[checker].append((anomaly.kind, number))
    return links


def _link_ops(text: object) -> Markup:
    """Return the text as HTML in which each number of an op leads to its call."""
    return Markup(_OP.sub(r'<a href="#op=\1\2">#\1\2</a>', str(escape(text))))  # noqa: S704


def _history_values(facts: Facts) -> Mapping[str, Any]:
    """Return the values of the template that depend on the whole history."""
    history = facts.history
    around = _time_of_anomaly(facts)
    zero = facts.zero
    date = None if around is None or zero is None else zero + timedelta(microseconds=around / 1e3)
    out: dict[str, Any] = {
        "calls": "",
        "faults": (),
        "count": 0,
        "log_date": date,
        "log_time_ns": around,
        "logs": excerpts(facts.logs, date),
    }
    if history is None:
        return out
    return out | {
        "calls": encoded(columns(history, [one.ops for _, one in _anomalies(facts)])),
        "faults": fault_table.rows(history),
        "count": len(history.pairs),
    }


def _sql(facts: Facts) -> Mapping[str, Any]:
    """Return the values of the template that depend on the statements that were sent."""
    none: dict[str, Any] = {"statements": "", "setup": "", "forms": (), "sql_trouble": ""}
    try:
        sent = read_statements(facts.logs.parent)
    except HarnessError as error:
        return none | {"sql_trouble": str(error)}
    if sent is None or facts.history is None:
        return none
    found = call_sql(facts.history, sent, _marked(facts), facts.logs) | {"run": facts.name}
    return none | {"statements": encoded(found), "setup": setup_of(sent), "forms": forms_of(sent)}


def _marked(facts: Facts) -> Sequence[int]:
    """Return the ops of all anomalies."""
    return [op for _, anomaly in _anomalies(facts) for op in anomaly.ops]


def _time_of_anomaly(facts: Facts) -> int | None:
    """Return when the last op of the anomaly, the wrong read, began; None without one."""
    if facts.witness is None or facts.history is None:
        return None
    return _last_invocation(facts.history, facts.witness[1].ops)


def _last_invocation(history: History, ops: tuple[int, ...]) -> int | None:
    wanted = set(ops)
    times = [
        pair.invoke.time_ns
        for pair in history.pairs
        if pair.invoke.index in wanted or (pair.end is not None and pair.end.index in wanted)
    ]
    return max(times, default=None)
