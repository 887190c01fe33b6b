"""Whoever is to know that a night is over is told, by a command or at a URL."""

import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from lying_servers import dripping, endless, http, serving

from harness.core.op import Json
from harness.nights import notification
from harness.nights.notification import notify

REPORT: dict[str, Json] = {"night": "store/torture/x", "runs": 3}


class Received(HTTPServer):
    """A server that keeps what it was sent, and answers with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = status
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Received

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(params=[204, 503])
def server(request: pytest.FixtureRequest) -> Iterator[Received]:
    server = Received(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_url_is_sent_the_summary_and_its_refusal_is_said(server: Received) -> None:
    failed = notify(server.url, REPORT)
    assert [json.loads(body) for body in server.bodies] == [REPORT]
    assert (
        failed is None
        if server.status == 204
        else failed == f"{server.url}: 503 Service Unavailable: "
    )


def test_a_command_is_given_the_summary(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"
    assert notify(shlex.join([sys.executable, "-c", code]), REPORT) is None
    assert json.loads(out.read_text()) == REPORT


def test_a_command_may_be_what_a_shell_takes(tmp_path: Path) -> None:
    assert notify(f"cat > {shlex.quote(str(tmp_path / 'a b.json'))}", REPORT) is None
    assert json.loads((tmp_path / "a b.json").read_text()) == REPORT


NIGHT: dict[str, Json] = {
    "night": "store/torture/smoke/20261127T220000Z",
    "headline": "INVALID: 3 runs in 1 cell: 1 INVALID, 2 VALID; new: unexplained lost",
    "alarms": [{"text": "a: UNKNOWN rises: 4 of 5 runs tonight; before: 1 of 90 runs"}],
    "failed": [2],
    "runs_by_number": [
        {"run": 2, "cell": "a", "seed": "0x7", "causes": ["not explained"], "why": "a < b & c"},
        {"run": 1, "cell": "a", "seed": "0x6", "causes": [], "why": ""},
    ],
}
TEXT = [
    "INVALID: 3 runs in 1 cell: 1 INVALID, 2 VALID; new: unexplained lost",
    "run 2, a, seed 0x7: not explained: a < b & c",
    "alarm: a: UNKNOWN rises: 4 of 5 runs tonight; before: 1 of 90 runs",
    "night: store/torture/smoke/20261127T220000Z",
]


def test_a_chat_is_sent_a_message_that_it_takes(server: Received) -> None:
    """Slack: api.slack.com/messaging/webhooks; Teams: a card, as its workflows take it."""
    for chat in ("slack", "teams"):
        notify(f"{chat}:{server.url}", NIGHT)
    slack, teams = map(json.loads, server.bodies)
    assert slack == {"text": "\n".join(TEXT).replace("a < b & c", "a &lt; b &amp; c")}
    (attachment,) = teams["attachments"]
    assert (teams["type"], attachment["contentType"]) == (
        "message",
        "application/vnd.microsoft.card.adaptive",
    )
    assert attachment["content"]["type"] == "AdaptiveCard"
    assert [block["text"] for block in attachment["content"]["body"]] == TEXT


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            shlex.join([sys.executable, "-c", "import sys; sys.exit('no mail')"]),
            "exit status 1: no mail",
        ),
        ("/no/such/command", "not found"),
        ("unclosed '", "exit status 2"),
        ("http://127.0.0.1:1/", "refused"),
    ],
)
def test_what_goes_wrong_is_said_and_nothing_is_raised(command: str, said: str) -> None:
    failed = notify(command, REPORT)
    assert failed is not None
    assert command in failed
    assert said in failed


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        (b"", lambda: dripping(b"HTTP/1.1 200 OK"), "no answer within 0.3 s"),
        (b"HTTP/1.1 503 Full\r\n\r\n", lambda: dripping(b"x"), "no answer within 0.3 s"),
        (b"HTTP/1.1 503 Full\r\n\r\n", lambda: endless(b"x"), f"503 Full: {'x' * 300}"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://other/\r\n\r\n",
            lambda: endless(b"x"),
            f"302 Found to http://other/: {'x' * 300}",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n", lambda: endless(b"x"), None),
    ],
)
def test_a_url_that_answers_for_ever_is_given_up(
    head: bytes,
    body: Callable[[], Iterable[bytes]],
    said: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notification, "LIMIT_S", 0.3 if said and "within" in said else 20.0)
    with serving(http(head, body())) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/hook"
        assert notify(url, REPORT) == (None if said is None else f"{url}: {said}")
