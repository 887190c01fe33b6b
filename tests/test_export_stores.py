"""Reproductions whose tables are on an object store: the store, its proxy, and how objects are
judged."""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from export_cases import exported

from harness.core.op import Json
from harness.export.errors import NotExportableError
from harness.export.findings import rule_of
from harness.export.integration_test import integration_test
from harness.export.play import PlayedCall
from harness.export.reproduction import write_files
from harness.export.script_lines import script_lines
from harness.export.stores import store_rule, store_rule_text
from workloads.scenarios.scenario import Finding

NEW = ("object|a|1", "object|b|2", "object|a|1", "object|b|2")
"""Two listings of the same two objects."""


def test_the_servers_have_an_object_store_under_a_public_name() -> None:
    files = exported("restored-replica").files()
    assert "image: ${STORE_IMAGE:-motoserver/moto:5.2.5}" in files["compose.yml"]
    assert "<endpoint>http://store:5000/harness/data/</endpoint>" in files["config/ch1/config.xml"]
    assert "store_proxy.py" not in files
    assert 'STORES="store"\n' in files["reproduce.sh"]


def test_requests_to_the_store_fail_by_a_proxy_of_one_file() -> None:
    reproduction = exported("orphaned-insert")
    files = reproduction.files()
    assert "http://store-proxy:5000/harness/data/" in files["config/ch2/config.xml"]
    assert 'environment: {TARGET: "store:5000"}' in files["compose.yml"]
    lines = script_lines(reproduction.play.steps)
    rule = '{"name":"store-slow","do":"delay","delay_s":5,"methods":["PUT"]}'
    assert [line for line in lines if "store" in line.split()[0]] == [
        f"break_store store '{rule}'",
        "mend_store store",
    ]
    assert (
        "store: store_proxy.py forwards each of the PUT requests, and answers 5 s late\n"
        in reproduction.issue()
    )


def test_a_call_may_have_statements_of_several_servers() -> None:
    lines = script_lines(exported("restored-replica").play.steps)
    restore = next(line for line in lines if " restore " in line)
    assert restore.split(" \\\n    ")[1:] == [
        "'' 'DETACH TABLE harness_restored_replica.t SYNC'",
        "@ch1 '' \"SYSTEM DROP REPLICA 'ch2' FROM TABLE harness_restored_replica.t\"",
        "'' 'ATTACH TABLE harness_restored_replica.t'",
        "'' 'SYSTEM RESTORE REPLICA harness_restored_replica.t' || return",
    ]


def test_objects_are_looked_at_in_place_of_rows_where_a_finding_is_about_them() -> None:
    orphaned, lost = exported("orphaned-drop"), exported("restored-replica")
    assert orphaned.final.looks == []
    assert "s3('http://store:5000/harness/**', " in orphaned.statements
    assert "WHERE database = 'harness_orphaned_drop'" in orphaned.statements
    assert lost.final.objects is None
    looks = [look for look in lost.final.looks if isinstance(look, PlayedCall)]
    assert {look.call.f for look in looks} == {"final-read"}
    assert len(looks) == len(lost.final.looks)


def test_a_table_on_an_object_store_makes_no_integration_test() -> None:
    with pytest.raises(NotExportableError, match="its tables are on an object store"):
        integration_test(exported("copied-part"))


