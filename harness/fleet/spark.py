"""Judges many runs on Spark. Only this file and `harness.fleet.store_sql` import pyspark.

A job that judges is a collection with a partition for each task, which has the runs of that task
and is sent to nobody else. Each attempt at a task writes a file of its own and returns its name,
and of each task Spark returns one. So a retry or a speculative copy leaves nothing but a file that
nobody reads. Nothing is shuffled; `harness.fleet.plan` says why.
"""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

from harness.core.errors import HarnessError, MissingExtraError, UsageError
from harness.core.plugins import NAMED
from harness.core.ranges import RANGES, Range, quoted
from harness.fleet.java import require_java
from harness.fleet.location import Location
from harness.fleet.plan import TASKS_A_CORE, Item, assign_to_tasks
from harness.fleet.spark_errors import last_error
from harness.fleet.task import Job, write_task

try:
    import pyspark.errors  # before py4j, which comes with it, so that an error names pyspark
    from py4j.protocol import Py4JError
    from pyspark import Accumulator, SparkConf, SparkContext, TaskContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession
except ModuleNotFoundError as missing:
    raise MissingExtraError("Spark", missing, "spark") from missing

FAILURES_MAX: Final = 2
"""Number of failures of one task before Spark gives up. The cause of one failure may pass, as when
the executor was killed, and no run kills its task twice (see `harness.fleet.task`). So what fails
twice would always fail."""
POLL_S: Final = 0.2
LOG_LINES: Final = 15
CANCEL_S: Final = 30.0
"""Seconds after which a JVM is killed whose tasks go on although they were cancelled, or that does
not stop."""
ANSWER_MAX: Final = "256m"
"""Size of the results of one job, in Spark's notation. A quarter of the default heap, because the
JVM copies them on the way to Python."""
_OUT_OF_MEMORY: Final = 3
"""Exit status of a JVM that ends itself as soon as its heap is used up, as it is told to. By itself
Spark would shut down in an orderly way first, for which memory is lacking."""
_CONF: Final = {
    "spark.app.name": "harness",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": str(FAILURES_MAX),
}
_SQL_CONF: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Else text.`/etc/passwd` is a table.
    "spark.sql.runSQLOnFiles": "false",
    # The driver lists the files of a store at once; as a job it would be a task for each run.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000000",
}
_CORES: Final = RANGES["jobs"]
_WORKER_MB: Final = Range(1, 1_000_000)
T = TypeVar("T")


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
        # Without it Spark SQL creates a directory spark-warehouse in the working directory.
        conf.setIfMissing("spark.sql.warehouse.dir", log.parent.absolute().as_uri())
        python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
        # The context reads only this variable; without it workers run the first python3 in PATH.
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
        for variable in ("PYTHONPATH", NAMED):
            if os.environ.get(variable):
                conf.setIfMissing(f"spark.executorEnv.{variable}", os.environ[variable])
        # Spark starts Python with -m, which would import from the working directory.
        conf.setIfMissing("spark.executorEnv.PYTHONSAFEPATH", "1")
        if not submitted:
            conf.setIfMissing("spark.driver.maxResultSize", ANSWER_MAX)
            conf.setIfMissing("spark.driver.defaultJavaOptions", "-XX:+ExitOnOutOfMemoryError")
            conf.setMaster(_master_url(master or conf.get("spark.master", "local[*]") or ""))
            if conf.get("spark.master", "").startswith("local"):
                conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
                conf.setIfMissing("spark.driver.host", "127.0.0.1")
        # py4j logs tracebacks of what is raised here, and of what a Ctrl-C interrupts.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_of_others)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as output, _preserve_sigint():
                # Without a file Spark writes to the terminal.
                gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
                self._context = SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, pyspark.errors.PySparkException, OSError) as error:
            raise HarnessError(
                f"Spark did not start: {_first_line(error)}\n{self._log_tail()}"
            ) from error

    @property
    def cores(self) -> int:
        """Return the number of tasks that run at the same time."""
        return self._context.defaultParallelism

    def session(self) -> SparkSession:
        """Return a session for SQL, with views of its own."""
        # pyspark would print each error of a query, with its stack, on standard error.
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        session = SparkSession(self._context).newSession()
        for name, value in _SQL_CONF.items():
            session.conf.set(name, value)
        session.conf.set("spark.sql.shuffle.partitions", TASKS_A_CORE * self.cores)
        return session

    @property
    def _threads(self) -> int:
        """Return how many tasks this machine runs at the same time if it runs all of them, else
        1."""
        return self.cores if (self._context.master or "").startswith("local[") else 1

    def judge(
        self,
        job: Job,
        items: Sequence[Item],
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Location]:
        """Judge all items and return files of rows, in the job's scratch directory.

        Calls `on_progress` with the number of judged items several times a second. Raises
        HarnessError if Spark itself fails: a task fails for good, or the JVM dies.
        """
        tasks = assign_to_tasks(items, self.cores)
        if not tasks:
            return []
        # The driver adds up what ended tasks report, without a request to the JVM, which a Ctrl-C
        # could leave in disorder.
        done = self._context.accumulator(0)

        def run() -> list[Location]:
            parts = self._context.parallelize(tasks, len(tasks))
            return parts.mapPartitions(_task(replace(job, threads=self._threads), done)).collect()

        def report() -> None:
            if on_progress is not None:
                on_progress(done.value)

        try:
            files = self.attend(run, report)
        except Exception as error:
            raise HarnessError(
                f"Spark gave up: {last_error(str(error))}; see {self.log}"
            ) from error
        assert len(files) == len(tasks), "each task has one file"
        return files

    def attend(self, work: Callable[[], T], on_wait: Callable[[], None] = lambda: None) -> T:
        """Return the result of `work`, which runs jobs, and raise what it raises. It runs in a
        thread of its own: Ctrl-C in this one then cancels the jobs. Calls `on_wait` several times a
        second."""
        done: list[T] = []
        failure: list[Exception] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as error:  # raised below, in the thread of the caller
                failure.append(error)

        thread = threading.Thread(target=run, name="spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(POLL_S)
                on_wait()
        except BaseException:
            end = monotonic() + 2 * CANCEL_S
            with self._kill_jvm_after(CANCEL_S):
                while thread.is_alive() and monotonic() < end:
                    # Again, because a query that is still being analysed has no job yet.
                    self._context.cancelAllJobs()
                    thread.join(POLL_S)
            raise
        if failure:
            raise failure[0]
        return done[0]

    @property
    def _process(self) -> Any:
        """The JVM; None if another process started it."""
        return getattr(self._context._gateway, "proc", None)

    def ran_out_of_memory(self) -> bool:
        """Return whether the JVM, which does not answer any more, ended because its heap was used
        up."""
        with suppress(subprocess.TimeoutExpired):
            return self._process is not None and self._process.wait(CANCEL_S) == _OUT_OF_MEMORY
        return False

    @contextmanager
    def _kill_jvm_after(self, seconds: float) -> Iterator[None]:
        """Kill the JVM if the block takes longer, as when its memory is used up, and ignore that it
        is gone. A JVM of another process is left alone, so that the block takes what it takes."""
        kill = threading.Timer(seconds, self._process.kill if self._process else lambda: None)
        kill.start()
        try:
            # pyspark warns of a JVM that is gone.
            with suppress(Py4JError, OSError), warnings.catch_warnings(action="ignore"):
                yield
        finally:
            kill.cancel()

    def _log_tail(self) -> str:
        """Return the end of the log, without the stack frames of Java."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = [line for line in text.rstrip().split("\n") if not line.startswith("\t")]
        last = "\n".join(f"  {line}" for line in lines[-LOG_LINES:])
        return f"{self.log} ends with:\n{last}"

    def close(self) -> None:
        """End Spark and its JVM; at once if Ctrl-C is pressed meanwhile."""
        gateway, process = self._context._gateway, self._process
        try:
            # A JVM that died cannot be asked to stop.
            if process is None or process.poll() is None:
                with self._kill_jvm_after(CANCEL_S):
                    self._context.stop()
            if gateway is not None and process is not None:
                with self._kill_jvm_after(CANCEL_S):
                    gateway.shutdown()
                with self._kill_jvm_after(CANCEL_S):
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
    job: Job, done: "Accumulator[int]"
) -> Callable[[Iterable[list[Item]]], Iterable[Location]]:
    def files(tasks: Iterable[list[Item]]) -> Iterable[Location]:
        context = TaskContext.get()
        assert context is not None, "Spark runs it"
        for items in tasks:
            yield write_task(job, items, isolated=context.attemptNumber() > 0)
            done.add(len(items))

    return files


def _master_url(master: str) -> str:
    """Return the URL of the master. A local one gets as many failures of a task as others have.
    Raises UsageError."""
    local = re.fullmatch(r"local(?:\[(.*)\])?", master)
    cluster = re.fullmatch(r"local-cluster\[(.*),(.*),(.*)\]", master)
    try:
        if local:
            threads = "1" if local[1] is None else local[1]
            return f"local[{threads if threads == '*' else _CORES.parse(threads)},{FAILURES_MAX}]"
        if cluster:
            ranges = (_CORES, _CORES, _WORKER_MB)
            numbers = [r.parse(text) for r, text in zip(ranges, cluster.groups(), strict=True)]
            return f"local-cluster[{','.join(map(str, numbers))}]"
    except ValueError as error:
        raise UsageError(f"--spark {quoted(master)}: {error}") from None
    if re.match(r"(spark://|k8s://|yarn$)", master):
        return master
    raise UsageError(
        f"--spark {quoted(master)}: expected local[*], local[4], spark://HOST:PORT, yarn or "
        "k8s://URL"
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


def _is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is not by py4j, which uses it as well."""
    return record.module != "java_gateway"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
