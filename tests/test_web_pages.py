"""`harness serve` in a real browser: what it shows and what it refuses."""

import http.client
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import pytest
from report_cases import NASTY, SHOWN, WHEN, begun, finished, sound, stale
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from harness.core.lines import encoded
from harness.core.op import Kind, Op


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Serve the store, and yield its address."""
    command = [sys.executable, "-m", "harness.cli.main", "serve", "--port", "0", "--store"]
    with subprocess.Popen([*command, str(store)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[0].rstrip("/")
        finally:
            process.terminate()


def asked(address: str, path: str, host: str | None = None) -> tuple[int, bytes]:
    """Return status and body of a path that is sent unchanged."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def a_night(store: Path) -> None:
    """Store six runs of two nights."""
    finished(store, stale(), seed=1)
    finished(store, stale(), seed=2, when=WHEN + timedelta(hours=1))
    finished(store, sound(), seed=3, least=10)
    finished(store, sound(), seed=4, least=1_000, nemesis="kill")
    finished(store, sound(), seed=5, least=10, nemesis="none", version="24.8",
             when=WHEN + timedelta(days=1))  # fmt: skip
    begun(store, stale(), seed=6, nemesis="kill")


def until_at(browser: Chrome, part: str) -> None:
    """Wait for the next page, because a click returns before it is loaded."""
    WebDriverWait(browser, 10).until(
        lambda b: (
            part in b.current_url and b.execute_script("return document.readyState") == "complete"
        )
    )


