"""Check a store in a bucket on a Spark cluster of containers, and kill a worker in mid-job.

    python -m benches.fleet_cluster [histories]     # 200 unless given

An S3 server, a master, the workers and the driver each run in a container of their own and share
nothing but the bucket, which is full before the server answers: requests to fill it would take
longer than the checks. All histories are judged by two workers, of which the second is killed with
SIGKILL when half of the tasks have written their rows, and then again by the one that is left.
Every run must have its verdict, once.
"""

import io
import json
import os
import shutil
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import docker
import pyspark
import requests
from docker.models.containers import Container

import harness
from benches.fleet_histories import DISTINCT, store
from compose.releases import ImageChoice
from harness.clusters.base_image import base_image
from harness.clusters.engine import engine
from harness.clusters.images import build_images
from harness.core.seed import Seed
from harness.core.topology import Role
from harness.fleet.location import Location
from harness.fleet.plan import Item, assign_to_tasks
from harness.fleet.verdicts import Verdicts

IMAGE: Final = "harness-bench/spark"
PORT: Final = 5000
OPS: Final = 2_000
MASTER: Final = "spark://master:7077"
KEYS: Final = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
WAIT_S: Final = 3_600.0
CPU_SHARES: Final = 8_192
"""Weight of the S3 server, which is a Python process, against 1,024 of each other container: else
it alone would be measured on a busy machine."""
JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Four JVMs on one machine start sooner so."""
NOT_NEEDED: Final = shutil.ignore_patterns(
    "*polars*", "mypy*", "*mypyc*", "ruff*", "maturin*", "pip*", "setuptools*", "hypothesis*",
    "selenium*", "pandas*", "grimp*", "librt*", "pytest*", "_pytest", "*-stubs",
)  # fmt: skip
"""Packages of this environment that judging does without."""
NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "examples")
RECIPE: Final = """\
ARG BASE
FROM ${BASE}
RUN apt-get update \\
 && mkdir -p /usr/share/man/man1 \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \\
      python3 openjdk-17-jre-headless procps \\
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY site /usr/lib/site
ENV PYTHONPATH=/usr/lib/site SPARK_HOME=/usr/lib/site/pyspark PYSPARK_PYTHON=python3 \\
    PYTHONUNBUFFERED=1
"""
SERVER: Final = """\
import logging
import sys
from pathlib import Path
from moto import backends
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

bucket = s3_backends["123456789012"]["aws"]
bucket.create_bucket("nights", "us-east-1")
runs = [
    {file.name: file.read_bytes() for file in run.iterdir()}
    for run in sorted(Path("/quorum-set+none").iterdir())
]
for number in range(int(sys.argv[1])):
    for name, contents in runs[number % len(runs)].items():
        bucket.put_object("nights", f"store/quorum-set+none/{number:06}/{name}", contents)
