"""Requirements: `make run` asks for those of runs, `make test` for those of tests as well, and
`harness doctor` checks them."""

import subprocess
import sys
from pathlib import Path
from shutil import copy, which

import pytest

from harness.clusters.requirements import requirements

ROOT = Path(__file__).parent.parent
PROGRAMS = ("sh", "dirname", "awk", "grep", "cat")
HEAD = (
    "setup: missing on this machine (installed automatically only as root on Debian or Ubuntu):\n"
)
RUN = """\
  python3-venv           Python 3.11 or newer with venv
  cargo                  Rust 1.85 or newer, which builds the checker
  gcc                    a C compiler, which links the checker
  docker-compose         docker compose, to bring a cluster up by hand
  mmdebstrap             builds a base image where none can be pulled
"""
TEST = """\
  rustfmt                cargo fmt, for make check
  rust-clippy            cargo clippy, for make check
  default-jre-headless   Java 17 or newer, on which Spark runs
  chromium               a browser, for make test
  chromium-driver        what drives it, for make test
"""
AGAIN = "setup: install them, then run this again\n"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a bare machine of a user without root: `setup.sh`, and none of the programs that it
    looks for."""
    copy(ROOT / "setup.sh", tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(which(name) or name)
    program(tmp_path, "id", "echo 1000")
    return tmp_path


def program(machine: Path, name: str, does: str) -> None:
    file = machine / "bin" / name
    file.write_text(f"#!/bin/sh\n{does}\n")
    file.chmod(0o755)


def setup(machine: Path, *words: str) -> tuple[int, str]:
    """Exit status and standard error."""
    done = subprocess.run(
        ["sh", machine / "setup.sh", *words],
        env={"PATH": str(machine / "bin"), "DOCKER_HOST": "unix:///nobody"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_without_root_a_run_lists_what_it_needs_and_nothing_of_tests(machine: Path) -> None:
    assert setup(machine) == (1, HEAD + RUN + AGAIN)
    assert sorted(file.name for file in machine.iterdir()) == ["bin", "setup.sh"]


def test_without_root_tests_list_what_they_need(machine: Path) -> None:
    assert setup(machine, "test") == (1, HEAD + TEST + AGAIN)


def test_a_run_goes_on_without_what_only_containers_need(machine: Path) -> None:
    program(machine, "python3", 'case "$*" in *venv\\ .venv*) echo made >&2; exit 9;; esac')
    program(machine, "cargo", "echo cargo 1.85.0")
    program(machine, "cc", "true")
    optional = "".join(line + "\n" for line in RUN.splitlines()[3:])
    assert setup(machine) == (9, f"{HEAD}{optional}made\n"), "it went on to make .venv"


@pytest.mark.parametrize("version", ["1.84.1", "0.99.0", ""])
def test_a_rust_that_is_missing_or_too_old_is_listed(machine: Path, version: str) -> None:
    program(machine, "cargo", f"echo cargo {version}" if version else "exit 127")
    assert "  cargo   " in setup(machine)[1]


def would_do(target: str) -> str:
    """Return the commands by which make would make a target on a fresh machine."""
    make = ["make", "-C", str(ROOT), "--dry-run", "--always-make", target]
    return subprocess.run(make, capture_output=True, text=True, check=True).stdout


def test_the_second_command_asks_for_what_tests_need_and_the_first_does_not() -> None:
    assert "./setup.sh spark" in would_do("spark")
    assert "./setup.sh test" not in would_do("run")
    assert "./setup.sh spark" not in would_do("run")
    assert "./setup.sh\n" in would_do("run")
    assert would_do("test").index("./setup.sh\n") < would_do("test").index("./setup.sh test\n")


def test_checks_need_neither_images_nor_a_browser() -> None:
    assert "./setup.sh modules\n" in would_do("check")
    assert "./setup.sh check\n" in would_do("check")
    for other in ("./setup.sh\n", "./setup.sh test", "harness build", "pytest"):
        assert other not in would_do("check")


def test_an_argument_that_means_nothing_is_refused(machine: Path) -> None:
    assert setup(machine, "tset") == (
        2,
        "setup: tset: expected tools, modules, spark, check, test, or nothing\n",
    )


def test_images_are_built_without_the_modules_that_are_built_beside_them() -> None:
    without = (
        "import sys; "
        "[sys.modules.update({name: None}) for name in "
        "('harness.native._native', 'pyporcupine')]; "
        "import harness.cli.main, harness.cli.machine"
    )
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.containers
def test_every_requirement_of_a_run_is_met_where_containers_run() -> None:
    found = {requirement.name: requirement for requirement in requirements()}
    assert [name for name, r in found.items() if r.needed and not r.ok] == []
    for feature in ("iptables DROP", "iptables NFQUEUE", "packet queues"):
        assert found[f"kernel: {feature}"].found == "works"
    assert all(requirement.found for requirement in found.values())


def test_without_an_engine_each_missing_thing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    missing = {r.name: r for r in requirements() if not r.ok}
    assert {"Docker engine", "images, or a way to build them", "kernel: iptables DROP"} <= set(
        missing
    )
    assert "none answers" in missing["Docker engine"].found
    assert all(requirement.how_to_get for requirement in missing.values())
