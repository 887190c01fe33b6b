"""Means by which this machine makes clocks wrong, resources scarce and disks fail, each tested by
trying it in a container."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import docker
from docker.models.containers import Container

from compose.plan import DISK_FILE, DISK_PROGRAM, OWNER, RUN
from harness.clusters import programs
from harness.clusters.clock_library import compile_library, write_state
from harness.clusters.engine import engine_request
from harness.core.clock_fault import VARIANTS, ClockFault
from harness.core.os_process import this_process
from harness.core.resources import Resource

_AHEAD_S: Final = 3600
_WAIT_S: Final = 20


@dataclass(frozen=True, slots=True)
class Means:
    """Means of some faults."""

    name: str
    faults: str
    """Faults that need it."""
    why_not: Callable[[docker.DockerClient, str], str]
    """Function of an engine and the pods' image: why it does not work, "" if it does."""


def _wrong_clock(client: docker.DockerClient, image: str) -> str:
    with tempfile.TemporaryDirectory(prefix="harness-clock-") as name:
        directory = Path(name)
        compile_library(directory / "fake_clock.so")
        (directory / "ld.so.preload").write_text("/harness/fake_clock.so\n")
        (directory / "clock").mkdir()
        write_state(directory / "clock" / "state", ClockFault(offset_s=_AHEAD_S))
        places = {
            "fake_clock.so": "/harness/fake_clock.so",
            "ld.so.preload": "/etc/ld.so.preload",
            "clock": "/harness/clock",
        }
        container = client.containers.create(
            image,
            ["date", "+%s"],
            entrypoint=[],
            network_mode="none",
            labels={RUN: "doctor", OWNER: this_process()},
            volumes=[f"{directory / file}:{at}:ro" for file, at in places.items()],
        )
        try:
            container.start()
            container.wait(timeout=_WAIT_S)
            shown = int(container.logs())
        finally:
            container.remove(force=True, v=True)
    ahead = shown - time.time()
    return (
        "" if abs(ahead - _AHEAD_S) < _WAIT_S else f"the clock of a program is {ahead:+.0f} s off"
    )


def _oom_killer(client: docker.DockerClient, image: str) -> str:
    container = client.containers.create(
        image,
        ["tail", "/dev/zero"],
        entrypoint=[],
        network_mode="none",
        mem_limit="32m",
        memswap_limit="32m",
        labels={RUN: "doctor", OWNER: this_process()},
    )
    try:
        container.start()
        container.wait(timeout=_WAIT_S)
        container.reload()
        killed = container.attrs["State"]["OOMKilled"]
    finally:
        container.remove(force=True, v=True)
    return "" if killed else "a program above the limit was not killed"


def _throttle(client: docker.DockerClient, image: str) -> str:
    container = _idle(client, image)
    try:
        container.update(cpu_period=100_000, cpu_quota=2_000)
        container.exec_run(["timeout", "0.5", "yes"], stdout=False)
        stats: Any = container.stats(stream=False, one_shot=True)
        throttled = stats["cpu_stats"]["throttling_data"]["throttled_periods"]
    finally:
        container.remove(force=True, v=True)
    return "" if throttled else "a busy program was not throttled"


def _prlimit(client: docker.DockerClient, image: str) -> str:
    container = _idle(client, image)
    owner = "setpriv --reuid=1000 --regid=1000 --clear-groups"
    try:
        container.exec_run(["sleep", "infinity"], user="1000:1000", detach=True)
        found: Any = container.exec_run(["pgrep", "-u", "1000"])
        changed = f"{owner} prlimit --pid={int(found.output)} --nofile=16:"
        done: Any = container.exec_run(changed.split())
    finally:
        container.remove(force=True, v=True)
    return "" if done.exit_code == 0 else str(done.output.decode(errors="replace")).strip()


def _faulty_disk(client: docker.DockerClient, image: str) -> str:
    """Cut the power of an empty disk."""
    program = str(programs.program(DISK_FILE))
    container = client.containers.create(
        image,
        ["check"],
        entrypoint=DISK_PROGRAM,
        network_mode="none",
        cap_add=["SYS_ADMIN"],
        devices=["/dev/fuse"],
        security_opt=["apparmor:unconfined"],
        volumes={program: {"bind": DISK_PROGRAM, "mode": "ro"}},
        labels={RUN: "doctor", OWNER: this_process()},
    )
    try:
        container.start()
        status = container.wait(timeout=_WAIT_S)["StatusCode"]
        said = container.logs(stdout=True, stderr=True).decode(errors="replace").strip()
    finally:
        container.remove(force=True, v=True)
    return "" if status == 0 else said or f"its program ended with {status}"


def _idle(client: docker.DockerClient, image: str) -> Container:
    labels = {RUN: "doctor", OWNER: this_process()}
    return client.containers.run(image, detach=True, network_mode="none", labels=labels)


FAULTY_DISKS: Final = Means(
    "faulty disks (FUSE, SYS_ADMIN)", "--storage faulty: power-cut, disk-*", _faulty_disk
)
MEANS: Final = (
    FAULTY_DISKS,
    Means("a library that is loaded first", ", ".join(VARIANTS), _wrong_clock),
    Means("memory limits (OOM killer)", Resource.MEMORY, _oom_killer),
    Means("CPU quotas", Resource.CPU, _throttle),
    Means("limits of a running process (prlimit)", Resource.FILES, _prlimit),
)


def why_none(client: docker.DockerClient, image: str, means: Means) -> str:
    """Return why the means does not work here; "" if it does."""
    try:
        with engine_request(f"try {means.name}"):
            return means.why_not(client, image)
    except Exception as error:  # whatever goes wrong is the answer
        return f"{type(error).__name__}: {error}"