modules = frozenset(backends.list_of_moto_modules())
backends.list_of_moto_modules = lambda: modules
logging.getLogger("werkzeug").setLevel(logging.ERROR)
application = DomainDispatcherApplication(create_backend_app)
run_simple("0.0.0.0", int(sys.argv[2]), application, threaded=False)
"""
"""S3 server that begins with a bucket of this number of runs, on this port. As moto starts it,
the server would look at 183 files for each request, which are slow in a container."""
CODE_RECIPE: Final = """\
ARG BASE
FROM ${BASE}
COPY site /usr/lib/site
"""


def image(client: docker.DockerClient) -> str:
    """Return the image of this environment: Java and the packages, built if they are missing, and
    our own code as it is now."""
    packages, own = Path(pyspark.__file__).parent.parent, Path(harness.__file__).parent.parent
    if not client.images.list(IMAGE):
        with tempfile.TemporaryDirectory(prefix="harness-bench-") as directory:

            def skipped(where: str, names: list[str]) -> set[str]:
                top = NOT_NEEDED(where, names) if Path(where) == packages else set()
                return top | NOT_COPIED(where, names)

            shutil.copytree(packages, f"{directory}/site", ignore=skipped)
            _build(client, IMAGE, directory, RECIPE, base_image(client, print))
    with tempfile.TemporaryDirectory(prefix="harness-bench-") as directory:
        skip = shutil.ignore_patterns("__pycache__")
        for room in ("harness", "checkers", "workloads", "nemesis", "compose"):
            shutil.copytree(own / room, f"{directory}/site/{room}", ignore=skip)
        _build(client, f"{IMAGE}:code", directory, CODE_RECIPE, IMAGE)
    return f"{IMAGE}:code"


def _build(client: docker.DockerClient, tag: str, path: str, recipe: str, base: str) -> None:
    (Path(path) / "Dockerfile").write_text(recipe)
    client.images.build(path=path, tag=tag, buildargs={"BASE": base}, rm=True, forcerm=True)


@dataclass
class Containers:
    """The containers of one try, on a network of their own."""

    client: docker.DockerClient
    network: str
    started: list[Container]

    def run(
        self, tag: str, name: str, command: list[str], archive: bytes = b"", **options: Any
    ) -> Container:
        """Start a container that the others reach by its name, with the files of an archive."""
        alias = self.client.api.create_endpoint_config(aliases=[name])
        one = self.client.containers.create(
            tag,
            command,
            name=f"{self.network}-{name}",
            hostname=name,
            network=self.network,
            networking_config={self.network: alias},
            **{"environment": JAVA, "tmpfs": {"/tmp": "exec"}, **options},
        )
        self.started.append(one)
        if archive:
            one.put_archive("/", archive)
        one.start()
        return one


@contextmanager
def containers(client: docker.DockerClient) -> Iterator[Containers]:
    name = f"harness-bench-{Seed.fresh().value:08x}"
    network = client.networks.create(name)
    made = Containers(client, name, [])
    try:
        yield made
    finally:
        for one in made.started:
            one.remove(force=True, v=True)
        network.remove()


def wait_until(what: str, holds: Callable[[], bool], pause_s: float = 0.2) -> None:
    end = monotonic() + WAIT_S
    while not holds():
        if monotonic() > end:
            raise TimeoutError(f"not within {WAIT_S:.0f} s: {what}")
        sleep(pause_s)


def bucket_at(made: Containers, histories: int) -> tuple[str, int, int]:
    """Start the S3 server with a store in its bucket. Return its address for this machine, the
    number of violated runs, and that of the tasks in which two workers judge the store."""
    archive, bad, sizes = _runs(min(histories, DISTINCT))
    images = build_images(print, ImageChoice(store=True))
    (server,) = images.servers[Role.STORE].values()
    words = ["-c", SERVER, str(histories), str(PORT)]
    options = {"entrypoint": "python3", "cpu_shares": CPU_SHARES}
    one = made.run(server.tag, "store", words, archive, **options)
    one.reload()
    address = one.attrs["NetworkSettings"]["Networks"][made.network]["IPAddress"]
    endpoint = f"http://{address}:{PORT}"

    def answers() -> bool:
        try:
            return requests.head(f"{endpoint}/nights", timeout=60).ok
        except requests.RequestException:
            return False

    wait_until("the S3 server answers", answers)
    items = [Item(f"{number:06}", sizes[number % len(sizes)]) for number in range(histories)]
    return endpoint, bad * histories // len(sizes), len(assign_to_tasks(items, 2))


def _runs(number: int) -> tuple[bytes, int, list[int]]:
    """Return so many different runs as a tar archive, the number of violated ones, and the sizes of
    the histories."""
    buffer = io.BytesIO()
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as directory,
        tarfile.open(fileobj=buffer, mode="w") as tar,
    ):
        bad = store(Path(directory), number, OPS)
        files = sorted(Path(directory).glob("*/*/[!.]*"))
        for file in files:
            tar.add(file, file.relative_to(directory).as_posix())
        sizes = [file.stat().st_size for file in files if file.name == "history.parquet"]
    return buffer.getvalue(), bad, sizes


def main(histories: int) -> None:
    with closing(engine(600)) as client:
        tag = image(client)
        with containers(client) as made:
            endpoint, bad, tasks = bucket_at(made, histories)
            os.environ.update(KEYS, AWS_ENDPOINT_URL=endpoint)
            place = Location.of("s3://nights/store")
            inside = {**KEYS, **JAVA, "AWS_ENDPOINT_URL": f"http://store:{PORT}"}
            spark = ["/usr/lib/site/pyspark/bin/spark-class"]
            deploy = "org.apache.spark.deploy"
            master = made.run(
                tag, "master",
                [*spark, f"{deploy}.master.Master", "--host", "master", "--port", "7077"],
            )  # fmt: skip
            wait_until("the master starts", lambda: b"ALIVE" in master.logs())
            words = [*spark, f"{deploy}.worker.Worker", MASTER, "--cores", "1", "--memory", "1400m"]
            fleet = _Fleet(made, tag, inside, place, master, histories, bad, tasks)
            spread = partial(made.run, tag, command=words, environment=inside)
            workers = [spread(name) for name in ("worker1", "worker2")]
            for worker in workers:
                wait_until("a worker registers", partial(_registered, worker))
            two_s = fleet.check("two workers, one killed", workers[1])
            one_s = fleet.check("the worker that is left")
            print(f"one worker / two of which one is killed: {one_s / two_s:.2f}")
            fleet.check_again()


def _registered(worker: Container) -> bool:
    return b"registered" in worker.logs()


@dataclass
class _Fleet:
    """The driver's side of a Spark cluster of containers, and what its store must come to."""

    made: Containers
    tag: str
    inside: dict[str, str]
    place: Location
    master: Container
    histories: int
    bad: int
    tasks: int
    """Number of tasks of a check by two workers."""
    checks: int = 0

    def check(self, who: str, victim: Container | None = None) -> float:
        """Judge all histories on the cluster, kill a worker meanwhile if one is given, and return
        the seconds from the driver's start to its end."""
        begin = monotonic()
        driver = self._driver("--force", "--spark", MASTER)
        killed = "" if victim is None else self._kill(victim, driver, begin)
        status = _exit_status(driver)
        took_s = monotonic() - begin
        assert status == 1, driver.logs().decode()
        report = _last_line(driver)
        rows = Verdicts(Location(report["verdicts"])).rows()
        keys = list(zip(rows["run"].to_pylist(), rows["object"].to_pylist(), strict=True))
        assert len(keys) == len(set(keys)), "a run has its verdict once"
        assert report["judged"] == len(set(rows["run"].to_pylist())) == self.histories
        assert report["statuses"]["INVALID"] == self.bad, report["statuses"]
        print(
            f"{self.histories:,} histories of {OPS:,} ops in a bucket, {who}, a core each: "
            f"{took_s:.1f} s with the driver's start, {report['seconds']:.1f} s to judge{killed}; "
            f"{report['statuses']}; {len(keys):,} rows, none twice",
            flush=True,
        )
        return took_s

    def check_again(self) -> None:
        """Judge a store in which nothing changed."""
        again = self._driver()
        _exit_status(again)
        second = _last_line(again)
        assert (second["judged"], second["unchanged"]) == (0, self.histories)
        read, by = second["bytes_read"], second["engine"]
        print(f"again: {second['seconds']} s, {read:,} bytes read; {by}")
        assert not self.place.below(".fleet").files(), "no attempt leaves anything"

    def _driver(self, *more: str) -> Container:
        self.checks += 1
        words = ["python3", "-m", "harness.cli.main", "check", self.place.uri, "--json"]
        words += ["--checkers", "linearizable", *more]
        return self.made.run(self.tag, f"driver{self.checks}", words, environment=self.inside)

    def _kill(self, victim: Container, driver: Container, begin: float) -> str:
        """Kill a worker when half of the tasks have written their rows, and say when."""
        scratch = self.place.below(".fleet")

        def begun() -> bool:
            driver.reload()
            assert driver.status == "running", driver.logs().decode()
            return len(scratch.files()) > self.tasks // 2

        wait_until("half of the rows are written", begun, pause_s=2)  # a look costs the server
        victim.kill()
        killed_s, written = monotonic() - begin, len(scratch.files())
        lines = self.master.logs().decode().splitlines()
        lost = [line for line in lines if "lost" in line.lower()]
        said = f"after {written} of {self.tasks} tasks; the master: {lost[:1]}"
        return f"; killed at {killed_s:.1f} s, {said}"


def _exit_status(of: Container) -> int:
    def ended() -> bool:
        of.reload()
        return of.status == "exited"

    wait_until("the driver ends", ended)
    return int(of.attrs["State"]["ExitCode"])


def _last_line(of: Container) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(of.logs(stdout=True, stderr=False).decode().splitlines()[-1])
    return said


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its containers go
    main(int(sys.argv[1]) if sys.argv[1:] else 200)
