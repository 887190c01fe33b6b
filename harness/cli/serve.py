"""`harness serve`: browse the store."""

import ipaddress
import json
import logging
import socket
from contextlib import suppress
from pathlib import Path

import rich_click as click
import uvicorn

from harness.cli.parameter_types import WORD, json_option, number, open_option, store_option
from harness.cli.result import open_page
from harness.cli.terminal import PrintableFormatter, Terminal
from harness.core.errors import HarnessError
from harness.store.store import Store
from harness.web.app import app
from harness.web.connections import BoundedProtocol

LOCAL = ("localhost", "127.0.0.1", "[::1]")


@click.command("serve")
@store_option
@click.option(
    "--host",
    type=WORD,
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Other machines can reach any but the default.",
)
@click.option(
    "--port",
    type=number("port"),
    default=8018,
    show_default=True,
    help="Port to listen on; 0: any free one.",
)
@open_option
@json_option
def serve(store: str, host: str, port: int, open_: bool, as_json: bool) -> int:
    """Serve the stored runs as web pages: a list, a heat map, reports and live runs.

    Listens on this machine only unless --host says otherwise. There is no password. Ctrl-C ends it,
    with exit status 0.
    """
    root = Path(store)
    if not root.is_dir():
        raise HarnessError(
            f"store {store}: is not a directory; give --store, or run something first"
        )
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise HarnessError(f"{host}:{port}: cannot listen: {error.strerror or error}") from error
    with listener:
        address = f"http://{host}:{listener.getsockname()[1]}/"
        said = json.dumps({"address": address, "store": str(root)}) if as_json else (
            f"{address}  (press Ctrl-C to stop)"
        )  # fmt: skip
        click.echo(said)
        if open_:
            open_page(Terminal(stderr=True), address)
        # A server that listens on every address cannot know the names under which it is reached.
        hosts = ("*",) if _unspecified(host) else (*LOCAL, host)
        _log()
        config = uvicorn.Config(
            app(Store(root), hosts), http=BoundedProtocol, log_config=None, log_level="warning"
        )
        with suppress(KeyboardInterrupt):  # it is how this command ends
            uvicorn.Server(config).run(sockets=[listener])
    return 0


def _log() -> None:
    """Make the server's log printable: it may quote stored text."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("%(levelname)s: %(message)s"))
    logging.getLogger("uvicorn").addHandler(handler)


def _unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
