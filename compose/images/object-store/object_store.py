"""S3 server on port 5000 with one bucket. It writes a line of JSON for each request to stdout.

A line has the time in seconds since 1970, the source (a node's name or an address), the method, the
path, the status, and the bytes of the request. The environment variable CLIENTS has the names of
the nodes.
"""

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.test import Client

_BUCKET: Final = "harness"
_PORT: Final = 5000
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def logged(application: _Application) -> _Application:
    """Return the WSGI application that logs each request when its answer begins."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def begin(status: str, *arguments: Any) -> Any:
            query = environ.get("QUERY_STRING", "")
            line = {
                "time_s": round(time.time(), 3),
                "source": node_of(environ.get("REMOTE_ADDR", "")),
                "method": environ["REQUEST_METHOD"],
                "path": environ["PATH_INFO"] + (f"?{query}" if query else ""),
                "status": int(status.split()[0]),
                "bytes": int(environ.get("CONTENT_LENGTH") or 0),
            }
            # One write, for print would let threads mix their lines.
            sys.stdout.write(json.dumps(line) + "\n")
            return start_response(status, *arguments)

        return application(environ, begin)

    return answer


@cache
def node_of(address: str) -> str:
    """Return the name of the node with an address; the address itself if no node has it."""
    for name in os.environ.get("CLIENTS", "").split():
        try:
            if socket.gethostbyname(name) == address:
                return name
        except OSError:
            continue
    return address


def main() -> None:
    """Make the bucket and serve."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = DomainDispatcherApplication(create_backend_app)
    created = Client(moto).put(f"/{_BUCKET}", base_url=f"http://127.0.0.1:{_PORT}")
    assert created.status_code == 200, created.get_data(as_text=True)
    run_simple("0.0.0.0", _PORT, logged(moto), threaded=True)  # noqa: S104 # its pod's network


if __name__ == "__main__":
    main()
