"""Many clients of `harness serve` at once: the store is read for all of them together."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from report_cases import WHEN, finished, sound, stale
from test_web_attacks import path_of, served
from test_web_pages import asked

from harness.store.store import Store
from harness.web import runs
from harness.web.runs import Query, Runs
from harness.web.shared import Made, Shared

CLIENTS = 20


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> Iterator[list[object]]:
    """Yield the calls of a method, one entry each."""
    calls: list[object] = []
    method = getattr(of, name)

    def call(self: object, *given: object) -> object:
        calls.append(self)
        return method(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(of, name, call)
        yield calls


def test_twenty_clients_at_once_read_the_store_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reading lasts until all have asked. It may have missed what a later client is
    entitled to see, so the others share a second one."""
    finished(tmp_path, stale())
    with served(tmp_path) as address, counted(monkeypatch, Runs, "all") as requests:
        everyone_asked = threading.Event()
        listed, begun = Store.runs, []

        def slow(store: Store) -> object:
            begun.append(len(requests))
            assert everyone_asked.wait(60)
            return listed(store)

        monkeypatch.setattr(Store, "runs", slow)
        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = [clients.submit(asked, address, "/") for _ in range(CLIENTS)]
            while len(requests) < CLIENTS:
                everyone_asked.wait(0.01)
            everyone_asked.set()
            assert all(b"1 of 1 runs" in answer.result()[1] for answer in answers)
        assert len(begun) <= 2


def test_a_list_is_made_once_for_all_who_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path, stale())
    with served(tmp_path) as address, counted(monkeypatch, Query, "chosen") as made:
        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = [clients.submit(asked, address, "/") for _ in range(CLIENTS)]
            assert len({answer.result()[1] for answer in answers}) == 1
        assert len(made) == 1
        assert b"1 of 1 runs" in asked(address, "/?status=INVALID")[1]
        assert len(made) == 2
        run.results_file.write_text('{"status": "UNKNOWN"}')
        assert b"0 of 1 runs" in asked(address, "/?status=INVALID")[1]
        assert len(made) == 3


def test_the_values_that_were_asked_for_last_are_kept_while_the_state_is_the_same() -> None:
    made: list[str] = []
    values = Made[str](values_max=2)

    def get(state: list[int], key: str) -> str:
        return values.get((state,), key, lambda: (made.append(key), key.upper())[1])

    one, other = [1], [1]
    assert [get(one, key) for key in "abacab"] == list("ABACAB")
    assert made == list("abcb")
    assert [get(other, key) for key in "bb"] == list("BB")
    assert made == list("abcbb")


def test_a_new_run_and_a_new_verdict_are_on_the_next_page(tmp_path: Path) -> None:
    first = finished(tmp_path, stale(), seed=1)
    with served(tmp_path) as address:
        assert b"1 of 1 runs" in asked(address, "/")[1]
        finished(tmp_path, sound(), seed=2, least=10, when=WHEN + timedelta(hours=1))
        assert b"2 of 2 runs" in asked(address, "/")[1]
        assert b"1 of 2 runs" in asked(address, "/?status=INVALID")[1]
        first.results_file.write_text('{"status": "UNKNOWN"}')
        assert b"0 of 2 runs" in asked(address, "/?status=INVALID")[1]
        for file in first.path.iterdir():
            file.unlink()
        first.path.rmdir()
        assert b"1 of 1 runs" in asked(address, "/")[1]


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = finished(tmp_path, stale(), seed=1), finished(tmp_path, sound(), seed=2, least=10)
    read: list[Path] = []
    summary_of = runs.summary_of
    monkeypatch.setattr(runs, "summary_of", lambda run: (read.append(run.path), summary_of(run))[1])
    stored = Runs(Store(tmp_path))
    assert [run.seed for run in stored.all()] == [run.seed for run in stored.all()]
    assert sorted(read) == sorted([one.path, two.path])
    two.results_file.write_text("{}")
    stored.all()
    assert read[2:] == [two.path]


def test_the_page_of_one_run_lists_no_other_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finished(tmp_path, stale())
    with served(tmp_path) as address, counted(monkeypatch, Store, "runs") as listed:
        assert asked(address, path_of(run) + "/figures")[0] == 200
        assert listed == []


@pytest.mark.parametrize("callers", [1, 2, CLIENTS])
def test_each_caller_gets_what_was_read_after_its_call(callers: int) -> None:
    entered, go_on = threading.Event(), threading.Event()
    state = ["old"]
    readings: list[str] = []

    def read() -> str:
        readings.append(state[0])
        entered.set()
        assert go_on.wait(60)
        return readings[-1]

    shared = Shared(read)
    with ThreadPoolExecutor(callers + 1) as pool:
        early = pool.submit(shared.get)
        assert entered.wait(60)
        state[0] = "new"
        late = [pool.submit(shared.get) for _ in range(callers)]
        go_on.set()
        assert early.result() == "old"
        assert [one.result() for one in late] == ["new"] * callers
    assert 2 <= len(readings) <= 1 + callers


def test_a_reading_that_fails_is_the_error_of_its_caller_alone() -> None:
    outcomes: list[Callable[[], int]] = [lambda: 1 // 0, lambda: 7]
    shared = Shared(lambda: outcomes.pop(0)())
    with pytest.raises(ZeroDivisionError):
        shared.get()
    assert shared.get() == 7
    with pytest.raises(IndexError):
        shared.get()


def test_a_folder_that_cannot_be_listed_hides_its_own_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.store import store

    finished(tmp_path, stale())
    finished(tmp_path, sound(), seed=2, least=10, nemesis="kill")
    listed = store.directories

    def refused(path: Path) -> list[Path]:
        if path.name.endswith("kill"):
            raise PermissionError(path)
        return listed(path)

    monkeypatch.setattr(store, "directories", refused)
    (run,) = Store(tmp_path).runs()
    assert run.path.parent.name == "quorum-set+partition"
