"""Tables that a narrow terminal can show with every word whole.

rich makes the widest columns narrower until a table fits, and breaks words and numbers for that.
Here lines end between words only, or behind a mark that joins names: "quorum-set+" and below it
"partition".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

GAPS: Final = (2, 1)
"""Spaces between two columns; fewer only where the table does not fit otherwise."""
_ENDS: Final = re.compile(r"(?=\s)|(?<=\s)|(?<=/)|(?<=[+,])(?!\d)")
"""Places at which a line may end; "1,234" and "1e+20" have none."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table: its name and the text of each row."""

    name: str
    cells: Sequence[Text]
    right: bool = False
    """True for numbers, which are aligned by their last digit."""

    @property
    def least(self) -> int:
        """Return the width that its longest word has."""
        pieces = (piece for text in self._texts for piece in _ENDS.split(text))
        return max((cell_len(piece.strip()) for piece in pieces), default=0)

    @property
    def most(self) -> int:
        """Return the width at which no line is wrapped."""
        return max(cell_len(line) for text in self._texts for line in text.split("\n"))

    @property
    def _texts(self) -> list[str]:
        return [self.name, *(cell.plain for cell in self.cells)]


def narrow_table(columns: Sequence[TableColumn], width: int) -> Table | None:
    """Return a table that is no wider than `width`; None if a word would have to be broken."""
    least = [column.least for column in columns]
    gap = next((gap for gap in GAPS if _total(least, gap) <= width), None)
    if gap is None:
        return None
    widths, spare = [*least], width - _total(least, gap)
    # Those that need little get it all, so that most columns are not wrapped.
    for at in sorted(range(len(columns)), key=lambda at: columns[at].most - least[at]):
        more = min(spare, max(0, columns[at].most - least[at]))
        widths[at] += more
        spare -= more
    table = Table(box=None, padding=(0, gap, 0, 0), header_style="dim", pad_edge=False)
    for column, wide in zip(columns, widths, strict=True):
        name = wrapped(Text(column.name), wide)
        table.add_column(name, justify="right" if column.right else "left", no_wrap=True)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(wrapped, row, widths))
    return table


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def wrapped(text: Text, width: int) -> Text:
    """Return the text in lines that are no wider than `width`, unless one of its words is."""
    lines = [_wrapped_line(line, width) for line in text.plain.split("\n")]
    return Text("\n".join(lines), text.style)


def _wrapped_line(line: str, width: int) -> str:
    """Return a line of the text as lines; the spaces at which one ends are dropped."""
    lines = [""]
    for piece in _ENDS.split(line):
        if cell_len((lines[-1] + piece).rstrip()) > width and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        if lines[-1] or len(lines) == 1 or not piece.isspace():
            lines[-1] += piece
    return "\n".join(lines).rstrip(" ")
