"""`harness check FILE…`: what a user sees, and the exit status."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyporcupine.importers.formats import Model
from rich.console import Console

from harness.cli.check_files import show
from harness.cli.main import main
from harness.core.errors import UsageError
from harness.importers.files import check_files, exit_status, files
from harness.importers.judge import CheckParameters
from harness.importers.phrasing import explain, witness

Check = Callable[..., tuple[int, Any]]
FILES = Path(__file__).parent / "importers"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Run the command, and return its exit status and its JSON."""
    monkeypatch.chdir(FILES)

    def run(*arguments: str) -> tuple[int, Any]:
        monkeypatch.setattr("sys.argv", ["harness", "check", *arguments, "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, json.loads(capsys.readouterr().out)

    return run


def judged(*names: str, **question: Any) -> list[Any]:
    return check_files(
        files([str(FILES / name) for name in names], None), CheckParameters(**question)
    )


def test_the_worst_decides(check: Check) -> None:
    status, output = check("*.log", "--model", "cas-register", "--format", "jepsen-log")
    assert (status, output["status"], output["exit_status"]) == (1, "INVALID", 1)
    ok, stale = output["files"]
    assert (ok["file"], ok["status"], ok["operations"], ok["lost"]) == (
        "register-ok.log",
        "VALID",
        5,
        1,
    )
    (failure,) = stale["failures"]
    assert [(line["where"], line["what"]) for line in failure["witness"]] == [
        ("2–4", "write 1"),
        ("7–", "cas 1 → 2, never returned"),
        ("11–12", "read: 2"),
        ("13–14", "read: 1"),
    ]


def test_a_malformed_file_costs_no_other(check: Check) -> None:
    status, output = check("register.jsonl", "malformed.jsonl", "--model", "register")
    assert (status, output["status"]) == (2, "UNKNOWN")
    good, bad = output["files"]
    assert good["status"] == "VALID"
    assert [line["line"] for line in bad["malformed"]] == [2, 3, 4, 5]
    assert bad["malformed"][0]["text"].startswith("client is 'zero', expected int: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["malformed.jsonl", "--model", "register"], None),
        (["nowhere/*.log", "--model", "register"], "'nowhere/*.log' names no file"),
        (["register.jsonl", "--format", "jsonl"], "no --model"),
        (
            ["register.jsonl"],
            "is a file; expected a run, or files with --model, one of set, register,",
        ),
        (["latest", "--time-s", "3"], "--time-s is for files; give --model"),
        (
            ["kv.txt", "--model", "key-value", "--promise", "eventual"],
            "--promise is for stored runs",
        ),
        (["kv.txt", "--model", "key-value", "--initial", "1.5"], "--initial is 1.5, expected"),
        (["--model", "register"], "no file"),
        (["kv.txt", "--model", "tree"], "'tree' is unknown; expected one of"),
    ],
)
def test_bad_arguments(check: Check, arguments: list[str], says: str | None) -> None:
    status, output = check(*arguments)
    assert status == 254
    assert says is None or says in output["error"]


@pytest.mark.parametrize(
    ("name", "model", "operations", "keys"),
    [("register.edn", "cas-register", 3, 1), ("kv.txt", "key-value", 4, 2)],
)
def test_other_formats(name: str, model: str, operations: int, keys: int) -> None:
    (one,) = judged(name, model=model)
    assert (one.status, len(one.reading.operations), len(one.objects)) == (
        "VALID",
        operations,
        keys,
    )


def test_rows_that_the_checker_refuses_are_told_line_by_line() -> None:
    (one,) = judged("kv.txt", model="register")
    assert exit_status([one]) == 254
    assert [(bad.line, bad.field, bad.found) for bad in one.reading.malformed] == [
        (1, "f", '"put"'),
        (2, "f", '"get"'),
        (5, "f", '"append"'),
        (7, "f", '"get"'),
    ]


def test_two_calls_of_a_client_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"client":0,"f":"write","value":1,"ok":true,"call":0,"return":5}\n'
        '{"client":0,"f":"write","value":2,"ok":true,"call":2,"return":1}\n'
        '{"client":0,"f":"write","value":3,"ok":true,"call":3,"return":4}\n'
    )
    (one,) = check_files(files([str(path)], None), CheckParameters("register"))
    assert [bad.line for bad in one.reading.malformed] == [2, 3]
    assert "line 1 of the same process 0 is in flight" in one.reading.malformed[1].found


