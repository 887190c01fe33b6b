"""Writes a plan into a directory: the compose file and each node's configuration.

With them a person brings the same cluster up by hand: `docker-compose -f compose.yml up`.
"""

from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from compose.plan import Plan, Server
from harness.core.topology import Node, Role

_FILES: Final = {
    Role.CLICKHOUSE: ("config.xml", "users.xml"),
    Role.ZOOKEEPER: ("zoo.cfg", "log4j.properties", "logback.xml"),
}

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("compose", "templates"),
    undefined=StrictUndefined,
    autoescape=select_autoescape(("xml.j2",)),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def compose_text(plan: Plan) -> str:
    """The compose file."""
    return _ENVIRONMENT.get_template("compose.yml.j2").render(plan=plan)


def config_files(plan: Plan, node: Node) -> dict[str, str]:
    """A node's configuration, text by file name: what the version that it runs understands."""
    server = plan.server(node.name)
    return {
        name: _ENVIRONMENT.get_template(f"{name}.j2").render(
            topology=plan.topology, settings=plan.settings, node=node, server=server
        )
        for name in _FILES[node.role]
    }


def render(plan: Plan, directory: Path) -> Path:
    """Writes `directory`/compose.yml and `directory`/config/<node>/; returns the compose file.

    The files are readable by all, whatever the umask: the servers run as users of their own.
    """
    for server in plan.servers:
        _render_server(plan, server, directory)
    return _write(directory / "compose.yml", compose_text(plan))


def render_again(plan: Plan, node: str, directory: Path) -> Path:
    """Write what changes when one node has another image; return the compose file."""
    _render_server(plan, plan.server(node), directory)
    return _write(directory / "compose.yml", compose_text(plan))


def _render_server(plan: Plan, server: Server, directory: Path) -> None:
    config = directory / server.config
    config.mkdir(parents=True, exist_ok=True)
    config.chmod(0o755)
    for name, text in config_files(plan, server.node).items():
        _write(config / name, text)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path
