"""Judges many runs on Spark. The only file that imports pyspark.

A job is a range of numbers, one a task, each in a partition of its own; `mapInArrow` turns the
number into the task's runs, reads their files and yields the rows of their verdicts. Nothing is
shuffled; `checkers.fleet_plan` says why.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Broadcast, SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from checkers.fleet_plan import Item, binned
from checkers.fleet_rows import SCHEMA, batch_of
from checkers.fleet_work import Job, work
from harness.core.errors import HarnessError, UsageError

JAVA_MIN: Final = 17
FAILURES_MAX: Final = 100
"""Deaths of one task before Spark gives up. Each death leaves one suspect fewer."""
POLL_S: Final = 0.2
LOG_LINES: Final = 15
_DDL: Final = (
    "run string, workload string, nemesis string, seed string, checker string, object bigint, "
    "status string, decides boolean, reason string, kind string, witness array<bigint>, "
    "time_ns bigint, checked bigint, seconds double, note string, history string, judge string"
)
"""SCHEMA, as Spark writes it."""
_CONF: Final = {
    "spark.app.name": "harness check",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": str(FAILURES_MAX),
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a job is."""

    done: int
    """Items that are judged."""
    items: int
    running: int
    """Tasks."""
    tasks: int


class Fleet:
    """A Spark session: made once, good for many jobs.

    `master` None: that of `spark-submit`, else local[*]. What Spark and its JVMs say goes to
    `log`. Raises UsageError without a fitting Java, HarnessError when Spark does not start.
    """

    def __init__(self, master: str | None, log: Path) -> None:
        self.log = log
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted:
            needed_java()
        conf = SparkConf()
        for name, value in _CONF.items():
            conf.setIfMissing(name, value)
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        # The context looks nowhere else; without it workers are whatever python3 is first found.
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
        if os.environ.get("PYTHONPATH"):
            conf.setIfMissing("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        if not submitted:
            conf.setMaster(_master(master or conf.get("spark.master", "local[*]") or ""))
            if conf.get("spark.master", "").startswith("local"):
                conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
                conf.setIfMissing("spark.driver.host", "127.0.0.1")
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as said:
                # Without this Spark writes all over the terminal.
                gateway = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
            self._context = SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError) as error:
            raise HarnessError(
                f"Spark did not start: {_first_line(error)}\n{self._said()}"
            ) from error
        self._session = SparkSession(self._context)

    @property
    def cores(self) -> int:
        """How many tasks go on at a time."""
        return self._context.defaultParallelism

    def judge(
        self, job: Job, items: Sequence[Item], told: Callable[[Seen], None] | None = None
    ) -> list[Path]:
        """Judges all items; Parquet files of rows, in the job's scratch directory. `told` hears
        how it goes, several times a second. Raises HarnessError when Spark itself fails."""
        tasks = binned(items, self.cores)
        if not tasks:
            return []
        target = Path(job.scratch) / "rows"
        failure: list[Exception] = []
        shared = self._context.broadcast((job, tasks))

        def run() -> None:
            try:
                numbers = self._session.range(0, len(tasks), 1, len(tasks))
                numbers.mapInArrow(_task(shared), _DDL).write.parquet(str(target))
            except Exception as error:  # raised below, in the thread of the caller
                failure.append(error)

        thread = threading.Thread(target=run, name="spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_S)
                if told is not None:
                    told(self._seen(Path(job.scratch), len(items), len(tasks)))
        except BaseException:
            self._context.cancelAllJobs()
            raise
        finally:
            shared.unpersist()
        if failure:
            shutil.rmtree(target, ignore_errors=True)
            raise HarnessError(f"Spark failed: {_first_line(failure[0])}\n{self._said()}")
        return sorted(target.glob("part-*.parquet"))

    def _seen(self, scratch: Path, items: int, tasks: int) -> Seen:
        done: set[str] = set()
        for path in scratch.glob("task-*.begun"):
            done.update(line for line in path.read_text().split("\n") if line[:1] == "-")
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        running = sum(stage.numActiveTasks for stage in stages if stage is not None)
        return Seen(len(done), items, running, tasks)

    def _said(self) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        last = "\n".join(f"  {line}" for line in text.rstrip().split("\n")[-LOG_LINES:])
        return f"{self.log} ends with:\n{last}"

    def close(self) -> None:
        """Ends Spark and its JVM."""
        gateway = self._context._gateway
        self._session.stop()
        if gateway is not None and hasattr(gateway, "proc") and gateway.proc is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()
            SparkContext._gateway = None
            SparkContext._jvm = None

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _task(
    shared: Broadcast[Any],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job, tasks = shared.value
        for batch in batches:
            for number in batch.column(0).to_pylist():
                made = []
                for row in work(job, number, tasks[number]):
                    made.append(row)
                    if len(made) >= 1_000:
                        yield batch_of(made)
                        made = []
                yield batch_of(made)

    return rows


def needed_java() -> Path:
    """The Java that Spark will use. Raises UsageError unless it is there and new enough."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = (
        f"Spark needs Java {JAVA_MIN} or newer; on Debian: apt install openjdk-17-jre-headless; "
        "elsewhere set JAVA_HOME"
    )
    if found is None:
        raise UsageError(f"java: not found in PATH, and JAVA_HOME is not set; {advice}")
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"java {found}: cannot be run: {error.strerror}; {advice}") from error
    version = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        said = (done.stderr or done.stdout).strip().split("\n")[0]
        raise UsageError(f"java {found}: is {said!r}; {advice}")
    return Path(found)


def _master(master: str) -> str:
    """The master; of a local one, with as many failures of a task as elsewhere."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if local:
        return f"local[{local[1] or 1},{FAILURES_MAX}]"
    if re.match(r"(local(-cluster)?\[|spark://|k8s://|yarn$)", master):
        return master
    raise UsageError(
        f"--spark {master!r}: expected local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


assert tuple(part.split()[0] for part in _DDL.split(", ")) == tuple(SCHEMA.names)
