"""The proxy of a reproduction whose faults are of single messages: a file of Python, in a container
of its own between each replica and its ZooKeeper server."""

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
_MAIN: Final = '\n\nif __name__ == "__main__":\n'
_HOSTS: Final = re.compile(r"(<zookeeper>.*?</zookeeper>)", re.DOTALL)


def is_of_messages(f: str) -> bool:
    """Return whether a family of faults is made by the proxy."""
    return f == NAME or f in VARIANTS


def arm_of(f: str) -> str:
    """Return the rule of a family as JSON. Raises NotExportableError."""
    return _rule(f, {"name": f, **VARIANTS[f][1]})


def awaits(f: str, plan: Mapping[str, Json]) -> bool:
    """Return whether a fault has begun only when a message was stopped."""
    return f not in RARE and plan.get("lurks") is not True


def scripted_rule(plan: Mapping[str, Json]) -> str:
    """Return the rule of a script's step as JSON. Raises NotExportableError."""
    fields = {"edge" if key == "side" else key: plan[key] for key in RULE_FIELDS if key in plan}
    return _rule(NAME, {**fields, "name": plan["rule"], "do": plan["do"]})


def _rule(f: str, rule: Mapping[str, Json]) -> str:
    if rule["channel"] != "zookeeper":
        raise NotExportableError(
            f"fault {f}: it stops messages between replicas, and the proxy that is shipped stands "
            "before ZooKeeper alone"
        )
    return msgspec.json.encode(rule).decode()


def rule_text(rule: str) -> str:
    """Return a rule for a reader."""
    fields = msgspec.json.decode(rule)
    words = " and ".join(f"`{word}`" for word in fields["words"])
    answers = "" if fields["edge"] == "request" else "ZooKeeper's answers to "
    which = f"{answers}requests to ZooKeeper that contain {words}"
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
    return body.replace("import sys\n", "import sys\nimport time\n", 1) + "\n\n" + main


def proxied(config: str, node: str) -> str:
    """Return a replica's configuration with its proxy in place of ZooKeeper's server."""
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
