"""Conditions of a run: on what servers and with which settings it was made. A summary that adds
runs of different conditions says nothing, so each keeps them apart."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from harness.core.protocols import ANY_NODE
from harness.spec.run_options import OPTIONS
from harness.spec.workload_options import EXPLORED

DEFAULTS: Final = "defaults"
"""Name of the settings of a run that was given none."""


class Servers(StrEnum):
    """What answered the calls of a run."""

    REAL = "real"
    """Servers in containers of the harness."""
    EXTERNAL = "external"
    """Servers that somebody else runs."""
    SIMULATED = "simulated"
    """The simulator."""
    MODEL = "model"
    """A small model of which every interleaving was explored; the run is its counterexample."""


_SERVERS_OF_CLUSTER: Final = {"sim": Servers.SIMULATED, "external": Servers.EXTERNAL}


class Conditions(msgspec.Struct, frozen=True, order=True):
    """What runs of one workload and nemesis have in common that are counted together."""

    servers: Servers
    version: str
    """Versions of all servers, each once and joined: "25.8.2.1 3.8.0"; "" if unknown."""
    settings: str
    """Options that say what is tested, and are not as by default: "insert plain, read plain"; or
    DEFAULTS."""

    @property
    def on(self) -> str:
        """Return the servers in words: "25.8.2.1 3.8.0", "simulated 18.16.1 3.4.10", "model"."""
        words = ("" if self.servers is Servers.REAL else self.servers.value, self.version)
        return " ".join(filter(None, words))


def conditions_of(info: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a run, given its run.json as this version writes it. What cannot be
    understood counts as not given."""
    spec, versions = info.get("spec"), info.get("versions")
    spec = spec if isinstance(spec, dict) else {}
    versions = versions if isinstance(versions, dict) else {}
    servers = _SERVERS_OF_CLUSTER.get(str(spec.get("cluster")), Servers.REAL)
    if str(spec.get("workload", "")).startswith(EXPLORED):
        servers = Servers.MODEL
    kind = f"{servers.value} "  # which a simulated server has in its version, too
    version = " ".join(sorted({str(one).removeprefix(kind) for one in versions.values()})).strip()
    return Conditions(servers, version, _settings(spec) or DEFAULTS)


def _settings(spec: Mapping[str, Any]) -> str:
    """Return the options that say what is tested, and are not as by default."""
    given = [
        (name, spec[name])
        for name, entry in OPTIONS.items()
        if entry.option.setting and spec.get(name, entry.plain_default) != entry.plain_default
    ]
    return ", ".join(
        text if name == "option" else f"{name} {text}"
        for name, value in given
        if value != [ANY_NODE]  # the clients of a script
        for text in [", ".join(map(str, value)) if isinstance(value, list) else str(value)]
    )