@pytest.mark.parametrize(
    ("kind", "lines", "told"),
    [
        ("orphan", (*NEW, "refers|ch1|0_0_0_0|f|a", "refers|ch2|-|g|b"), ""),
        ("orphan", (*NEW, "refers|ch1|0_0_0_0|f|a"), "refers to b, an object of 2 bytes\n"),
        ("orphan", (*NEW, "old|b|2", "refers|ch1|0_0_0_0|f|a"), ""),
        ("orphan", (*NEW[:3], "refers|ch1|0_0_0_0|f|a"), ""),
        ("copied", ("refers|ch1|0_0_0_0|f|a", "refers|ch2|0_0_0_0|f|a"), ""),
        ("copied", ("refers|ch1|-|f|a", "refers|ch2|-|f|b"), ""),
        ("copied", ("refers|ch1|0_0_0_0|f|a", "refers|ch2|1_0_0_0|f|b"), ""),
        (
            "copied",
            ("refers|ch1|0_0_0_0|f|a", "refers|ch2|0_0_0_0|f|b"),
            "file 0_0_0_0/f is stored twice",
        ),
    ],
    ids=["used", "orphan", "old", "gone", "shared", "no part", "other part", "copied"],
)
def test_objects_are_judged_by_who_refers_to_them(
    kind: str, lines: tuple[str, ...], told: str
) -> None:
    rule = rule_of(Finding("objects", kind), [], [])
    text = "".join(line.replace("|", "\t") + "\n" for line in lines)
    said = subprocess.run(
        ["awk", "-F", "\t", rule.awk], input=text, capture_output=True, text=True, check=True
    ).stdout
    assert told in said
    assert bool(said) is bool(told)
    assert rule.judged_at_rest


@pytest.mark.parametrize(
    ("f", "plan", "text"),
    [
        (
            "store-errors",
            {"methods": ["POST", "DELETE"], "share": 1},
            "each of the POST and DELETE",
        ),
        ("store-errors", {}, "answers 503 to 50% of the requests, and does nothing"),
        ("store-timeouts", {"share": 1}, "neither does nor answers each of the requests"),
    ],
)
def test_a_rule_of_the_store_becomes_a_sentence(
    f: str, plan: Mapping[str, Json], text: str
) -> None:
    assert text in store_rule_text(store_rule(f, plan))


class Store(BaseHTTPRequestHandler):
    """Store that answers each request with its method and the body that it got."""

    def do_PUT(self) -> None:
        got = self.rfile.read(int(self.headers["Content-Length"]))
        answer = f"{self.command} {self.headers['Host']} ".encode() + got
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "42")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def proxied_store(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the port of the proxy before a store, and the environment of its commands."""
    store = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    environment = {"TARGET": f"127.0.0.1:{store.server_port}", "PORT": str(port)}
    proxy = subprocess.Popen([sys.executable, "-I", file], env=environment)
    try:
        while not set_rule(file, environment, {}):
            assert proxy.poll() is None
        yield port, environment
    finally:
        proxy.kill()
        proxy.wait()
        store.shutdown()
        store.server_close()


def set_rule(file: Path, environment: dict[str, str], rule: dict[str, object]) -> bool:
    command = [sys.executable, "-I", str(file), json.dumps(rule)]
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    return ended.returncode == 0


def request(port: int, method: str) -> tuple[int, str, str | None]:
    """Return the status, the body and the length of the answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
        client.request(method, "/harness/key", b"body" if method == "PUT" else None)
        answer = client.getresponse()
        return answer.status, answer.read().decode(), answer.headers["Content-Length"]


def test_the_proxy_forwards_requests_and_fails_those_of_its_rule(tmp_path: Path) -> None:
    write_files(tmp_path, exported("copied-part").files())
    file = tmp_path / "store_proxy.py"
    with proxied_store(file) as (port, environment):
        assert request(port, "PUT")[:2] == (200, f"PUT 127.0.0.1:{port} body")
        assert request(port, "HEAD") == (200, "", "42")
        refuse = {"name": "refuse", "do": "refuse", "share": 1, "methods": ["HEAD"]}
        assert set_rule(file, environment, refuse)
        assert request(port, "HEAD")[0] == 503
        assert request(port, "PUT")[0] == 200
        assert set_rule(file, environment, {"name": "lose", "do": "lose", "share": 1})
        with pytest.raises(http.client.RemoteDisconnected):
            request(port, "PUT")
        assert set_rule(file, environment, {})
        assert request(port, "HEAD")[0] == 200
