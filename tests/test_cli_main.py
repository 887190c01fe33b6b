"""The command itself: its list of commands, and what it takes to load one."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from harness.cli.main import COMMANDS

SIMULATED = ["run", "--cluster", "sim", "--time-limit", "1", "--rate", "20", "--report", "none"]
HEAVY = {
    *("clickhouse_driver", "docker", "jinja2", "numpy", "pandas", "pyarrow"),
    *("pyspark", "ssl", "starlette"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_itself(name: str) -> None:
    place, says, _ = COMMANDS[name]
    module, _, function = place.partition(":")
    command = getattr(import_module(module), function)
    assert command.name == name
    assert " ".join(command.help.split("\n\n")[0].split()) == says


def loaded(*words: str) -> set[str]:
    """Return the modules that the command has loaded when it ends."""
    output = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n' + ' '.join(sys.modules), file=sys.stderr))\n"
        "from harness.cli.main import main\n"
        "main()"
    )
    command = [sys.executable, "-c", output, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 2), done.stderr
    return set(done.stderr.split("\n")[-2].split())


def test_the_list_loads_no_command() -> None:
    assert loaded("--help").isdisjoint(HEAVY | {"workloads"})


def test_a_run_on_simulated_servers_loads_nothing_of_real_ones(tmp_path: Path) -> None:
    modules = loaded(*SIMULATED, "--store", str(tmp_path))
    assert "harness.native.simulator" in modules
    assert modules.isdisjoint(HEAVY)
