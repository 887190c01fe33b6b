"""The manual's page of options, docs/options.md, made from `RunSpec`:

python -m harness.spec.manual > docs/options.md
"""

from harness.core.ranges import Range
from harness.spec.option import On, Panel
from harness.spec.option_types import Choice
from harness.spec.run_options import OPTIONS, RunOption

HEAD = """\
# Options of a run

The options of `harness run` that decide what a run does. The same names stand in the table `[run]`
of harness.toml, in the `[options]` of scripts and matrices, in the `spec` of run.json, and with
underscores in variables of the environment, such as `HARNESS_RUN_TIME_LIMIT`. A time is a number of
its unit, or has a unit of its own: 250ms, 30s, 10m, 1h, 7d.

`harness run --help PANEL` shows the same, with the options that only say where a run is stored and
how it is shown.
"""
ON = {
    On.CONTAINERS: "docker",
    On.SIMULATED: "sim",
    On.EXTERNAL: "external",
    On.STARTED: "docker, sim",
    On.ANY: "any",
}


def options_page() -> str:
    """Return the page, in Markdown."""
    parts = [HEAD]
    for panel in Panel:
        entries = [entry for entry in OPTIONS.values() if entry.option.panel is panel]
        if entries:
            rows = "\n".join(map(_row, entries))
            parts.append(
                f"## {panel} (`--help {panel.word}`)\n\n"
                f"| option | value | cluster | meaning |\n|---|---|---|---|\n{rows}\n"
            )
    return "\n".join(parts)


def _row(entry: RunOption) -> str:
    flags = ", ".join(f"`{flag}`" for flag in entry.flags)
    return f"| {flags} | {_values(entry)} | {ON[entry.option.on]} | {_cell(entry.option.help)} |"


def _values(entry: RunOption) -> str:
    kind = entry.option.type
    if isinstance(kind, Range):
        word = f", {kind.word}" if kind.word else ""
        unit = "ms" if kind.second == 1_000 else kind.unit
        return f"{kind.low:,.10g} to {kind.high:,.10g} {unit}".rstrip() + word
    if isinstance(kind, Choice):
        return ", ".join(kind.names)
    return _cell(kind.metavar.lower())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(options_page(), end="")
