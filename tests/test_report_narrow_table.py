"""Tables of narrow terminals: every word and number whole, or no table."""

from typing import Final

import pytest
from rich.console import Console
from rich.text import Text

from harness.report.narrow_table import TableColumn, least_width, narrow_table, wrapped

CELLS: Final = {
    "servers": ("simulated", "real"),
    "version": ("18.16.1", "25.8.2.1"),
    "cell": ("quorum-set+partition", "merges+kill"),
    "settings": ("defaults", "insert=plain read=plain"),
    "checked": ("1,234,567", "0"),
    "rate": ("0.667", "1e+20"),
}


COLUMNS: Final = [
    TableColumn(name, [*map(Text, cells)], right=name in ("checked", "rate"))
    for name, cells in CELLS.items()
]


def shown(width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(narrow_table(COLUMNS, width))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_table_that_fits_has_a_line_for_each_row() -> None:
    assert shown(100) == [
        "servers    version   cell                  settings                   checked   rate",
        "simulated  18.16.1   quorum-set+partition  defaults                 1,234,567  0.667",
        "real       25.8.2.1  merges+kill           insert=plain read=plain          0  1e+20",
    ]


def test_a_narrow_table_ends_its_lines_between_words_and_behind_joined_names() -> None:
    assert shown(65) == [
        "servers    version   cell         settings        checked   rate",
        "simulated  18.16.1   quorum-set+  defaults      1,234,567  0.667",
        "                     partition",
        "real       25.8.2.1  merges+kill  insert=plain          0  1e+20",
        "                                  read=plain",
    ]


def test_columns_come_closer_before_words_are_cut_off() -> None:
    assert shown(59)[0] == "servers   version  cell        settings       checked  rate"
    assert least_width(COLUMNS) == 59


@pytest.mark.parametrize("width", range(59, 90))
def test_whatever_the_width_words_are_whole_and_lines_fit(width: int) -> None:
    lines = shown(width)
    assert max(map(len, lines)) <= width
    words = {word for line in lines for word in line.split()}
    assert {"1,234,567", "1e+20", "25.8.2.1", "simulated", "insert=plain"} <= words
    assert "".join(sorted("".join(lines).replace(" ", ""))) == "".join(
        sorted(
            "".join((*CELLS, *(cell for cells in CELLS.values() for cell in cells))).replace(
                " ", ""
            )
        )
    )


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("a stale read", 7, "a stale\nread"),
        ("a  b", 3, "a\nb"),
        ("one\ntwo three", 5, "one\ntwo\nthree"),
        ("zk-cut-request,zk-cut-response", 20, "zk-cut-request,\nzk-cut-response"),
        ("quorum-set+kill/2026-0x1", 16, "quorum-set+kill/\n2026-0x1"),
        ("longer-than-that", 5, "longer-than-that"),
        ("", 5, ""),
    ],
)
def test_a_text_is_wrapped_between_words(text: str, width: int, lines: str) -> None:
    assert wrapped(Text(text), width).plain == lines


def test_a_text_keeps_its_styles() -> None:
    two = Text(", ").join([Text("stale-read 3", "dim"), Text("early-snapshot 1 (new)", "bold red")])
    found = wrapped(two, 16)
    assert found.plain == "stale-read 3,\nearly-snapshot 1\n(new)"
    styled = {(str(span.style), found.plain[span.start : span.end]) for span in found.spans}
    assert styled == {
        ("dim", "stale-read 3"),
        ("bold red", "early-snapshot 1"),
        ("bold red", "(new)"),
    }
