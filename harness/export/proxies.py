"""The proxy of a reproduction whose faults are of single messages: a file of Python, in a container
of its own between each replica and its ZooKeeper server, and before the port from which other
replicas fetch parts."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Final

import msgspec

from harness.core.op import Json
from harness.export.errors import NotExportableError
from nemesis.message import RARE, VARIANTS
from nemesis.message_rules import NAME, RULE_FIELDS

IMAGE: Final = "python:3.13-slim"
"""Public image with Python, which is all that the proxy needs."""
SCRIPTED: Final = NAME
"""Family of the faults in which a script holds back a message."""
PATIENCE_S: Final = 60.0
"""Time for which calls wait at least: a command to the proxy takes seconds on a busy machine."""
_CHANGED: Final = {
    "import sys\n": "import sys\nimport time\n",
    'host = "127.0.0.1"': 'host = os.environ["REPLICA"]',
}
"""Text of the proxy's file that is replaced: it runs beside the replica, and not in its pod."""
_MAIN: Final = '\n\nif __name__ == "__main__":\n'
_HOSTS: Final = re.compile(r"(<zookeeper>.*?</zookeeper>)", re.DOTALL)


_ASKED: Final[Mapping[str, tuple[str, str]]] = {
    "zookeeper": ("requests to ZooKeeper", "ZooKeeper's answers to "),
    "interserver": ("requests of other replicas", "the replica's answers to "),
}
"""Requests of each channel, and what is said before them of the answers."""


def is_of_messages(f: str) -> bool:
    """Return whether a family of faults is made by the proxy."""
    return f == NAME or f in VARIANTS


def arm_of(f: str) -> str:
    """Return the rule of a family as JSON."""
    return _rule({"name": f, **VARIANTS[f][1]})


def awaits(f: str, plan: Mapping[str, Json]) -> bool:
    """Return whether a fault has begun only when a message was stopped."""
    return f not in RARE and plan.get("lurks") is not True


def scripted_rule(plan: Mapping[str, Json]) -> str:
    """Return the rule of a script's step as JSON."""
    fields = {"edge" if key == "side" else key: plan[key] for key in RULE_FIELDS if key in plan}
    return _rule({**fields, "name": plan["rule"], "do": plan["do"]})


def _rule(rule: Mapping[str, Json]) -> str:
    return msgspec.json.encode(rule).decode()


def rule_text(rule: str) -> str:
    """Return a rule for a reader."""
    fields = msgspec.json.decode(rule)
    words = " and ".join(f"`{word}`" for word in fields["words"])
    asked, answers = _ASKED[fields["channel"]]
    which = f"{'' if fields['edge'] == 'request' else answers}{asked} that contain {words}"
    what = {
        "cut": "ends the connection instead of forwarding",
        "shut": "ends all connections, and takes no more, instead of forwarding",
        "drop": "forwards nothing any more, beginning with",
        "delay": f"holds back for {fields.get('delay_s', 0):g} s",
        "hold": "holds back",
    }
    skipped = f", after {fields['skip']} of them" if fields.get("skip") else ""
    return f"proxy.py {what[fields['do']]} {which}{skipped}"


def proxy_text(main: str) -> str:
    """Return the file of the proxy, with the text that makes it serve on its own."""
    text = (files("compose") / "images" / "pod" / "pod_proxy.py").read_text("utf-8")
    body, found, _ = text.partition(_MAIN)
    assert found, "the proxy's file ends with its main function"
    for old, new in _CHANGED.items():
        assert old in body, "the proxy's file has what is replaced"
        body = body.replace(old, new, 1)
    return body + "\n\n" + main


def proxied(config: str, node: str) -> str:
    """Return a replica's configuration with its proxy in place of ZooKeeper's server, and of itself
    for other replicas."""
    config = config.replace(
        f"<interserver_http_host>{node}<", f"<interserver_http_host>{proxy_of(node)}<"
    )
    return _HOSTS.sub(
        lambda found: re.sub(r"<host>\w+</host>", f"<host>{proxy_of(node)}</host>", found[0]),
        config,
    )


def proxy_of(node: str) -> str:
    """Return the name of a replica's proxy."""
    return f"{node}-proxy"


def targets(keepers: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """Return the ZooKeeper server behind each replica's proxy. Raises NotExportableError."""
    if any(len(several) > 1 for several in keepers.values()):
        raise NotExportableError("a replica uses several ZooKeeper servers, and its proxy has one")
    return {node: several[0] for node, several in keepers.items()}
