"""The options of `harness run` on a command line: those of `RunSpec`, and those of the command; and
its help, which shows the few that most users need, or those of a panel."""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import rich_click as click
from msgspec import structs

from harness.cli.parameter_types import (
    WORD,
    Name,
    click_option,
    json_option,
    number,
    open_option,
    store_option,
)
from harness.core.errors import UsageError
from harness.core.ranges import unknown_name
from harness.run.run_request import Invocation
from harness.run.scripted import BYTES_MAX, read_script
from harness.spec.option import Panel
from harness.spec.run_options import OPTIONS
from harness.spec.run_spec import RunSpec


def _as_defaults(ctx: click.Context, param: Any, path: str | None) -> str | None:
    """Make the options of a script's file the defaults of the command line, in place of those of
    the profile that change what a run does."""
    if path is None:
        return None
    try:
        options = read_script(Path(path)).options
    except UsageError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    for name in options:
        if name not in OPTIONS:
            from harness.spec.toml_file import read_toml  # it is needed for errors alone

            read_toml("script", Path(path), BYTES_MAX).refuse(
                "options", name, unknown_name(name, OPTIONS, "harness run --help")
            )
    of_run = {entry.parameter for entry in OPTIONS.values()}
    kept = {name: value for name, value in (ctx.default_map or {}).items() if name not in of_run}
    ctx.default_map = {**kept, **{OPTIONS[name].parameter: options[name] for name in options}}
    return path


_OF_SCRIPT: Final = {"script": {"is_eager": True, "callback": _as_defaults}}
COMMAND_OPTIONS: Final[Mapping[Panel, tuple[Any, ...]]] = {
    Panel.RUN: (
        click.option(
            "--count",
            type=number("count"),
            default=1,
            help="Number of runs on one cluster, each with the next seed (2**64 - 1 is followed by "
            "0). Default: 1.",
        ),
        click.option(
            "--jobs",
            type=number("jobs"),
            default=1,
            help="With --cluster sim: number of parallel runs, each in a process. Default: 1.",
        ),
    ),
    Panel.CLUSTER: (
        click.option("--keep-cluster", is_flag=True, help="Leave the cluster running."),
        click.option(
            "--stop-at-departure",
            is_flag=True,
            help="With --keep-cluster: pause every server when ZooKeeper has a step that the model "
            "of the protocol does not allow, and end the run there.",
        ),
        click.option("--reuse", type=WORD, metavar="NAME", help="Run on a kept cluster."),
    ),
    Panel.OUTPUT: (
        store_option,
        click.option(
            "--report",
            type=Name(["all", "invalid", "none"]),
            default="all",
            help="Runs for which to draw the page and write history.parquet; `harness report` and "
            "`harness check STORE` do so for the others. Default: all.",
        ),
        open_option,
        json_option,
    ),
}
"""Options that do not change what a run does, by the panel of the help whose end they stand at."""
ALL_PANELS: Final = "all"
COMMON: Final = (
    *(entry.parameter for entry in OPTIONS.values() if entry.option.common),
    *("count", "store", "open_", "as_json"),
)
"""Names of the parameters that the short help shows."""


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of `harness run`. Help shows each group in a panel of its own."""
    for panel in reversed(Panel):
        of_run = [e for e in OPTIONS.values() if e.option.panel is panel]
        options = [click_option(e.name, e.option, **_OF_SCRIPT.get(e.name, {})) for e in of_run]
        options += COMMAND_OPTIONS.get(panel, ())
        for option in reversed(options):
            command = option(command)
        # click collects the parameters of a command here, the last one first.
        added = vars(command)["__click_params__"][-len(options) :]
        names = [param.opts[0] for param in reversed(added)]
        command = click.option_panel(panel, options=names)(command)
    return command


def spec_of(values: Mapping[str, Any], base: RunSpec | None = None) -> RunSpec:
    """Return the run that the values of click's parameters describe; what they leave open is as in
    `base`, by default as in a run without options."""
    given = {
        entry.field: value
        for entry in OPTIONS.values()
        if (value := values.get(entry.parameter)) not in (None, ())
    }
    return structs.replace(base or RunSpec(), **given)


def invocation_of(values: Mapping[str, Any]) -> Invocation:
    """Return the options of the command itself."""
    names: Iterable[str] = (field.name for field in fields(Invocation))
    return Invocation(**{name: values[name] for name in names if name in values})


class PaneledCommand(click.RichCommand):
    """Command whose `--help` shows the common options, and whose `--help PANEL` shows those of
    a panel."""

    def __init__(self, *args: Any, common: Collection[str] = (), **attributes: Any) -> None:
        """Make a command; `common` are the names of the parameters that the short help shows."""
        super().__init__(*args, **attributes)
        self.common = common

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return the option, which takes a panel."""
        words = [panel.word for panel in Panel]
        return click.Option(
            self.get_help_option_names(ctx),
            is_flag=False,
            flag_value="",
            is_eager=True,
            expose_value=False,
            callback=self._show,
            metavar="[PANEL]",
            help=f"Show these options, those of a panel ({', '.join(words)}), or {ALL_PANELS}.",
        )

    @property
    def _panels(self) -> list[click.RichOptionPanel]:
        return [panel for panel in self.panels if isinstance(panel, click.RichOptionPanel)]

    def _show(self, ctx: click.Context, param: Any, word: str | None) -> None:
        if word is None or ctx.resilient_parsing:
            return
        by_word = {panel.word: panel for panel in Panel}
        if word not in ("", ALL_PANELS, *by_word):
            why = unknown_name(word, [*by_word, ALL_PANELS])
            raise click.BadParameter(why, ctx, param)
        flags = self._flags(by_word.get(word), everything=word == ALL_PANELS)
        shown = copy(self)
        shown.params = [one for one in self.params if flags.intersection(one.opts)]
        shown.panels = [
            click.RichOptionPanel(panel.name, options=kept)
            for panel in self._panels
            if (kept := [flag for flag in panel.options or () if flag in flags])
        ]
        click.echo(shown.get_help(ctx), color=ctx.color)
        ctx.exit()

    def _flags(self, panel: Panel | None, *, everything: bool) -> set[str]:
        """Return the flags to show: those of a panel, of all, or the common ones."""
        return {
            flag
            for group in self._panels
            for flag in group.options or ()
            for param in self.params
            if flag in param.opts
            and (everything or group.name == panel or (panel is None and param.name in self.common))
        }
