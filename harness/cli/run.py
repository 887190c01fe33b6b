"""`harness run`: one run, or several on one cluster."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rich_click as click
from rich.console import Console

from checkers.ladder import Level
from harness.cli.display import shown
from harness.cli.options import GROUPS, again, run_options
from harness.cli.result import print_result, result
from harness.core.seed import Seed
from harness.core.topology import LinkClass, Topology
from harness.core.verdict import Status, worst
from harness.run.campaign import Campaign, Finished
from harness.run.plan import Plan
from harness.run.stop import Stop
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions
from workloads.quorum_set import QuorumSet, QuorumSetOptions
