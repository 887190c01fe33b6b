"""Directories on the command line: which histories are below them."""

from pathlib import Path

import pytest
from pyporcupine import read

from harness.core.errors import UsageError
from harness.importers.directories import histories_below
from harness.importers.files import files

EDN = "{:process 0, :type :invoke, :f :read, :value nil}\n"


def made(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(EDN)
    return root


def below(root: Path, format_: str | None = None) -> list[tuple[str, str]]:
    return [(str(path.relative_to(root)), name) for path, name in histories_below(root, format_)]


TEST = ("history.edn", "history.txt", "jepsen.log", "results.edn", "test.jepsen",
        "node-logs/n1.log", "n1/db.log")  # fmt: skip


def test_of_a_test_of_jepsen_or_maelstrom_only_the_history_counts(tmp_path: Path) -> None:
    made(tmp_path, *(f"store/lin-kv/{time}/{name}" for time in ("1", "2") for name in TEST))
    (tmp_path / "store/latest").symlink_to(tmp_path / "store/lin-kv/2")
    assert below(tmp_path / "store") == [
        ("lin-kv/1/history.edn", "edn"),
        ("lin-kv/2/history.edn", "edn"),
    ]
    assert below(tmp_path / "store/latest") == [("history.edn", "edn")]


@pytest.mark.parametrize(
    ("names", "format_", "expected"),
    [
        (TEST, "history-txt", [("history.txt", "history-txt")]),
        (TEST, "jepsen-log", [("jepsen.log", "jepsen-log")]),
        (("history.txt", "results.edn"), None, [("history.txt", "history-txt")]),
        (("jepsen.log", "results.edn", "n1/db.log"), None, [("jepsen.log", "jepsen-log")]),
        (("jepsen.log", "other.log"), None, [("jepsen.log", "jepsen-log"),
                                             ("other.log", "jepsen-log")]),
        (("history.edn", "b.edn", "notes.md"), None, [("b.edn", "edn"), ("history.edn", "edn")]),
    ],
)  # fmt: skip
def test_a_directory_with_these_files_has_these_histories(
    tmp_path: Path, names: tuple[str, ...], format_: str | None, expected: list[tuple[str, str]]
) -> None:
    assert below(made(tmp_path, *names), format_) == expected


def test_a_report_of_etcd_is_one_history(tmp_path: Path) -> None:
    made(tmp_path, "run/client-1/operations.json", "run/client-1/watch.json",
         "run/client-2/operations.json", "other/a.json")  # fmt: skip
    assert below(tmp_path) == [("other/a.json", "json"), ("run", "etcd")]
    assert below(tmp_path, "etcd") == [("run", "etcd")]
    assert below(tmp_path, "edn") == []


def test_a_binary_store_is_named_with_what_to_do_in_place_of_it(tmp_path: Path) -> None:
    made(tmp_path, "test.jepsen")
    for target in (tmp_path, tmp_path / "test.jepsen"):
        with pytest.raises(UsageError) as refused:
            files([str(target)], None)
        assert "test.jepsen': a binary store, which only Jepsen reads" in str(refused.value)
        assert f'(run! prn (:history (store/test "{tmp_path}")))' in str(refused.value)
    made(tmp_path, "history.edn")
    with pytest.raises(ValueError, match=r"give '.*history\.edn', which has the same"):
        read(tmp_path / "test.jepsen")
    assert below(tmp_path) == [("history.edn", "edn")]
