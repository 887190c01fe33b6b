"""Judges many runs on Spark. This is the only file that imports pyspark.

A job is a range of numbers, one for each task and each in its own partition. `mapInArrow` turns a
number into the task's runs, reads their files and yields the rows of their verdicts. Nothing is
shuffled; `harness.fleet.plan` says why.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness.core.errors import HarnessError, UsageError
from harness.fleet.plan import Item, assign_to_tasks
from harness.fleet.rows import SCHEMA, batch_of
from harness.fleet.task import Job, run_task

try:
    from py4j.protocol import Py4JError
    from pyspark import Broadcast, SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ModuleNotFoundError as missing:
    raise UsageError(
        f"Spark: the Python package {missing.name} is not installed; `make spark` installs what "
        "Spark needs, as does pip with clickhouse-harness[spark]"
    ) from missing

JAVA_MIN: Final = 17
FAILURES_MAX: Final = 2
"""Number of failures of one task before Spark gives up. The cause of one failure may pass, as when
the executor was killed, and no run kills its task twice (see `harness.fleet.task`). So what fails
twice would always fail."""
POLL_S: Final = 0.2
LOG_LINES: Final = 15
CANCEL_S: Final = 10.0
"""Seconds for which tasks may go on after Ctrl-C before the JVM is killed."""
_DDL: Final = (
    "run string, workload string, nemesis string, seed string, checker string, object bigint, "
    "status string, decides boolean, reason string, kind string, witness array<bigint>, "
    "time_ns bigint, checked bigint, seconds double, note string, history string, judge string"
)
"""The schema `SCHEMA` in Spark's syntax."""
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
class FleetProgress:
    """Progress of a job."""

    done: int
    """Number of judged items."""
    items: int
    running: int
    """Number of running tasks."""
    tasks: int


