"""`harness check FILE --model list-append`: what is read, what is said, what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harness.cli.main import main

Check: TypeAlias = Callable[..., tuple[int, str]]
SKEW = """\
{:process 0 :type :invoke :f :txn :value [[:r :x nil] [:append :y 1]]}
{:process 1 :type :invoke :f :txn :value [[:r :y nil] [:append :x 1]]}
{:process 0 :type :ok :f :txn :value [[:r :x []] [:append :y 1]]}
{:process 1 :type :ok :f :txn :value [[:r :y nil] [:append :x 1]]}
{:process :nemesis :type :info :f :start :value nil}
{:process 2 :type :invoke :f :txn :value [[:append :x 2]]}
{:process 2 :type :info :f :txn :value [[:append :x 2]]}
"""
STALE = """\
[{"process": 0, "type": "invoke", "value": [["w", "x", 1]]},
 {"process": 0, "type": "ok", "value": [["w", "x", 1]]},
 {"process": 1, "type": "invoke", "value": [["r", "x", null]]},
 {"process": 1, "type": "ok", "value": [["r", "x", null]]}]
"""


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
        return ended.value.code, printed.out + printed.err

    return run


def test_write_skew_is_shown_by_lines(check: Check) -> None:
    status, printed = check("skew.edn", SKEW, "--model", "list-append", "--json")
    (file,) = json.loads(printed)["files"]
    assert (status, file["status"], file["operations"], file["lost"]) == (1, "INVALID", 3, 1)
    isolation = file["isolation"]
    assert isolation["violated"] == ["repeatable-read"]
    assert "strict-serializable" in isolation["also_violated"]
    assert isolation["witness"] == [
        {"lines": [1, 3], "operations": [0, 1]},
        {"lines": [2, 4], "operations": [0, 1]},
    ]
    (anomaly,) = isolation["anomalies"]
    assert (anomaly["name"], anomaly["transactions"]) == ("G2-item", [[1, 3], [2, 4]])
    assert anomaly["text"] == [
        "T0 is lines 1–3, process 0: r :x → [], append :y 1",
        "T1 is lines 2–4, process 1: r :y, append :x 1",
        "T0 < T1, because T0 read key ':x' without T1's append of 1",
        "but T1 < T0, because T1 read key ':y' without T0's append of 1: a contradiction",
    ]


def test_what_people_read(check: Check) -> None:
    status, printed = check("skew.edn", SKEW, "--model", "list-append")
    assert status == 1
    assert "skew.edn: not serializable: G2-item; violated: repeatable-read" in printed
    assert "T0 is lines 1–3, process 0: r :x → [], append :y 1" in printed


def test_the_part_that_suffices_leaves_out_the_rest(check: Check) -> None:
    text = SKEW.replace("[:append :y 1]]", "[:append :y 1] [:append :z 1]]")
    status, printed = check("skew.edn", text, "--model", "list-append")
    assert status == 1
    part = printed.split("this part of the history suffices")[1].splitlines()[1:3]
    assert [line.strip() for line in part] == [
        "T0 is lines 1–3, process 0: r :x → [], append :y 1",
        "T1 is lines 2–4, process 1: r :y, append :x 1",
    ]


def test_a_picture_of_transactions(check: Check, tmp_path: Path) -> None:
    picture = tmp_path / "out.html"
    arguments = ("--model", "list-append", "--picture", str(picture))
    assert check("skew.edn", SKEW, *arguments)[0] == 1
    page = picture.read_text()
    assert "T0 < T1, because" not in page  # no text of the file can begin a tag
    assert "T0 \\u003c T1, because T0 read key ':x' without T1's append of 1" in page


def test_a_level_that_allows_it_is_valid(check: Check) -> None:
    level = ("--model", "list-append", "--consistency", "snapshot-isolation")
    assert check("skew.edn", SKEW, *level)[0] == 0


def test_registers_from_json_without_f(check: Check) -> None:
    model = ("--model", "rw-register")
    assert check("stale.json", STALE, *model)[0] == 0
    status, printed = check("stale.json", STALE, *model, "--consistency", "strict-serializable")
    assert status == 1
    assert "G-single-realtime" in printed


def test_a_row_that_breaks_the_rules_is_named_by_its_line(check: Check) -> None:
    text = SKEW.replace("[[:append :x 2]]", "[[:append :x 1]]")
    status, printed = check("twice.edn", text, "--model", "list-append", "--json")
    (bad,) = json.loads(printed)["files"][0]["malformed"]
    assert (status, bad["line"]) == (254, 6)
    assert bad["text"].startswith(
        "the transaction is wrong, as it appends 1 to key ':x', expected another element: line 2"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--consistency", "sequential"), "--consistency is sequential, expected for list-append"),
        (("--initial", "0"), "--initial is not for transactions"),
        (("--sequential-keys",), "--sequential-keys is for rw-register"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    check: Check, arguments: tuple[str, ...], said: str
) -> None:
    status, printed = check("skew.edn", SKEW, "--model", "list-append", *arguments)
    assert status == 254
    assert said in " ".join(printed.split())


def test_levels_are_for_transactions(check: Check) -> None:
    level: Any = ("--model", "register", "--consistency", "serializable")
    status, printed = check("skew.edn", SKEW, *level)
    assert status == 254
    assert "a level of isolation is for list-append or rw-register" in " ".join(printed.split())