def seeds(browser: Chrome) -> list[str]:
    return [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#runs tbody td.seed")]


def test_runs_are_listed_searched_sorted_and_opened(browser: Chrome, tmp_path: Path) -> None:
    a_night(tmp_path)
    with served(tmp_path) as address:
        browser.get(address)
        assert browser.find_element(By.CSS_SELECTOR, "[role=status]").text == "6 of 6 runs"
        Select(browser.find_element(By.NAME, "status")).select_by_visible_text("INVALID")
        until_at(browser, "status=INVALID")
        assert sorted(seeds(browser)) == ["0x1", "0x2"]
        browser.find_element(By.NAME, "q").send_keys("0x2")
        browser.find_element(By.CSS_SELECTOR, ".filters button").click()
        until_at(browser, "q=0x2")
        assert seeds(browser) == ["0x2"]
        browser.back()
        until_at(browser, "q=&")
        browser.find_element(By.LINK_TEXT, "seed").click()
        until_at(browser, "sort=seed")
        assert seeds(browser) == ["0x1", "0x2"]
        browser.find_element(By.PARTIAL_LINK_TEXT, "seed").click()
        until_at(browser, "sort=-seed")
        assert seeds(browser) == ["0x2", "0x1"]
        for name, value, expected in (
            ("q", "KILL crashed", ["0x6"]),
            ("version", "24.8", ["0x5"]),
            ("nemesis", "kill", ["0x4", "0x6"]),
            ("until", "1999-01-01", []),
        ):
            browser.get(f"{address}/?{name}={value.replace(' ', '+')}&sort=seed")
            assert seeds(browser) == expected, name
        browser.get(f"{address}/?q=0x1&workload=quorum-set")
        browser.find_element(By.CSS_SELECTOR, "#runs td.when a").click()
        until_at(browser, "/run/")
        assert browser.find_element(By.CSS_SELECTOR, ".status").text == "✗ INVALID"
        # Nobody drew that of the run whose process died.
        browser.get(f"{address}/?status=CRASHED")
        browser.find_element(By.CSS_SELECTOR, "#runs td.when a").click()
        until_at(browser, "/run/")
        assert "The harness process is gone" in browser.find_element(By.TAG_NAME, "main").text


def test_a_night_is_a_heat_map_that_leads_to_its_runs(browser: Chrome, tmp_path: Path) -> None:
    a_night(tmp_path)
    with served(tmp_path) as address:
        browser.get(f"{address}/matrix")
        browser.find_element(By.LINK_TEXT, f"{WHEN:%Y-%m-%d}").click()
        until_at(browser, "since=")
        cells = {
            cell.text.split("\n")[0]
            for cell in browser.find_elements(By.CSS_SELECTOR, ".heat td.cell")
        }
        assert len(cells) in (2, 3)
        assert any(text.startswith(("! 1/2", "? 1/2")) for text in cells), cells
        browser.find_element(By.CSS_SELECTOR, ".heat td.invalid a").click()
        until_at(browser, "workload=")
        assert browser.find_element(By.CSS_SELECTOR, "[role=status]").text.endswith("of 6 runs")
        assert {"0x1", "0x2", "0x3"} == set(seeds(browser))


def test_cells_of_two_versions_lead_each_to_its_own_runs(browser: Chrome, tmp_path: Path) -> None:
    for seed, version in ((1, "18.16.1"), (2, "25.8.2.1"), (3, "25.8.2.1")):
        file = finished(tmp_path, stale(), seed=seed, version=version).info_file
        info = json.loads(file.read_text())
        file.write_text(json.dumps({**info, "versions": {**info["versions"], "zk1": "3.8.0"}}))
    with served(tmp_path) as address:
        for row, version, own in ((1, "18.16.1", {"0x1"}), (2, "25.8.2.1", {"0x2", "0x3"})):
            browser.get(f"{address}/matrix")
            cells = browser.find_elements(By.CSS_SELECTOR, ".heat tbody tr td:nth-child(3)")
            assert cells[row - 1].text == f"{version} 3.8.0"
            browser.find_element(By.CSS_SELECTOR, f".heat tbody tr:nth-child({row}) a").click()
            until_at(browser, "version=")
            assert set(seeds(browser)) == own
            chosen = browser.find_element(By.CSS_SELECTOR, "[name=version] option[selected]")
            assert chosen.text == f"{version} 3.8.0"


def test_two_runs_are_compared(browser: Chrome, tmp_path: Path) -> None:
    a_night(tmp_path)
    with served(tmp_path) as address:
        browser.get(f"{address}/?nemesis=partition&sort=seed")
        for box in browser.find_elements(By.CSS_SELECTOR, "#runs input")[:3:2]:
            box.click()
        browser.find_element(By.XPATH, "//button[contains(., 'Compare')]").click()
        WebDriverWait(browser, 10).until(lambda b: b.title == "Two runs")
        differing = {
            row.find_element(By.TAG_NAME, "th").text: [
                cell.text for cell in row.find_elements(By.TAG_NAME, "td")
            ]
            for row in browser.find_elements(By.CSS_SELECTOR, "tr.differs")
        }
        groups = [
            head.text for head in browser.find_elements(By.CSS_SELECTOR, "th[scope=rowgroup]")
        ]
        assert groups[:5] == ["result", "run", "options", "servers", "checkers"]
        assert differing["status"] == ["INVALID", "VALID"]
        assert differing["seed"] == ["0x1", "0x3"]
        assert differing["linearizable"][1].startswith("VALID")
        assert "nemesis" not in differing
        assert asked(address, "/diff?run=x")[0] == 400


def test_a_run_comes_as_one_archive_without_links(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = finished(store, stale())
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("a key")
    (run.path / "logs").symlink_to(secret)
    (run.path / "also").symlink_to(secret / "key")
    with served(store) as address:
        status, body = asked(address, f"/run/{run.path.parent.name}/{run.path.name}/archive")
    assert status == 200
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        names = {member.name.removeprefix(f"{run.path.name}/") for member in tar}
        journal = tar.extractfile(f"{run.path.name}/history.jsonl")
        assert journal is not None
        assert journal.read() == run.journal.read_bytes()
    assert names == {"run.json", "results.json", "history.jsonl", "history.parquet"}


def test_a_run_that_goes_on_is_seen_live_then_as_a_report(browser: Chrome, tmp_path: Path) -> None:
    ops = stale()
    run = begun(tmp_path, ops)
    half = b"".join(encoded(op) for op in ops[:10])
    run.journal.write_bytes(half[:-30])
    with served(tmp_path) as address:
        with run.held():
            browser.get(f"{address}/run/{run.path.parent.name}/{run.path.name}")
            WebDriverWait(browser, 10).until(
                lambda b: b.find_element(By.ID, "ended").text.split()[:3:2] == ["insert", "2"]
            )
            assert "partition" in browser.find_element(By.ID, "faults").text
            run.journal.write_bytes(b"".join(encoded(op) for op in ops))
            WebDriverWait(browser, 10).until(
                lambda b: (
                    b.find_element(By.ID, "anomalies").text
                    == "1 read without 1 acknowledged value; first at 0.964 s"
                )
            )
        WebDriverWait(browser, 10).until(lambda b: b.find_elements(By.ID, "timeline"))
        assert browser.find_element(By.CSS_SELECTOR, ".status").text == "! CRASHED"


@pytest.mark.parametrize(
    "path",
    [
        "/run/../secret",
        "/run/..%2f..%2fetc/passwd",
        "/run/%2e%2e/secret",
        "/run/x/..%2f..%2fsecret",
        "/run//etc",
        "/run/quorum-set+partition/latest",
        "/run/quorum-set+partition/latest/archive",
        "/run/quorum-set+partition/out",
        "/run/quorum-set+partition/%00",
        "/store/run.json",
    ],
)
def test_what_is_no_run_of_the_store_is_refused(tmp_path: Path, server: str, path: str) -> None:
    assert asked(server, path)[0] == 404


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("served")
    run = finished(root / "store", stale())
    outside = root / "secret"
    outside.mkdir()
    (outside / "run.json").write_text(run.info_file.read_text())
    (run.path.parent / "out").symlink_to(outside)
    with served(root / "store") as address:
        yield address


@pytest.mark.parametrize("name", ["run.json", "results.json", "history.jsonl", "history.parquet"])
def test_a_run_with_a_file_that_leads_elsewhere_is_none(tmp_path: Path, name: str) -> None:
    run = finished(tmp_path / "store", stale())
    (run.path / name).rename(tmp_path / name)
    (run.path / name).symlink_to(tmp_path / name)
    with served(tmp_path / "store") as address:
        assert asked(address, f"/run/{run.path.parent.name}/{run.path.name}")[0] == 404
        assert b"of 0 runs" in asked(address, "/")[1]


def test_other_names_and_other_methods_are_refused(server: str) -> None:
    assert asked(server, "/")[0] == 200
    assert asked(server, "/", "evil.example")[0] == 400
    connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=30)
    connection.request("POST", "/")
    assert connection.getresponse().status == 405
    connection.close()


def test_it_listens_on_this_machine_only(server: str) -> None:
    listening = Path("/proc/net/tcp").read_text()
    port = f"{int(server.rpartition(':')[2]):04X}"
    assert f"0100007F:{port}" in listening
    assert f"00000000:{port}" not in listening


def test_text_from_outside_stays_text(browser: Chrome, tmp_path: Path) -> None:
    run = finished(tmp_path, stale(), workload=NASTY, nemesis=NASTY, version=NASTY)
    odd = tmp_path / "<b>x&y" / "<i>z\u202e"
    odd.mkdir(parents=True)
    os.rename(run.info_file, odd / "run.json")
    broken = tmp_path / "broken" / "one"
    broken.mkdir(parents=True)
    (broken / "run.json").write_text("{")
    with served(tmp_path) as address:
        for path in ("/", "/matrix"):
            browser.get(address + path)
            assert browser.title != "owned"
            assert SHOWN in browser.find_element(By.TAG_NAME, "main").text
            assert not browser.find_elements(By.CSS_SELECTOR, "main script, td > b, td > i")
        browser.get(f"{address}/?workload=%3C/title%3E%3Cscript%3Ealert(1)%3C/script%3E")
        assert "0 of 2 runs" in browser.find_element(By.TAG_NAME, "main").text
        browser.get(address)
        browser.find_elements(By.CSS_SELECTOR, "#runs td.when a")[0].click()
        until_at(browser, "/run/")
        assert browser.find_element(By.CSS_SELECTOR, ".status").text == "! CRASHED"
        assert asked(address, "/run/broken/one")[0] == 200


def test_odd_text_in_a_comparison_a_cell_and_an_archive(browser: Chrome, tmp_path: Path) -> None:
    run = finished(
        tmp_path, stale(), workload=NASTY, nemesis=NASTY, workload_options={NASTY: NASTY},
        version=NASTY,
    )  # fmt: skip
    odd = run.path.parent / '\u202e\U0001f980\u05d0 "x"\r\nSet-Cookie: a=b'
    os.rename(run.path, odd)
    plain = finished(tmp_path, stale(), seed=2)
    names = [f"{path.parent.name}/{path.name}" for path in (odd, plain.path)]
    with served(tmp_path) as address:
        browser.get(f"{address}/diff?{urlencode([('run', name) for name in names])}")
        assert browser.title == "Two runs"
        told = browser.find_element(By.CLASS_NAME, "diff").get_attribute("textContent") or ""
        assert told.count(NASTY) >= 5
        browser.get(f"{address}/matrix")
        browser.find_element(By.CSS_SELECTOR, ".heat td.cell.invalid a").click()
        until_at(browser, "workload=")
        assert browser.find_element(By.CSS_SELECTOR, "[role=status]").text == "1 of 2 runs"
        browser.find_element(By.CSS_SELECTOR, "#runs td.when a").click()
        until_at(browser, "/run/")
        assert browser.title.startswith("INVALID ")
        with urlopen(f"{address}/run/{quote(names[0])}/archive") as answer:
            assert "Set-Cookie" not in answer.headers
            with tarfile.open(fileobj=io.BytesIO(answer.read())) as tar:
                assert f"{odd.name}/run.json" in tar.getnames()


def test_a_report_of_others_reads_nothing_beside_itself(browser: Chrome, tmp_path: Path) -> None:
    """A store may hold runs of other people, with a report.html of theirs, or with links."""
    run = finished(tmp_path, stale())
    run.report.write_text(
        "<script>fetch('/').then(a => a.text()).then(t => { document.title = 'read' })"
        ".catch(() => { document.title = 'refused' })</script>"
    )
    linked = finished(tmp_path, stale(), seed=2)
    secret = tmp_path.parent / "secret.log"
    secret.write_text("2026.11.20 17:45:09.900000 told to nobody\n")
    (linked.logs / "ch1").mkdir(parents=True)
    (linked.logs / "ch1" / "server.log").symlink_to(secret)
    linked.report.symlink_to(secret)
    with served(tmp_path) as address:
        browser.get(f"{address}/run/{quote(f'{run.path.parent.name}/{run.path.name}')}")
        WebDriverWait(browser, 10).until(lambda b: b.title in ("read", "refused"))
        assert browser.title == "refused"
        browser.get_log("browser")  # the browser's own word on what it refused
        path = quote(f"{linked.path.parent.name}/{linked.path.name}")
        assert b"told to nobody" not in asked(address, f"/run/{path}")[1]


def test_a_tail_survives_a_line_that_is_none(tmp_path: Path) -> None:
    run = begun(tmp_path, stale())
    with run.journal.open("ab") as file:
        file.write(b"not an op\n")
        late = Op(index=99, process=9, kind=Kind.INVOKE, f="read", time_ns=10**12)
        file.write(encoded(late))
    with served(tmp_path) as address:
        path = f"/run/{run.path.parent.name}/{run.path.name}/figures"
        figures = json.loads(asked(address, path)[1])
    assert figures["alive"] is False
    assert "not an op" in figures["broken"]
