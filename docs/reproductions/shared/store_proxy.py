"""Faults of the object store: one rule at a time, for requests of the cluster's nodes.

A rule has "name", "do", "share" (of the requests that it applies to), "seed", which with a
request's number decides whether it applies, and may have "methods" and "delay_s". "do" is:

    refuse  the answer is 503, and nothing is done
    close   the connection ends without an answer, and nothing is done
    hang    nothing is done, and no answer comes until the client gives up or the rule ends
    lose    the request is done, then the connection ends without an answer
    delay   the request is done, and answered `delay_s` later
"""

import hashlib
import json
import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

CONTROL: Final = "/-/rule"
"""Path at which the harness sets the rule (PUT; {} ends it) and reads its state (GET)."""
POLL_S: Final = 0.1
SLOW_DOWN: Final = (
    b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
)
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class StoreRule:
    """A rule in force, with the number of requests that it was applied to."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.name = str(words.get("name", ""))
        self.do = str(words.get("do", ""))
        self.delay_s = float(words.get("delay_s", 0.0))
        self.over = threading.Event()
        self.hits = 0
        self.held = 0
        self._share = float(words.get("share", 1.0))
        self._seed = int(words.get("seed", 0))
        self._methods = words.get("methods")
        self._seen = 0
        self._lock = threading.Lock()

    def applies(self, method: str) -> bool:
        """Return whether the rule applies to the next request, and count it."""
        if not self.name or (self._methods and method not in self._methods):
            return False
        with self._lock:
            text = f"{self._seed}/{self._seen}".encode()
            drawn = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
            self._seen += 1
            hit = drawn < self._share * 2**64
            self.hits += hit
        return hit

    def hold(self, connection: socket.socket) -> None:
        """Return when the rule is over or the client has given up."""
        with self._lock:
            self.held += 1
        while not self.over.wait(POLL_S) and not _closed(connection):
            pass
        with self._lock:
            self.held -= 1


class StoreFaults:
    """The rule in force, and the requests that the last ones still hold."""

    def __init__(self) -> None:
        self._rules = [StoreRule({})]

    @property
    def rule(self) -> StoreRule:
        """Return the rule in force; one without a name applies to nothing."""
        return self._rules[-1]

    def control(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Answer a request of the harness."""
        if environ["REQUEST_METHOD"] == "PUT":
            length = int(environ.get("CONTENT_LENGTH") or 0)
            self._rules.append(StoreRule(json.loads(environ["wsgi.input"].read(length))))
            for old in self._rules[:-1]:
                old.over.set()
        self._rules = [old for old in self._rules[:-1] if old.held] + [self.rule]
        state = {
            "name": self.rule.name,
            "hits": self.rule.hits,
            "held": sum(rule.held for rule in self._rules),
        }
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(state).encode()]


def answer_by(
    rule: StoreRule,
    application: Application,
    environ: dict[str, Any],
    start_response: Callable[..., Any],
) -> Iterable[bytes]:
    """Answer a request that the rule applies to. Raises ConnectionAbortedError for no answer."""
    connection: socket.socket = environ["werkzeug.socket"]
    if rule.do in ("refuse", "close", "hang"):
        # With an unread body the kernel would reset the connection before an answer arrives.
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if rule.do == "refuse":
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [SLOW_DOWN]
    if rule.do == "delay":
        done = application(environ, start_response)
        rule.over.wait(rule.delay_s)
        return done
    if rule.do == "hang":
        rule.hold(connection)
    if rule.do == "lose":
        for _ in application(environ, start_response):
            pass
    connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError(rule.name)


def _closed(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(readable) and not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


# --- in a reproduction -----------------------------------------------------------------------------
# The proxy is a container of its own between the replicas and the object store TARGET. Without
# arguments it serves; with a rule, a JSON object, it sets the rule of the one that serves, {} for none.

import http.client
import io
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "5000"))
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")
FAULTS = StoreFaults()


def forward(environ, start_response):
    """Have the store answer a request; it sees the headers of the client, which may be signed."""
    store = http.client.HTTPConnection(os.environ["TARGET"], timeout=60)
    store.putrequest(
        environ["REQUEST_METHOD"], environ["PATH_INFO"], skip_host=True, skip_accept_encoding=True
    )
    for name, value in environ["headers"]:
        if name.lower() not in ("connection", "expect"):
            store.putheader(name, value)
    store.endheaders(environ["wsgi.input"].read())
    answer = store.getresponse()
    body = answer.read()
    start_response(f"{answer.status} {answer.reason}", answer.getheaders())
    store.close()
    return [body]


class Handler(BaseHTTPRequestHandler):
    """Answers a request by the rule in force."""

    protocol_version = "HTTP/1.1"

    def answer(self):
        """Answer a request, or end the connection."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environ = {
            "REQUEST_METHOD": self.command,
            "PATH_INFO": self.path,
            "CONTENT_LENGTH": len(body),
            "wsgi.input": io.BytesIO(body),
            "werkzeug.socket": self.connection,
            "headers": self.headers.items(),
        }
        begun = []
        try:
            chunks = self.by_rule(environ, lambda *head: begun.append(head))
        except OSError:
            self.close_connection = True
            return
        status, headers = begun[0]
        text = b"".join(chunks)
        self.send_response_only(int(status.split()[0]), status.partition(" ")[2])
        length = dict(headers).get("Content-Length") if self.command == "HEAD" else len(text)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or 0)
        self.end_headers()
        self.wfile.write(text)

    def by_rule(self, environ, start_response):
        """Return the answer. Raises OSError for none."""
        if self.path == CONTROL:
            return FAULTS.control(environ, start_response)
        rule = FAULTS.rule
        if rule.applies(self.command):
            return answer_by(rule, forward, environ, start_response)
        return forward(environ, start_response)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *words):
        """Write no log."""


if __name__ == "__main__":
    if sys.argv[1:]:
        client = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
        client.request("PUT", CONTROL, sys.argv[1])
        sys.exit(client.getresponse().status != 200)
    ThreadingHTTPServer(("0.0.0.0", PORT), Handler).serve_forever()
