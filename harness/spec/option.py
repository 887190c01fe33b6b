"""What an option of a run is, besides its value.

`RunSpec` annotates each of its fields with an `Option`. From these are derived the command line and
its help, the environment, profiles, scripts, matrices, hunts, run.json, the command that repeats a
run, the settings on pages, and the manual's table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from typing import Final

from harness.core.ranges import RANGES
from harness.spec.option_types import OptionType

CLUSTERS: Final[Mapping[str, str]] = {
    "docker": "real ClickHouse and ZooKeeper servers in containers",
    "auto": "docker if an engine answers, else sim",
    "external": "servers that somebody else runs, described by --servers FILE",
    "sim": "simulated servers on virtual time: the same seed gives the same run, byte for byte",
}
"""Kinds of clusters by their names on the command line, with what each is."""


class Panel(StrEnum):
    """Group of options in the help, in its order."""

    RUN = "What to run"
    AMOUNT = "How long and how much"
    WORKLOAD = "Workload"
    FAULTS = "Faults"
    CLUSTER = "Cluster"
    OUTPUT = "Output"

    @property
    def word(self) -> str:
        """Return the word that selects it in `--help PANEL`."""
        return self.name.lower()


class On(Flag):
    """Kinds of clusters that an option means something for."""

    CONTAINERS = auto()
    SIMULATED = auto()
    EXTERNAL = auto()
    STARTED = CONTAINERS | SIMULATED
    """Clusters whose servers the run starts."""
    ANY = CONTAINERS | SIMULATED | EXTERNAL


class Chooser(Flag):
    """What chooses the value of an option in the user's place."""

    NOBODY = 0
    MATRIX = auto()
    """`harness torture`: a cell has it from the matrix or the night."""
    HUNT = auto()
    """`harness hunt`, which does not take it from the user."""
    SHRINK = auto()
    """`harness shrink`: it is changed by a pass of its own, or never."""
    SCRIPT = auto()
    """A script: its times and clients are in its place."""
    TRANSLATION = auto()
    """`harness reproduce`: real servers get another value than simulated ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """How an option of a run is given, and what it decides."""

    type: OptionType
    panel: Panel
    help: str
    flag: str = ""
    """Flag, such as "--quiesce"; "": the name of the field without its unit."""
    short: str = ""
    """Another flag, of one letter."""
    common: bool = False
    """True if the short help shows it."""
    on: On = On.ANY
    chosen_by: Chooser = Chooser.NOBODY
    of_cluster: bool = False
    """True if runs with other values need another cluster."""
    fixed: bool = False
    """True if a cluster that is kept has it already."""
    setting: bool = True
    """True if pages show it as a part of what is tested, and not of how long or where."""
    workload_option: str = ""
    """Option of the workload that it sets."""


def fault_timing(name: str, help_: str) -> Option:
    """Return an option of when faults begin and end, which a script decides by itself."""
    return Option(
        type=RANGES[name],
        panel=Panel.FAULTS,
        help=help_,
        flag=f"--{name}",
        chosen_by=Chooser.SCRIPT,
        setting=False,
    )
