"""Tables that a narrow terminal can show with every word whole.

rich makes the widest columns narrower until a table fits, and breaks words and numbers for that.
Here lines end between words only, or behind a mark that joins names: "quorum-set+" and below it
"partition".
"""

import re
from collections.abc import Iterator, Sequence
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


def narrow_table(columns: Sequence[TableColumn], width: int) -> Table:
    """Return a table that is no wider than `width`, or no wider than its words ask for
    (`least_width`)."""
    least = [column.least for column in columns]
    gap = next((gap for gap in GAPS if _total(least, gap) <= width), GAPS[-1])
    widths, spare = [*least], max(0, width - _total(least, gap))
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


def least_width(columns: Sequence[TableColumn]) -> int:
    """Return the width without which a table of these columns is cut off."""
    return _total([column.least for column in columns], GAPS[-1])


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def wrapped(text: Text, width: int) -> Text:
    """Return the text in lines that are no wider than `width`, unless one of its words is."""
    return Text("\n").join(one for line in text.split("\n") for one in _lines(line, width))


def _lines(line: Text, width: int) -> Iterator[Text]:
    """Yield a line of the text as lines; the spaces at which one ends are dropped."""
    text, begin, offsets = line.plain, 0, list[int]()
    for end in [*(found.start() for found in _ENDS.finditer(text)), len(text)]:
        last = offsets[-1] if offsets else 0
        if cell_len(text[last:end].rstrip()) > width and text[last:begin].strip():
            offsets.append(begin)
        begin = end
    for one in line.divide(offsets):
        one.rstrip()
        yield one
