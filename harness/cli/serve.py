"""`harness serve`: the store in a browser."""

import ipaddress
import logging
import socket
from pathlib import Path

import rich_click as click
import uvicorn

from harness.cli.parameter_types import WORD, number, store_option
from harness.cli.terminal import PrintableFormatter
from harness.core.errors import HarnessError
from harness.run.store import Store
from harness.web.app import app
from harness.web.connections import BoundedProtocol

LOCAL = ("localhost", "127.0.0.1", "[::1]")


@click.command("serve")
@store_option
@click.option(
    "--host", type=WORD, default="127.0.0.1", help="The address to listen on; others may see it."
)
@click.option("--port", type=number("port"), default=8018, help="0 takes any that is free.")
def serve(store: str, host: str, port: int) -> int:
    """Show the stored runs as pages: a list, a heat map, reports, and runs that go on.

    Listens on this machine only unless another --host is given. There is no password.
    """
    root = Path(store)
    if not root.is_dir():
        raise HarnessError(f"store {store}: is no directory; give --store, or run something first")
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise HarnessError(f"{host}:{port}: cannot listen: {error.strerror or error}") from error
    with listener:
        click.echo(f"http://{host}:{listener.getsockname()[1]}/  (Ctrl-C ends it)")
        # Listening on every address, it cannot know by which names it is called.
        hosts = ("*",) if _unspecified(host) else (*LOCAL, host)
        _log()
        config = uvicorn.Config(
            app(Store(root), hosts), http=BoundedProtocol, log_config=None, log_level="warning"
        )
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def _log() -> None:
    """What the server logs may be stored text, too."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter("%(levelname)s: %(message)s"))
    logging.getLogger("uvicorn").addHandler(handler)


def _unspecified(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