def txns(*found: str) -> str:
    """Return a history in EDN of transactions that found or wrote this, one after the other."""
    calls = [re.sub(r"(\[:r \S+) \S+\]", r"\1 nil]", ends) for ends in found]
    return "".join(
        f"{{:process 0, :type :{type_}, :f :txn, :value [{value}]}}\n"
        for pair in zip(calls, found, strict=True)
        for type_, value in zip(("invoke", "ok"), pair, strict=True)
    )


def registers(*steps: str) -> str:
    """Return a history in EDN of one client: "read 1", "write 2", "cas [1 2]"."""
    events = []
    for step in steps:
        f, value = step.split(" ", 1)
        for type_, shown in (("invoke", "nil" if f == "read" else value), ("ok", value)):
            events.append(f"{{:process 0, :type :{type_}, :f :{f}, :value {shown}}}")
    return "\n".join(events)


STALE = registers("write 1", "write 2", "read 1")
INITIAL: list[tuple[str, str, Model, str, str]] = [
    ("a value from before the test", registers("read 0", "write 3", "read 3"), "register",
     "UNKNOWN", "explained if the object began with 0, and nothing says what it began with: give "
     "that with --initial, such as --initial 0"),
    ("a value from before the test that is written later", registers("read 3", "write 3"),
     "register", "UNKNOWN", "explained if the object began with 3"),
    ("a cas of a value from before the test", registers("cas [4 5]", "read 5"), "cas-register",
     "UNKNOWN", "explained if the object began with 4"),
    ("a value that nothing wrote, after a write", registers("write 1", "read 7"), "register",
     "INVALID", "a read returned a value that was never written"),
    ("two values from before the test", registers("read 1", "read 2"), "register", "INVALID",
     "a read returned a value that was never written"),
    ("a stale read of a value from before the test", registers("read 0", "write 3", "read 0"),
     "register", "INVALID", "a read returned a value that was never written"),
    ("a stale read of a value that was written", STALE,
     "register", "INVALID", "an operation on one value comes between operations on another"),
    ("a sum from before the test", registers("read 5", "add 2", "read 7"), "counter", "UNKNOWN",
     "explained if the object began with 5"),
    ("sums of two beginnings", registers("read 5", "add 2", "read 8"), "counter", "INVALID",
     "no operations, in whatever order, make this one possible"),
    ("rows from before the test", txns("[:r :x 5] [:w :y 1]", "[:r :y 1] [:r :z 7]"),
     "multi-register", "UNKNOWN", "explained if registers began with values that were there "
     "before the test (':x' with 5, ':z' with 7), and nothing says what they began with"),
    ("a row that is written later", txns("[:r :x 5]", "[:w :x 5]"), "multi-register", "UNKNOWN",
     "explained if registers began with values that were there before the test (':x' with 5), and "
     "nothing says what they began with: give that with --initial, such as --initial 5"),
    ("a row that had two values before the test", txns("[:r :x 5]", "[:r :x 6]"),
     "multi-register", "INVALID", "a transaction found a value that nothing wrote"),
    ("a row read before and after its overwriting", txns("[:r :x 5]", "[:w :x 1]", "[:r :x 5]"),
     "multi-register", "INVALID", "a transaction found a value that nothing wrote"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "model", "status", "reason"),
    [case[1:] for case in INITIAL],
    ids=[case[0] for case in INITIAL],
)
def test_a_violation_that_rests_on_an_assumed_initial_value(
    text: str, model: Model, status: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(text)
    (one,) = check_files([(path, "edn")], CheckParameters(model))
    (result,) = one.deciding
    assert one.status == status
    assert one.reason_of(result).startswith(reason)


def test_an_initial_value_that_is_given_is_not_doubted(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(registers("read 0", "write 3", "read 3"))
    for initial, status in ((0, "VALID"), (1, "INVALID"), (None, "INVALID")):
        (one,) = check_files([(path, "edn")], CheckParameters("register", initial=initial))
        assert one.status == status


def test_a_key_in_doubt_hides_no_violation_of_another(tmp_path: Path, check: Check) -> None:
    path = tmp_path / "history.edn"
    doubtful = registers("read 0").replace("}", ", :key :a}")
    path.write_text(f"{doubtful}\n{STALE.replace('}', ', :key :b}')}")
    status, output = check(str(path), "--model", "register")
    assert (status, output["status"]) == (1, "INVALID")
    assert [failure["key"] for failure in output["files"][0]["failures"]] == [":b"]


def wide(path: Path, width: int) -> Path:
    """Write a counter history with a read that only a search through all sums can refuse."""
    calls = [
        {"client": i, "f": "add", "value": 1 << i, "ok": True, "call": i, "return": 100 + i}
        for i in range(width)
    ]
    calls.append({"client": 99, "f": "read", "value": 3, "ok": True, "call": 98, "return": 99})
    calls.append({"client": 98, "f": "read", "value": -1, "ok": True, "call": 97, "return": 170})
    path.write_text("\n".join(json.dumps(call) for call in calls))
    return path


def test_a_hard_file_leaves_time_for_the_others(tmp_path: Path) -> None:
    easy = tmp_path / "z.jsonl"
    easy.write_text('{"client":0,"f":"read","value":0,"ok":true,"call":0,"return":1}')
    paths = [str(wide(tmp_path / "a.jsonl", 40)), str(easy)]
    hard, other = check_files(files(paths, None), CheckParameters("counter", time_s=0.4))
    assert (hard.status, other.status) == ("UNKNOWN", "VALID")
    assert hard.objects[0].reason.startswith("out of time: explored ")


def test_out_of_budget_is_unknown(tmp_path: Path) -> None:
    path = wide(tmp_path / "wide.jsonl", 24)
    (one,) = check_files(files([str(path)], None), CheckParameters("counter", memory_mb=0.01))
    assert (one.status, exit_status([one])) == ("UNKNOWN", 2)
    assert one.objects[0].reason.startswith("out of memory")


def test_transactions_over_several_registers(tmp_path: Path) -> None:
    path = tmp_path / "txn.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :txn :value [[:write :x 1] [:write :y 1]]}\n"
        "{:process 1 :type :invoke :f :txn :value [[:read :x nil] [:read :y nil]]}\n"
        "{:process 1 :type :ok :f :txn :value [[:read :x 1] [:read :y 0]]}\n"
        "{:process 0 :type :info :f :txn :value [[:write :x 1] [:write :y 1]]}\n"
    )
    (one,) = check_files(files([str(path)], None), CheckParameters("multi-register"))
    (found,) = one.objects
    assert [(line.where, line.what) for line in witness(one.reading, found.witness)] == [
        ("1–", "txn write ':x' 1, write ':y' 1, never returned"),
        ("2–3", "txn read ':x': 1, read ':y': 0"),
    ]
    path.write_text(path.read_text().replace(":x 1] [:read :y 0]", ":x nil] [:read :y nil]"))
    (blind,) = check_files(files([str(path)], None), CheckParameters("multi-register"))
    assert (blind.status, blind.reason.split(":")[0]) == ("UNKNOWN", "nothing was checked")


def test_what_people_read() -> None:
    console = Console(width=120, record=True, force_terminal=False)
    show(judged("register-stale.log", model="cas-register"), console)
    result = [line.rstrip() for line in console.export_text().splitlines()[2:]]
    assert "\n".join(result).replace(str(FILES), "…") == EXPECTED


EXPECTED = """
INVALID  …/register-stale.log: no order of the operations explains this one
    2–4  process 0  write 1
     7–  process 2  cas 1 → 2, never returned
  11–12  process 1  read: 2
  13–14  process 0  read: 1
         why        no order of these calls explains read: 1 (line 13)
         why        these calls suffice: the rest of the history does not matter
INVALID: 1 file: 1 INVALID"""


def test_no_file_is_judged_twice(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.edn", "a.log", "sub/c.jsonl", "readme.md"):
        (tmp_path / name).touch()
    found = files([str(tmp_path), str(tmp_path / "*.edn")], None)
    assert [(path.name, name) for path, name in found] == [
        ("a.log", "jepsen-log"),
        ("b.edn", "edn"),
        ("c.jsonl", "jsonl"),
    ]
    with pytest.raises(UsageError, match=r"a directory with files ending in \.txt"):
        files([str(tmp_path)], "porcupine-kv")


OWN_MODEL = '''
from pyporcupine import UNKNOWN

class Largest:
    """Keeps the largest value that was written."""

    reads = frozenset({"peek"})

    def init(self):
        return 0

    def step(self, state, call, output):
        if call.f == "write":
            return max(state, call.value)
        return state if output is UNKNOWN or output == state else None

class Broken(Largest):
    def step(self, state, call, output):
        raise KeyError(call.f)

class Needy(Largest):
    def __init__(self, size):
        self.size = size

LIMIT = 3
'''
OF_LARGEST = """{:process 0, :type :invoke, :f :write, :value 5}
{:process 0, :type :ok, :f :write, :value 5}
{:process 0, :type :invoke, :f :write, :value 3}
{:process 0, :type :ok, :f :write, :value 3}
{:process 1, :type :invoke, :f :peek, :value nil}
{:process 1, :type :ok, :f :peek, :value 3}
"""


@pytest.fixture
def own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a history, and put a module with models beside it."""
    (tmp_path / "largest_model.py").write_text(OWN_MODEL)
    (tmp_path / "history.edn").write_text(OF_LARGEST)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return str(tmp_path / "history.edn")


def test_a_model_of_ones_own_judges_a_file(check: Check, own_model: str) -> None:
    status, output = check(own_model, "--model", "largest_model:Largest")
    assert status == 1, output
    (one,) = output["files"]
    assert (status, one["status"]) == (1, "INVALID")
    (failure,) = one["failures"]
    assert [line["where"] for line in failure["witness"]] == ["1–2", "3–4", "5–6"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("largest_model:Smallest", "has no Smallest"),
        ("largest_model:LIMIT", "is a int, expected a class"),
        ("largest_model:Needy", "expected a class that is made without arguments"),
        ("largest_model:Broken", "raised KeyError"),
    ],
)
def test_a_bad_model_of_ones_own_is_refused(
    check: Check, own_model: str, model: str, says: str
) -> None:
    status, output = check(own_model, "--model", model)
    assert status == 254
    assert says in output["error"]


def test_the_initial_value_of_a_model_of_ones_own_is_its_own(check: Check, own_model: str) -> None:
    status, output = check(own_model, "--model", "largest_model:Largest", "--initial", "1")
    assert status == 254
    assert "--initial is not for largest_model:Largest" in output["error"]


def test_a_picture_is_drawn_of_one_file(check: Check, tmp_path: Path) -> None:
    picture = tmp_path / "out.html"
    status, _ = check("register-stale.log", "--model", "cas-register", "--picture", str(picture))
    assert status == 1
    page = picture.read_text()
    assert "register-stale.log" in page
    assert "INVALID" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["*.log", "--model", "cas-register"], "--picture draws one file, and these are 2"),
        (["latest"], "--picture is for files"),
        (["tools/bank.edn", "--model", "bank"], "--picture is not for invariants"),
    ],
)
def test_a_picture_of_anything_else_is_refused(
    check: Check, tmp_path: Path, arguments: list[str], says: str
) -> None:
    status, output = check(*arguments, "--picture", str(tmp_path / "out.html"))
    assert status == 254
    assert says in output["error"]


def test_a_picture_that_cannot_be_written_is_an_error(check: Check, tmp_path: Path) -> None:
    place = str(tmp_path / "missing" / "out.html")
    status, output = check("register-ok.log", "--model", "cas-register", "--picture", place)
    assert status == 254
    assert "expected a file to write" in output["error"]


@pytest.mark.parametrize(
    ("model", "failed", "says"),
    [
        ("register", "write 3", "write 3 ended as fail (line 2)"),
        ("cas-register", "cas [1 3]", "cas 1 → 3 ended as fail (line 2)"),
    ],
)
def test_a_value_that_only_a_failed_call_brought_explains_itself(
    tmp_path: Path, model: Model, failed: str, says: str
) -> None:
    history = registers(failed, "write 1", "read 3").replace(":type :ok", ":type :fail", 1)
    path = tmp_path / "a.edn"
    path.write_text(history)
    (one,) = check_files(files([str(path)], None), CheckParameters(model, initial=0))
    (found,) = one.objects
    assert f"{says}: it did not happen, and no other call has 3" in explain(one.reading, found)
    path.write_text(history + registers("write 3"))
    (one,) = check_files(files([str(path)], None), CheckParameters(model, initial=0))
    (found,) = one.objects
    assert not any("ended as fail" in sentence for sentence in explain(one.reading, found))
