"""Settings of a run as labels and values: options, workload, servers."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from checkers.replication.audited import AUDIT
from harness.report.facts import NodeInfo, ReportedRun

Lines: TypeAlias = tuple[tuple[str, str], ...]
UNITS: Final = {"time-limit": "s", "quiesce": "s", "check-time": "s", "interval": "s",
                "duration": "s", "rate": "a second"}  # fmt: skip


def groups(info: ReportedRun) -> tuple[tuple[str, Lines], ...]:
    """Return the groups of settings by title, without those that were not given."""
    shown = ("workload", "nemesis", "seed", "promise")
    run = {name: info.said(name) for name in shown}
    run["nemesis"] = run["nemesis"].replace(",", ", ")
    dates = {"began": _date(info.started_utc), "ended": _date(info.ended_utc)}
    # An audit is no run: its spec has the defaults of options that nothing used.
    options = {} if run["workload"] == AUDIT else info.spec
    options = {name: value for name, value in options.items() if name not in shown}
    found = (
        ("Run", _lines({**run, **dates}.items())),
        ("Options", _lines(sorted(options.items()))),
        ("Workload", _lines(info.workload_options.items())),
        (
            "Servers",
            (
                *((node.name, _server(node, info)) for node in info.topology.nodes),
                *(
                    ("upgraded to", f"{engine.role} {engine.version} {engine.build}".rstrip())
                    for engine in info.engines.others
                ),
            ),
        ),
    )
    return tuple((title, lines) for title, lines in found if lines)


def _lines(values: Iterable[tuple[str, object]]) -> Lines:
    labelled = ((*_label(name), value) for name, value in values)
    return tuple((label, text) for label, unit, value in labelled if (text := _text(value, unit)))


def _label(name: str) -> tuple[str, str]:
    """Return the label and the unit of a setting: "quorum timeout" and "ms"."""
    words = name.replace("-", "_").split("_")
    if len(words) > 1 and words[-1] in ("s", "ms"):
        return " ".join(words[:-1]), words[-1]
    return " ".join(words), UNITS.get(name, "")


def _text(value: object, unit: str) -> str:
    """Return the value as text; "" for a setting that was not given."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.10g} {unit}".rstrip()
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _date(utc: str | None) -> str:
    return (utc or "").replace("T", " ").replace("+00:00", " UTC")


def _server(node: NodeInfo, info: ReportedRun) -> str:
    version = info.versions.get(node.name, node.role)
    engine = info.engines.nodes.get(node.name)
    if engine and version.startswith(f"{engine.build} "):  # every simulated server says one version
        version = f"{engine.build} {engine.version}"
    elif engine:
        version = f"{version} {engine.build}".rstrip()
    return f"{version}, reads through {', '.join(node.keepers)}" if node.keepers else version
