"""What `harness check FILE… --model M` prints of the verdicts on files."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from pyporcupine import Finding, InvariantResult, TransactionsResult
from pyporcupine.importers.record import Reading
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from checkers.phrasing import number
from harness.cli.result import STATUS_STYLE
from harness.core.verdict import Status, worst
from harness.importers.files import exit_status
from harness.importers.judge import FileVerdict
from harness.importers.phrasing import WitnessLine, explain, failures, witness
from harness.importers.transactions import in_words, smallest_part

SHOWN_MAX: Final = 5
"""Number of malformed lines and of keys of a file that are printed; the JSON has all."""


def as_json(judged: Sequence[FileVerdict]) -> dict[str, Any]:
    """Return all results as JSON."""
    return {
        "status": worst(one.status for one in judged),
        "exit_status": exit_status(judged),
        "files": [_of_file(one) for one in judged],
    }


def _of_file(one: FileVerdict) -> dict[str, Any]:
    operations = one.reading.calls
    deciding = [] if one.status is Status.VALID else one.deciding
    return {
        "file": one.path,
        "status": one.status,
        "reason": one.reason,
        "operations": len(operations),
        "lost": one.reading.lost,
        "left_out": one.reading.left_out,
        "keys": len(one.objects) if one.invariant is None else one.invariant.keys,
        "took_ms": round(1e3 * one.took_s, 3),
        **({} if one.isolation is None else {"isolation": _isolation(one.reading, one.isolation)}),
        **({} if one.invariant is None else {"invariant": _invariant(one.reading, one.invariant)}),
        "malformed": [{**asdict(bad), "text": bad.text} for bad in one.reading.malformed],
        "failures": [
            {
                "key": result.key,
                "status": one.status_of(result),
                "reason": one.reason_of(result),
                "witness": [asdict(line) for line in witness(one.reading, result.witness)],
                "why": explain(one.reading, result),
            }
            for result in deciding
        ],
    }


def _isolation(reading: Reading, result: TransactionsResult) -> dict[str, Any]:
    return {
        "violated": result.violated,
        "also_violated": result.also_violated,
        "witness": [
            {"lines": reading.lines[at], "operations": ops}
            for at, ops in zip(result.witness, result.witness_ops, strict=True)
        ],
        "anomalies": [
            {
                "name": anomaly.name,
                "count": anomaly.count,
                "transactions": [reading.lines[at] for at in anomaly.transactions],
                "text": in_words(reading, anomaly),
            }
            for anomaly in result.anomalies
        ],
    }


def _invariant(reading: Reading, result: InvariantResult) -> dict[str, Any]:
    return {
        "counts": result.counts,
        "findings": [
            {
                "name": finding.name,
                "key": finding.key,
                "forbidden": finding.forbidden,
                "count": finding.count,
                "lines": [reading.lines[at] for at in finding.operations],
                "text": finding.text,
            }
            for finding in result.findings
        ],
    }


def show(judged: Sequence[FileVerdict], console: Console) -> None:
    """Print a table with a row for each file, the reasons of those that are not VALID, and the
    answer."""
    figures = (line for one in judged for line in _counts(one))
    console.print(Group(_table(judged), *figures, *_reasons(judged)))
    counts = Counter(one.status for one in judged)
    tally = ", ".join(f"{counts[status]:,} {status.value}" for status in Status if counts[status])
    unread = sum(not one.read for one in judged)
    status = worst(one.status for one in judged)
    text = f": {number(len(judged), 'file')}: {tally}{f', {unread} not readable' if unread else ''}"
    answer = Text.assemble((status.value, STATUS_STYLE[status]), text)
    console.print(answer, soft_wrap=True, highlight=False)


def _table(judged: Sequence[FileVerdict]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    above = _above(judged)
    table.add_column(f"file in {above}" if above else "file", overflow="fold")
    for name in ("operations", "lost", "processes", "keys", "ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in judged:
        if not one.read:
            table.add_row(Text("not read", "bold yellow"), _below(above, one))
            continue
        operations = one.reading.calls
        counts = [
            len(operations),
            one.reading.lost,
            len({operation.process for operation in operations}),
            _keys(one),
        ]
        status = Text(one.status.value, STATUS_STYLE[one.status])
        table.add_row(
            status, _below(above, one), *(f"{n:,}" for n in counts), f"{1e3 * one.took_s:.1f}"
        )
    return table


def _keys(one: FileVerdict) -> int:
    steps = (step for each in one.reading.transactions for step in each.micro_ops)
    if one.invariant is not None:
        return one.invariant.keys
    return len(one.objects) or len({step[1] for step in steps})


def _above(judged: Sequence[FileVerdict]) -> str:
    """Return the common directory of the files; "" for a single file."""
    above = os.path.commonpath([os.path.dirname(os.path.abspath(one.path)) for one in judged])
    return above if len(judged) > 1 and above != "/" else ""


def _below(above: str, one: FileVerdict) -> str:
    return os.path.relpath(one.path, above) if above else one.path


def _reasons(judged: Sequence[FileVerdict]) -> Iterator[RenderableType]:
    for one in judged:
        if not one.read:
            yield from _malformed(one)
        elif one.status is not Status.VALID:
            if one.reason:
                yield Text()
                head = f"  {one.path}: {one.reason}"
                yield Text.assemble((one.status.value, STATUS_STYLE[one.status]), head)
            for anomaly in () if one.isolation is None else one.isolation.anomalies[:SHOWN_MAX]:
                yield Text()
                many = f" ({anomaly.count:,})" if anomaly.count > 1 else ""
                yield Text(f"  {anomaly.name}{many}", "bold")
                for sentence in in_words(one.reading, anomaly):
                    yield Padding(Text(sentence), (0, 0, 0, 4))
            yield from _smallest_part(one)
            for finding in () if one.invariant is None else one.invariant.findings[:SHOWN_MAX]:
                yield from _finding(one.reading, finding)
            for result in one.deciding[:SHOWN_MAX]:
                yield Text()
                key = "" if result.key is None else f", key {result.key!r}"
                head = f"  {one.path}{key}: {one.reason_of(result)}"
                yield Text.assemble((one.status.value, STATUS_STYLE[one.status]), head)
                yield _witness(one.reading, result)
            if len(one.deciding) > SHOWN_MAX:
                yield Text(f"and {number(len(one.deciding) - SHOWN_MAX, 'more key')}", "dim")


def _smallest_part(one: FileVerdict) -> Iterator[RenderableType]:
    """Yield the smallest part of a history of transactions that suffices for its verdict."""
    if one.isolation is not None and one.isolation.witness:
        yield Text()
        yield Text("  this part of the history suffices", "bold")
        for sentence in smallest_part(one.reading, one.isolation):
            yield Padding(Text(sentence), (0, 0, 0, 4))


def _finding(reading: Reading, finding: Finding) -> Iterator[RenderableType]:
    """Yield a finding and the operations that show it."""
    yield Text()
    key = "" if finding.key is None else f", key {finding.key!r}"
    may = "" if finding.forbidden else ", which is allowed"
    yield Text(f"  {finding.name} ({finding.count:,}){key}{may}", "bold")
    yield Padding(Text(finding.text), (0, 0, 0, 4))
    table = _lines(witness(reading, finding.operations))
    for sentence in failures(reading, finding.operations):
        table.add_row("", "why", sentence)
    yield Padding(table, (0, 0, 0, 2))


def _counts(one: FileVerdict) -> Iterator[RenderableType]:
    """Yield what an invariant counted in a file."""
    if one.invariant is not None:
        counts = ", ".join(f"{name} {count:,}" for name, count in one.invariant.counts.items())
        yield Text(f"{one.path}: {counts}", "dim")


def _witness(reading: Reading, result: Any) -> Table:
    table = _lines(witness(reading, result.witness))
    for step in explain(reading, result):
        table.add_row("", "why", step)
    return table


def _lines(lines: Sequence[WitnessLine]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right", no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(f"  {line.where}", f"process {line.process}", line.what)
    return table


def _malformed(one: FileVerdict) -> Iterator[RenderableType]:
    yield Text()
    bad = one.reading.malformed
    for line in bad[:SHOWN_MAX]:
        yield Text.assemble((f"{one.path}:{line.line}: ", "bold"), line.text)
    if len(bad) > SHOWN_MAX:
        yield Text(f"and {number(len(bad) - SHOWN_MAX, 'more malformed line')}", "dim")
