"""S3 server on port 5000 with one bucket. It writes a line of JSON for each request to stdout.

A line has the time in seconds since 1970, the source (a node's name or an address), the method, the
path, the status of the answer, even if that was lost (null: nothing was done), and the bytes of the
request; for a POST also the keys that it deletes, and if a fault applied to the request its name.
The environment variable CLIENTS has the names of the nodes. POST /-/requests with a list of keys
returns the lines of those requests that were to write or delete each, with their age in seconds; of
every key if the list is empty.
"""

import io
import json
import logging
import os
import socket
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from moto import backends
from moto.server import DomainDispatcherApplication, create_backend_app
from store_faults import CONTROL, Application, StoreFaults, answer_by
from werkzeug.serving import run_simple
from werkzeug.test import Client

_BUCKET: Final = "harness"
_PORT: Final = 5000
_REQUESTS: Final = "/-/requests"


class ObjectStoreServer:
    """WSGI application that logs each request and applies the rule in force."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._faults = StoreFaults()
        self._nodes: dict[str, str] = {}
        self._lines: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """Requests that were to write or delete an object, by its key."""

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request."""
        if environ["PATH_INFO"] == CONTROL:
            return self._faults.control(environ, start_response)
        if environ["PATH_INFO"] == _REQUESTS:
            start_response("200 OK", [("Content-Type", "application/json")])
            keys = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            return [
                json.dumps({key: self._requests(key) for key in keys or [*self._lines]}).encode()
            ]
        source = self._node_of(environ.get("REMOTE_ADDR", ""))
        query = environ.get("QUERY_STRING", "")
        line: dict[str, Any] = {
            "time_s": round(time.time(), 3),
            "source": source,
            "method": environ["REQUEST_METHOD"],
            "path": environ["PATH_INFO"] + (f"?{query}" if query else ""),
            "status": None,
            "bytes": int(environ.get("CONTENT_LENGTH") or 0),
        }
        if line["method"] == "POST":
            body = environ["wsgi.input"].read(line["bytes"])
            environ["wsgi.input"] = io.BytesIO(body)
            line["deletes"] = _keys(body)

        def begin(status: str, *arguments: Any) -> Any:
            line["status"] = int(status.split()[0])
            self._log(line)
            return start_response(status, *arguments)

        rule = self._faults.rule
        # The harness looks at the store without faults.
        if source not in self._nodes.values() or not rule.applies(line["method"]):
            return self._application(environ, begin)
        line["fault"] = rule.name
        try:
            return answer_by(rule, self._application, environ, begin)
        except ConnectionAbortedError:
            if line["status"] is None:
                self._log(line)
            raise

    def _log(self, line: dict[str, Any]) -> None:
        # One write, for print would let threads mix their lines.
        sys.stdout.write(json.dumps(line) + "\n")
        if line["method"] in ("PUT", "DELETE"):
            self._lines[line["path"].removeprefix(f"/{_BUCKET}/")].append(line)
        for key in line.get("deletes", ()):
            self._lines[key].append(line)

    def _requests(self, key: str) -> list[dict[str, Any]]:
        now, kept = time.time(), ("source", "method", "status", "fault")
        return [
            {name: line[name] for name in kept if name in line}
            | {"ago_s": round(now - line["time_s"], 3)}
            for line in self._lines.get(key, ())
        ]

    def _node_of(self, address: str) -> str:
        """Return the name of the node with an address; the address itself if no node has it."""
        if address not in self._nodes:
            for name in os.environ.get("CLIENTS", "").split():
                try:
                    self._nodes[socket.gethostbyname(name)] = name
                except OSError:
                    continue
        return self._nodes.get(address, address)


def _keys(body: bytes) -> list[str]:
    """Return the keys of a request to delete objects; none for another body."""
    try:
        found = ET.fromstring(body).iter()  # noqa: S314 # a server of the cluster sent it
    except ET.ParseError:
        return []
    return [tag.text or "" for tag in found if tag.tag.rpartition("}")[2] == "Key"]


def main() -> None:
    """Make the bucket and serve."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Listed once: for each request moto would look at its 183 files, which is slow in a container.
    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    moto = DomainDispatcherApplication(create_backend_app)
    created = Client(moto).put(f"/{_BUCKET}", base_url=f"http://127.0.0.1:{_PORT}")
    assert created.status_code == 200, created.get_data(as_text=True)
    run_simple("0.0.0.0", _PORT, ObjectStoreServer(moto), threaded=True)  # noqa: S104 # its pod's network


if __name__ == "__main__":
    main()
