"""Rendering of a plan into a directory: the compose file and each node's configuration.

With these files a person can bring the same cluster up: `docker-compose -f compose.yml up`.
"""

from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from compose.plan import DISK_FILE, DISK_PROGRAM, ClusterPlan, Server
from harness.core.dialect import COORDINATED, Mechanism
from harness.core.topology import Node

_AUTHORITIES: Final = "store-authorities.pem"
"""File with the certificate authorities of a user's object store."""
_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("compose", "templates"),
    undefined=StrictUndefined,
    autoescape=select_autoescape(("xml.j2",)),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def compose_text(plan: ClusterPlan) -> str:
    """Return the text of the compose file."""
    return _ENVIRONMENT.get_template("compose.yml.j2").render(
        plan=plan, disk_file=DISK_FILE, disk_program=DISK_PROGRAM
    )


def config_files(plan: ClusterPlan, node: Node, peer: str = "{}") -> dict[str, str]:
    """Return a node's configuration, as its version understands it: texts by file name.

    `peer` makes the name of a ZooKeeper server under which the others know it, if that is a name of
    a network of their own.
    """
    server = plan.server(node.name)
    return {
        name: _ENVIRONMENT.get_template(f"{name}.j2").render(
            topology=plan.topology,
            settings=plan.settings,
            node=node,
            peer=peer,
            server=server,
            bucket=plan.bucket,
            authorities_name=_AUTHORITIES,
            coordinated=COORDINATED,
            Mechanism=Mechanism,
        )
        for name in server.files
    }


def render(plan: ClusterPlan, directory: Path) -> Path:
    """Write `directory`/compose.yml and `directory`/config/<node>/; return the compose file.

    The files are readable by all, whatever the umask, because the servers run as other users.
    """
    for server in plan.servers:
        _render_server(plan, server, directory)
        if plan.bucket is not None and plan.bucket.authorities:
            authorities = Path(plan.bucket.authorities).read_text(encoding="utf-8")
            _write(directory / server.config / _AUTHORITIES, authorities)
    return _write(directory / "compose.yml", compose_text(plan))


def render_again(plan: ClusterPlan, node: str, directory: Path) -> Path:
    """Write what changes when one node has another image; return the compose file."""
    _render_server(plan, plan.server(node), directory)
    return _write(directory / "compose.yml", compose_text(plan))


def write_override(plan: ClusterPlan, node: str, directory: Path, name: str, text: str) -> None:
    """Write a file that a running server merges into its configuration; "" removes the file."""
    overrides = directory / plan.server(node).config / "config.d"
    overrides.mkdir(exist_ok=True)
    overrides.chmod(0o755)
    if not text:
        (overrides / name).unlink(missing_ok=True)
        return
    _write(overrides / f".{name}.partial", text).replace(overrides / name)


def _render_server(plan: ClusterPlan, server: Server, directory: Path) -> None:
    config = directory / server.config
    config.mkdir(parents=True, exist_ok=True)
    config.chmod(0o755)
    for name, text in config_files(plan, server.node).items():
        _write(config / name, text)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path
