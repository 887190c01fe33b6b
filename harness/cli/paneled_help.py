"""Help of a command with many options: the few that most users need, or one panel of all."""

from collections.abc import Collection
from copy import copy
from typing import Any

import rich_click as click

from harness.core.ranges import unknown_name
from harness.spec.option import Panel

ALL = "all"


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
            help=f"Show these options, those of a panel ({', '.join(words)}), or {ALL}.",
        )

    @property
    def _panels(self) -> list[click.RichOptionPanel]:
        return [panel for panel in self.panels if isinstance(panel, click.RichOptionPanel)]

    def _show(self, ctx: click.Context, param: Any, word: str | None) -> None:
        if word is None or ctx.resilient_parsing:
            return
        by_word = {panel.word: panel for panel in Panel}
        if word not in ("", ALL, *by_word):
            why = unknown_name(word, [*by_word, ALL])
            raise click.BadParameter(why, ctx, param)
        flags = self._flags(by_word.get(word), everything=word == ALL)
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
