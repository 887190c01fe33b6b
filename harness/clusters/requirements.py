"""Requirements of a run on this machine, each tested by trying it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import docker

from compose.plan import OWNER, RUN
from compose.releases import ImageChoice, Release
from harness.clusters.base_image import PUBLIC, bootstrap_tool, has_image, registry_has
from harness.clusters.build_inputs import why_unsupported
from harness.clusters.engine import compose_command, engine, engine_request
from harness.clusters.fault_means import MEANS, why_none
from harness.clusters.images import pod_image, source_of
from harness.clusters.parallel import on_each
from harness.core.errors import ClusterError
from harness.core.link_quality import LinkFault
from harness.core.os_process import this_process

_DISK_GB: Final = 6
"""Space for images (1.6 GB), for building them (as much again) and for a few runs."""
_MEMORY_GB: Final = 3
"""Memory for three ClickHouse and three ZooKeeper servers of 0.3 GB each, and the harness."""
_JAVA: Final = 17

_FEATURES: Final = (
    ("iptables DROP", "iptables -A INPUT -s 192.0.2.1 -j DROP", "partitions, dns-failure"),
    (
        "iptables NFQUEUE",
        "iptables -t raw -A PREROUTING -s 192.0.2.1 -j NFQUEUE --queue-num 7 --queue-bypass",
        ", ".join(LinkFault),
    ),
)
"""Kernel features: name, command that tests it, faults that need it."""
_IN_POD: Final = (("packet queues", "packet-queue check", ", ".join(LinkFault)),)
"""Features that a program of the pods' image tests."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Requirement of the harness, and whether this machine meets it."""

    name: str
    ok: bool
    found: str
    """Version or figure that was found, or the reason why it cannot be used."""
    how_to_get: str
    """Advice, in one sentence."""
    needed: bool = True
    """False if only some commands or faults need it."""


def requirements(choice: ImageChoice | None = None) -> list[Requirement]:
    """Return every requirement of a run on these servers, in the order in which a run needs them.

    It takes a second or two, and ten if a registry does not answer.
    """
    wanted = choice or ImageChoice()
    checks: tuple[Callable[[], Requirement | list[Requirement]], ...] = (
        _python,
        _cargo,
        _java,
        _engine,
        _compose,
        lambda: _base(wanted),
        *(partial(_server, release) for release in wanted.releases),
        _disk,
        _memory,
        _kernel,
        _means,
    )
    out: list[Requirement] = []
    for found in on_each(checks, lambda check: check()).values():
        out += found if isinstance(found, list) else [found]
    return out


def _python() -> Requirement:
    have = sys.version_info
    return Requirement(
        "Python 3.11 or newer",
        have >= (3, 11),
        f"{have.major}.{have.minor}.{have.micro}",
        "Debian, Ubuntu: apt-get install python3 python3-venv",
    )


def _cargo() -> Requirement:
    built = find_spec("pyporcupine") is not None
    output = _output("cargo", "--version")
    return Requirement(
        "cargo, to build the Rust modules",
        bool(output) or built,
        output or ("not found, but the module is built" if built else "not found"),
        "https://rustup.rs, or Debian, Ubuntu: apt-get install cargo",
    )


def _java() -> Requirement:
    output = _output("java", "-version")
    number = re.search(r'version "(\d+)', output)
    return Requirement(
        f"Java {_JAVA} or newer, for Spark",
        number is not None and int(number[1]) >= _JAVA,
        output or "not found",
        f"Debian, Ubuntu: apt-get install openjdk-{_JAVA}-jre-headless",
        needed=False,
    )


def _engine() -> Requirement:
    try:
        with closing(engine(5)) as client:
            version = str(client.version()["Version"])
    except ClusterError as error:
        return Requirement("Docker engine", False, str(error), "apt-get install docker.io")
    return Requirement("Docker engine", True, version, "apt-get install docker.io")


def _compose() -> Requirement:
    advice = "Debian, Ubuntu: apt-get install docker-compose"
    try:
        command = compose_command()
    except ClusterError:
        return Requirement("docker compose", False, "neither plugin nor program", advice)
    output = _output(*command, "version")
    return Requirement("docker compose", True, output or " ".join(command), advice)


def _server(release: Release) -> Requirement:
    """Return the requirement of a release's image, with its source and the reason."""
    name = f"{release.product} {release.alias}"
    try:
        with closing(engine(20)) as client:
            source = source_of(client, release)
    except ClusterError:
        return Requirement(name, False, "no Docker engine answers", "apt-get install docker.io")
    why = None if source.official else why_unsupported(release)
    if why is not None:
        return Requirement(name, False, f"{release}: {why}", "choose another --clickhouse")
    return Requirement(name, True, source.why, "")


