"""`harness serve` against stores and clients that mean harm: it refuses, and goes on answering."""

import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import uvicorn
from report_cases import begun, finished, long, sound, stale
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from test_web_pages import asked

from harness.cli.terminal import PrintableFormatter
from harness.store.store import RunDirectory, Store
from harness.web import connections, live
from harness.web.app import app
from harness.web.connections import BoundedProtocol
from harness.web.live import Tail

DEEP = '{"plan":' + "[" * 100_000 + "]" * 100_000 + "}"


@contextmanager
def serving(store: Path) -> Iterator[tuple[str, uvicorn.Server]]:
    """Serve the store in a thread of this process, and yield its address and the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            app(Store(store), ("127.0.0.1",)), http=BoundedProtocol, log_config=None
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address, server
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Serve the store, and yield its address."""
    with serving(store) as (address, _):
        yield address


def path_of(run: RunDirectory) -> str:
    return f"/run/{run.path.parent.name}/{run.path.name}"


def connected(stack: ExitStack, address: str, sent: bytes) -> socket.socket:
    _, _, port = address.rpartition(":")
    client = stack.enter_context(socket.create_connection(("127.0.0.1", int(port)), timeout=60))
    client.sendall(sent)
    return client


def closed(client: socket.socket) -> bool:
    """Wait until the server has closed the connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("name", ["history.jsonl", "run.json", "results.json", "history.parquet"])
def test_a_fifo_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path: Path, name: str) -> None:
    """Opening a FIFO to read blocks until it has a writer, so such a directory does not count as a
    run."""
    run, other = finished(tmp_path, stale()), finished(tmp_path, sound(), seed=2, least=10)
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with served(tmp_path) as address:
        for rest in ("", "/live", "/figures", "/archive"):
            assert asked(address, path_of(run) + rest)[0] == 404
        assert asked(address, path_of(other))[0] == 200
        assert b"1 of 1 runs" in asked(address, "/")[1]


def test_a_fifo_among_the_logs_keeps_nobody_waiting(tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    (run.logs / "ch1").mkdir(parents=True)
    os.mkfifo(run.logs / "ch1" / "server.log")
    with served(tmp_path) as address:
        assert asked(address, path_of(run))[0] == 200


def test_a_folder_that_leads_out_of_the_store_is_refused(tmp_path: Path) -> None:
    outside = finished(tmp_path / "elsewhere", stale())
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "linked").symlink_to(outside.path.parent)
    with served(tmp_path / "store") as address:
        assert b"0 of 0 runs" in asked(address, "/")[1]
        for rest in ("", "/figures", "/archive"):
            assert asked(address, f"/run/linked/{outside.path.name}{rest}")[0] == 404
    assert not outside.report.exists()


def test_a_journal_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(tmp_path, long(2_000))
    whole = Tail(run.journal, stale_is_wrong=True).read()
    assert whole["behind"] is False
    monkeypatch.setattr(live, "READ_BYTES_MAX", 40_000)
    tail = Tail(run.journal, stale_is_wrong=True)
    pieces = [tail.read()]
    while pieces[-1]["behind"]:
        pieces.append(tail.read())
    assert len(pieces) == pytest.approx(run.journal.stat().st_size / 40_000, abs=2)
    assert len(pieces) > 10
    assert pieces[-1] == whole

    run.journal.write_bytes(b"[" * 50_000)
    assert Tail(run.journal, stale_is_wrong=True).read()["broken"] == (
        "the journal has a line of more than 40,000 bytes"
    )


def test_a_deeply_nested_line_of_a_journal_is_told(tmp_path: Path) -> None:
    run = begun(tmp_path, stale())
    run.journal.write_text("[" * 100_000 + "]" * 100_000 + "\n")
    with served(tmp_path) as address:
        status, body = asked(address, f"{path_of(run)}/figures")
    assert status == 200
    assert "a line that is not an op" in json.loads(body)["broken"]


@pytest.mark.parametrize("text", [DEEP, '{"plan":', "[]", '{"plan": {"seed": ' + "1" * 5_000])
def test_a_run_that_cannot_be_read_is_shown_as_that_beside_the_others(
    browser: Chrome, tmp_path: Path, text: str
) -> None:
    finished(tmp_path, sound(), seed=2, least=10)
    bad = begun(tmp_path, stale(), nemesis="kill")
    bad.info_file.write_text(text)
    with served(tmp_path) as address:
        browser.get(address)
        rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#runs tbody tr")]
        assert len(rows) == 2
        (row,) = [row for row in rows if "UNREADABLE" in row]
        assert "run.json" in row
        assert "quorum-set kill" in " ".join(row.split())
        assert sum("✓ VALID" in row for row in rows) == 1
        browser.get(f"{address}/matrix")
        cells = browser.find_elements(By.CSS_SELECTOR, ".heat td.cell:not(.dim)")
        assert sorted(cell.text for cell in cells) == [
            "! 1/1 UNREADABLE", "✓ 1/1 VALID"
        ]  # fmt: skip
        browser.get(address + path_of(bad))
        assert browser.find_element(By.CSS_SELECTOR, ".status").text == "! UNREADABLE"
        assert "run.json" in browser.find_element(By.CSS_SELECTOR, ".notice").text
        assert [line.text for line in browser.find_elements(By.CSS_SELECTOR, ".story li")] == [
            "A file of this run cannot be read, so nothing is known of its verdict.",
            "Its history can be read: 24 ops, shown on its page.",
        ]


def test_a_run_whose_results_cannot_be_read_is_shown_as_that(tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    run.results_file.write_text(DEEP)
    with served(tmp_path) as address:
        assert b"results.json cannot be read" in asked(address, "/")[1]
        assert b"! UNREADABLE" in asked(address, path_of(run))[1].replace(b"</span>", b"")


def test_a_name_that_is_no_utf_8_breaks_no_list(tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    run.path.rename(os.fsdecode(os.fsencode(run.path.parent) + b"/\xff\xfe"))
    with served(tmp_path) as address:
        assert asked(address, "/")[0] == asked(address, "/matrix")[0] == 200


def test_unfinished_requests_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes one that gets a byte now and then, and one that follows an answered one."""
    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    finished(tmp_path, sound(), least=10)
    part = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
    with served(tmp_path) as address, ExitStack() as stack:
        held = [connected(stack, address, part) for _ in range(200)]
        drip = connected(stack, address, part)
        again = connected(stack, address, part + b"b\r\n\r\n")
        assert again.recv(15) == b"HTTP/1.1 200 OK"
        again.sendall(part)
        assert asked(address, "/")[0] == 200
        with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
            while True:
                drip.sendall(b"a")
                time.sleep(0.01)
        assert all(map(closed, held))
        while again.recv(65536):
            pass