class Fleet:
    """A Spark session that runs any number of jobs.

    With `master` None it uses the master of `spark-submit`, or else local[*]. Spark and its JVMs
    log to `log`. Raises UsageError if there is no suitable Java, and HarnessError if Spark does not
    start.
    """

    def __init__(self, master: str | None, log: Path) -> None:
        self.log = log
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        if not submitted:
            require_java()
        conf = SparkConf()
        for name, value in _CONF.items():
            conf.setIfMissing(name, value)
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        # The context reads only this variable; without it workers run the first python3 in PATH.
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
        if os.environ.get("PYTHONPATH"):
            conf.setIfMissing("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        if not submitted:
            conf.setMaster(_master_url(master or conf.get("spark.master", "local[*]") or ""))
            if conf.get("spark.master", "").startswith("local"):
                conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
                conf.setIfMissing("spark.driver.host", "127.0.0.1")
        # py4j logs tracebacks of what is raised here, and of what a Ctrl-C interrupts.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as output, _preserve_sigint():
                # Without a file Spark writes to the terminal.
                gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
                self._context = SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError) as error:
            raise HarnessError(
                f"Spark did not start: {_first_line(error)}\n{self._log_tail()}"
            ) from error
        self._session = SparkSession(self._context)

    @property
    def cores(self) -> int:
        """Return the number of tasks that run at the same time."""
        return self._context.defaultParallelism

    @property
    def _threads(self) -> int:
        """Return how many tasks this machine runs at the same time if it runs all of them, else
        1."""
        return self.cores if (self._context.master or "").startswith("local[") else 1

    def judge(
        self,
        job: Job,
        items: Sequence[Item],
        on_progress: Callable[[FleetProgress], None] | None = None,
    ) -> list[Path]:
        """Judge all items and return Parquet files of rows, in the job's scratch directory.

        Calls `on_progress` several times a second. Raises HarnessError if Spark itself fails: a
        task fails for good, or the JVM dies.
        """
        tasks = assign_to_tasks(items, self.cores)
        if not tasks:
            return []
        target = Path(job.scratch) / "rows"
        failure: list[Exception] = []
        shared = self._context.broadcast((replace(job, threads=self._threads), tasks))

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
                if on_progress is not None:
                    on_progress(self._progress(Path(job.scratch), len(items), len(tasks)))
        except BaseException:
            self._context.cancelAllJobs()
            thread.join(CANCEL_S)
            raise
        if failure:
            shutil.rmtree(target, ignore_errors=True)
            raise HarnessError(f"Spark gave up: {last_error(str(failure[0]))}; see {self.log}")
        shared.unpersist()
        return sorted(target.glob("part-*.parquet"))

    def _progress(self, scratch: Path, items: int, tasks: int) -> FleetProgress:
        """Return the progress of the tasks, read from their own files: a Ctrl-C in the middle of a
        request to the JVM would leave the connection in disorder."""
        done: set[str] = set()
        running = 0
        for path in scratch.glob("task-*.begun"):
            lines = path.read_text().split("\n")[:-1]
            done.update(line for line in lines if line[:1] == "-")
            running += bool(lines) and lines[-1][:1] != "-"
        return FleetProgress(len(done), items, running, tasks)

    def _log_tail(self) -> str:
        """Return the end of the log, without the stack frames of Java."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = [line for line in text.rstrip().split("\n") if not line.startswith("\t")]
        last = "\n".join(f"  {line}" for line in lines[-LOG_LINES:])
        return f"{self.log} ends with:\n{last}"

    def close(self) -> None:
        """End Spark and its JVM; at once if Ctrl-C is pressed meanwhile."""
        gateway = self._context._gateway
        process = None if gateway is None else getattr(gateway, "proc", None)
        try:
            # A JVM that died cannot be asked to stop.
            with suppress(Py4JError, OSError):
                self._session.stop()
            if gateway is not None and process is not None:
                with suppress(Py4JError, OSError):
                    gateway.shutdown()
                with suppress(OSError):
                    process.stdin.close()
                process.wait()
        except BaseException:
            if process is not None:
                process.kill()
                process.wait()
            raise
        finally:
            if process is not None:
                SparkContext._active_spark_context = None
                SparkContext._gateway = None
                SparkContext._jvm = None


def _task(
    shared: Broadcast[Any],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        job, tasks = shared.value
        for batch in batches:
            for number in batch.column(0).to_pylist():
                made = []
                for row in run_task(job, number, tasks[number]):
                    made.append(row)
                    if len(made) >= 1_000:
                        yield batch_of(made)
                        made = []
                yield batch_of(made)

    return rows


def require_java() -> Path:
    """Return the path of the Java that Spark will use. Raises UsageError if there is none or it is
    too old."""
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
        output = (done.stderr or done.stdout).strip().split("\n")[0]
        raise UsageError(f"java {found}: is {output!r}; {advice}")
    return Path(found)


def _master_url(master: str) -> str:
    """Return the URL of the master. A local one gets as many failures of a task as others have."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if local:
        return f"local[{local[1] or 1},{FAILURES_MAX}]"
    if re.match(r"(local(-cluster)?\[|spark://|k8s://|yarn$)", master):
        return master
    raise UsageError(
        f"--spark {master!r}: expected local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"
    )


@contextmanager
def _preserve_sigint() -> Iterator[None]:
    """Restore the handler of Ctrl-C at the end. A Spark context installs a handler that calls the
    JVM, even in the middle of another call."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def last_error(text: str) -> str:
    """Return in one line why Spark's job failed: the cause of the task's last failure, in Python's
    words if Python raised it."""
    lost = re.search(r"Task \d+ in stage \S+ failed (\d+) times?, most recent failure: (.*)", text)
    trace = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.M)
    raised = trace.findall(text)
    if lost is None and not raised:
        return text.strip().split("\n")[0]
    tries = "at every attempt" if lost is None else f"{lost[1]} times"
    found = raised[-1] if raised or lost is None else lost[2]
    why = re.sub(r"^Lost task \S+ in stage \S+ \(TID \d+\) ", "", found)
    return f"a task failed {tries}, the last time with {why.strip()}"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


assert tuple(part.split()[0] for part in _DDL.split(", ")) == tuple(SCHEMA.names)
