"""`harness check FILE --model total-queue` and the other invariants: what is read, what is said,
what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harness.cli.main import main
from harness.importers.files import check_files, files
from harness.importers.invariants import InvariantParameters
from harness.importers.judge import CheckParameters

Check: TypeAlias = Callable[..., tuple[int, str]]


def events(*calls: tuple[Any, ...]) -> str:
    """Return a history in EDN of calls one after the other: f, what is given, what comes back, and
    the type of the end, by default ok."""
    lines = []
    for process, (f, given, found, *end) in enumerate(calls):
        head = f"{{:process {process}, :f :{f}"
        lines.append(f"{head}, :type :invoke, :value {given}}}")
        lines.append(f"{head}, :type :{end[0] if end else 'ok'}, :value {found}}}")
    return "\n".join(lines) + "\n"


QUEUE = events(("enqueue", 1, 1), ("enqueue", 2, 2), ("enqueue", 3, 3, "fail"),
               ("drain", "nil", "[2 3]"))  # fmt: skip
BANK = events(("read", "nil", "{0 10, 1 0}"), ("transfer", "{:from 0 :to 1}", "{:from 0 :to 1}"),
              ("read", "nil", "{0 -5, 1 15}"))  # fmt: skip


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Write a file, run the command on it, and return its exit status and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, text: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / name).write_text(text)
        monkeypatch.setattr("sys.argv", ["harness", "check", name, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        printed = capsys.readouterr()
        return ended.value.code, " ".join((printed.out + printed.err).split())

    return run


def test_findings_are_told_by_lines(check: Check) -> None:
    status, printed = check("q.edn", QUEUE, "--model", "total-queue", "--json")
    (file,) = json.loads(printed)["files"]
    assert (status, file["status"], file["operations"], file["left_out"]) == (1, "INVALID", 3, 1)
    invariant = file["invariant"]
    assert invariant["counts"]["acknowledged"] == 2
    assert [(one["name"], one["count"], one["lines"]) for one in invariant["findings"]] == [
        ("lost", 1, [[1, 2]]),
        ("unexpected", 1, [[7, 8]]),
    ]


def test_what_people_read(check: Check) -> None:
    status, printed = check("q.edn", QUEUE, "--model", "total-queue")
    assert status == 1
    assert "q.edn: attempted 2, acknowledged 2, dequeued 2, missing 1, lost 1" in printed
    assert "lost (1) 1 value acknowledged and never came out" in printed
    assert "1–2 process 0 enqueue 1" in printed
    assert "7–8 process 3 drain: [2, 3]" in printed
    assert "enqueue 3 ended as fail (line 6): it did not happen, and no other call has 3" in printed


def test_an_initial_value_that_would_explain_it_is_named_as_the_option(check: Check) -> None:
    text = events(("add", 2, 2), ("read", "nil", 102))
    status, printed = check("c.edn", text, "--model", "counter-bounds")
    assert status == 2
    assert "give that with --initial 100" in printed
    assert check("c.edn", text, "--model", "counter-bounds", "--initial", "100")[0] == 0


def test_accounts_come_as_maps(check: Check) -> None:
    status, printed = check("b.edn", BANK, "--model", "bank")
    assert status == 1
    assert "negative-balance (1) 1 read of a negative balance: the first has -5" in printed
    assert "process 2 read: {0: -5, 1: 15}" in printed
    assert check("b.edn", BANK, "--model", "bank", "--negative-balances")[0] == 0


def test_a_linearizable_set_has_no_stale_elements(check: Check) -> None:
    text = events(("add", 1, 1), ("read", "nil", "#{}"), ("read", "nil", "#{1}"))
    status, printed = check("s.edn", text, "--model", "set-full")
    assert status == 0
    assert "stale 1" in printed
    stated = ("--model", "set-full", "--consistency", "linearizable")
    assert check("s.edn", text, *stated)[0] == 1


def test_calls_that_all_failed_say_nothing(check: Check) -> None:
    text = events(("enqueue", 1, 1, "fail"), ("drain", "nil", "nil", "fail"))
    status, printed = check("q.edn", text, "--model", "total-queue")
    assert status == 2
    assert "nothing was checked: there are no operations" in printed


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("--model", "unique-ids", "--initial", "3"),
            "--initial is for counter-bounds, pn-counter, bank",
        ),
        (("--model", "bank", "--initial", "x"), "--initial is x, expected for bank a whole number"),
        (("--model", "bank", "--initial", "true"), "expected for bank a whole number"),
        (("--model", "bank", "--consistency", "linearizable"), "--consistency is not for"),
        (("--model", "set-full", "--consistency", "sequential"), "expected for set-full lineariz"),
        (("--model", "set-full", "--picture", "x.html"), "--picture is not for invariants"),
        (("--model", "register", "--negative-balances"), "--negative-balances is for bank"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    check: Check, arguments: tuple[str, ...], says: str
) -> None:
    status, printed = check("q.edn", QUEUE, *arguments)
    assert status == 254
    assert says in printed


def test_lines_that_the_invariant_does_not_know_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "b.edn"
    path.write_text(BANK)
    (one,) = check_files(files([str(path)], None), InvariantParameters("counter-bounds"))
    assert [(bad.line, bad.field) for bad in one.reading.malformed] == [
        (1, "output"),
        (3, "f"),
        (5, "output"),
    ]


PUT = [("enqueue", 1, 1), ("enqueue", 2, 2)]


@pytest.mark.parametrize(
    ("model", "calls", "status"),
    [
        ("queue", [*PUT, ("drain", "nil", "[2 1]")], "VALID"),
        ("queue", [*PUT, ("drain", "nil", "[2 9]")], "INVALID"),
        ("queue", [*PUT, ("drain", "nil", "[1 2]"), ("dequeue", "nil", 2)], "INVALID"),
        ("queue", [("dequeue", "nil", "nil"), ("drain", "nil", "[]")], "VALID"),
        ("fifo-queue", [*PUT, ("drain", "nil", "[1]"), ("dequeue", "nil", 2)], "VALID"),
        ("fifo-queue", [*PUT, ("drain", "nil", "[2]"), ("dequeue", "nil", 1)], "INVALID"),
    ],
)
def test_a_drain_is_a_dequeue_of_each_value(
    tmp_path: Path, model: Any, calls: list[tuple[Any, ...]], status: str
) -> None:
    path = tmp_path / "q.edn"
    path.write_text(events(*calls))
    (one,) = check_files(files([str(path)], None), CheckParameters(model))
    assert one.status == status


def test_a_drain_that_never_returned_is_for_total_queue_alone(tmp_path: Path) -> None:
    path = tmp_path / "q.edn"
    path.write_text(events(("enqueue", 1, 1), ("drain", "nil", "nil", "info")))
    (one,) = check_files(files([str(path)], None), CheckParameters("queue"))
    (bad,) = one.reading.malformed
    assert (bad.line, bad.found) == (3, '"drain", which never returned')
    assert "--model total-queue" in bad.mend
    (one,) = check_files(files([str(path)], None), InvariantParameters("total-queue"))
    assert one.status == "UNKNOWN"
