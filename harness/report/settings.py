"""Settings of a run as labels and values: plan, options, workload, servers."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from harness.report.facts import NodeInfo, ReportedRun

Lines: TypeAlias = tuple[tuple[str, str], ...]
UNITS: Final = {"time_limit": "s", "quiesce": "s", "check_time": "s", "interval": "s",
                "duration": "s", "rate": "a second"}  # fmt: skip


def groups(info: ReportedRun) -> tuple[tuple[str, Lines], ...]:
    """Return the groups of settings by title, without those that were not given."""
    plan = info.plan
    options = {"concurrency": plan.concurrency, "rate": plan.rate, "time_limit": plan.time_limit_s}
    options |= {name: value for name, value in plan.options.items() if name != "workload_options"}
    own = plan.options.get("workload_options")
    said = {"workload": plan.workload, "nemesis": plan.nemesis.replace(",", ", "),
            "seed": plan.seed, "promise": plan.promise, "began": _date(info.started_utc),
            "ended": _date(info.ended_utc)}  # fmt: skip
    found = (
        ("Run", _lines(said.items())),
        ("Options", _lines(sorted(options.items()))),
        ("Workload", _lines(own.items() if isinstance(own, Mapping) else ())),
        (
            "Servers",
            (
                *((node.name, _server(node, info)) for node in info.topology.nodes),
                *(
                    ("upgraded to", f"{engine.role} {engine.version} {engine.build}".rstrip())
                    for engine in plan.engines.others
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
    engine = info.plan.engines.nodes.get(node.name)
    if engine and version.startswith(f"{engine.build} "):  # every simulated server says one version
        version = f"{engine.build} {engine.version}"
    elif engine:
        version = f"{version} {engine.build}".rstrip()
    return f"{version}, reads through {', '.join(node.keepers)}" if node.keepers else version