def test_the_oldest_unfinished_request_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(connections, "REQUEST_S", 3600.0)
    finished(tmp_path, sound(), least=10)
    with served(tmp_path) as address, ExitStack() as stack:
        held = [connected(stack, address, b"GET / HT") for _ in range(4)]
        assert closed(held[0])
        assert asked(address, "/")[0] == 200
        assert closed(held[1])


def test_an_answer_that_nobody_takes_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 0.5)
    run = finished(tmp_path, stale())
    (run.path / "noise").write_bytes(os.urandom(32 * 1024 * 1024))
    request = f"GET {path_of(run)}/archive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving(tmp_path) as (address, server), ExitStack() as stack:
        client = connected(stack, address, request.encode())
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        latest = time.monotonic() + 60
        while server.server_state.connections and time.monotonic() < latest:
            time.sleep(0.05)
        assert not server.server_state.connections


def test_what_the_server_logs_is_printable() -> None:
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        record = logging.LogRecord(
            "uvicorn", logging.ERROR, "", 0, "of %s", ("\x1b]0;x\x07",), sys.exc_info()
        )
    text = PrintableFormatter("%(levelname)s: %(message)s").format(record)
    assert text.startswith("ERROR: of ␛]0;x␇\nTraceback")
    assert text.endswith("ValueError: ␛[2J")