def _base(choice: ImageChoice) -> Requirement:
    """Return the requirement of images, or of something to build them from."""
    name, advice = "images, or a way to build them", "Debian, Ubuntu: apt-get install mmdebstrap"
    try:
        with closing(engine(5)) as client:
            ready = [source_of(client, r).ready for r in choice.releases]
            if all(ready) and has_image(client, pod_image()):
                return Requirement(name, True, "images are built", advice)
            if has_image(client, PUBLIC):
                return Requirement(name, True, PUBLIC, advice)
    except ClusterError:
        return Requirement(name, False, "no Docker engine answers", advice)
    tool = bootstrap_tool()
    if tool is not None:
        return Requirement(name, True, tool, advice)
    found = registry_has()
    text = "no registry can be reached, no mmdebstrap, no debootstrap"
    return Requirement(name, found, f"a registry that has {PUBLIC}" if found else text, advice)


def _disk() -> Requirement:
    free = shutil.disk_usage(_docker_root()).free / 1e9
    return Requirement(
        f"{_DISK_GB} GB of disk",
        free >= _DISK_GB,
        f"{free:.0f} GB free",
        "docker image prune, or a larger disk",
    )


def _docker_root() -> Path:
    """Return the engine's data directory; the working directory if the engine is remote."""
    try:
        with closing(engine(5)) as client:
            root = Path(str(client.info()["DockerRootDir"]))
    except ClusterError:
        return Path()
    return root if root.exists() else Path()


def _memory() -> Requirement:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) / 1e6
    except (OSError, StopIteration):
        return Requirement(f"{_MEMORY_GB} GB of memory", True, "unknown on this system", "")
    return Requirement(
        f"{_MEMORY_GB} GB of memory",
        free >= _MEMORY_GB,
        f"{free:.1f} GB free",
        "fewer --replicas, or a larger machine",
    )


def _kernel() -> list[Requirement]:
    """Return the requirements of the kernel, tested in the network namespace of a container."""
    try:
        with closing(engine(20)) as client:
            tried = _try_features(client)
    except ClusterError as error:
        tried = {name: str(error) for name, _, _ in (*_FEATURES, *_IN_POD)}
    return [
        Requirement(
            f"kernel: {name}",
            tried[name] == "",
            tried[name] or "works",
            f"a kernel that has it; without it these faults are not available: {faults}",
            needed=name == _FEATURES[0][0],
        )
        for name, _, faults in (*_FEATURES, *_IN_POD)
    ]


def _means() -> list[Requirement]:
    """Return the requirements of faults of clocks, resources and disks, tried in containers."""
    pod = pod_image()
    try:
        with closing(engine(20)) as client:
            if has_image(client, pod):
                tried = on_each(MEANS, lambda means: why_none(client, pod, means))
            else:
                tried = dict.fromkeys(MEANS, "not tested: the pods' image is not built")
    except ClusterError as error:
        tried = dict.fromkeys(MEANS, str(error))
    return [
        Requirement(
            means.name,
            why == "",
            why or "works",
            f"without it these faults are not available: {means.faults}",
            needed=False,
        )
        for means, why in tried.items()
    ]


def _try_features(client: docker.DockerClient) -> dict[str, str]:
    """Return the error of each feature, "" if it works.

    Without a pod image, a network namespace of this machine is used instead of a container.
    """
    pod = pod_image()
    if not has_image(client, pod):
        untested = {name: "not tested: the pods' image is not built" for name, _, _ in _IN_POD}
        tried = {name: _error_of("unshare", "-n", *cmd.split()) for name, cmd, _ in _FEATURES}
        return tried | untested
    with engine_request("try the kernel's features"):
        container = client.containers.run(
            pod,
            detach=True,
            network_mode="none",
            cap_add=["NET_ADMIN"],
            labels={RUN: "doctor", OWNER: this_process()},
        )
        try:
            out = {}
            for name, command, _ in (*_FEATURES, *_IN_POD):
                status, output = container.exec_run(command.split())
                assert isinstance(output, bytes), "neither streamed nor split"
                out[name] = "" if status == 0 else _first_line(output.decode(errors="replace"))
            return out
        finally:
            container.remove(force=True, v=True)


def _error_of(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else _first_line(done.stderr) or f"status {done.returncode}"


def _output(*argv: str) -> str:
    """Return the first line that a program prints on either stream; "" if it cannot be run."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return _first_line(done.stdout + done.stderr) if done.returncode == 0 else ""


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
