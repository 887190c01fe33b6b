"""Judges many runs on Spark, and asks it about them. This is the only file that imports pyspark.

A job that judges is a collection with a partition for each task, which has the runs of that task
and is sent to nobody else. Each attempt at a task writes a file of its own and returns its name,
and of each task Spark returns one. So a retry or a speculative copy leaves nothing but a file that
nobody reads. Nothing is shuffled; `harness.fleet.plan` says why.
"""

import json
import logging
import operator
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.errors import HarnessError, MissingExtraError, UsageError
from harness.core.plugins import NAMED
from harness.core.ranges import quoted
from harness.fleet.java import require_java
from harness.fleet.location import Location
from harness.fleet.plan import TASKS_A_CORE, Item, assign_to_tasks
from harness.fleet.rows import SCHEMA as ROWS_SCHEMA
from harness.fleet.spark_errors import last_error, sql_error, unreadable_file
from harness.fleet.task import Job, write_task
from harness.fleet.verdicts import runs_table
from harness.fleet.views import FILE_PATH, PATH_COLUMNS, RUN_PATH, SelectedRows, StoreTables

try:
    import pyspark.errors  # before py4j, which comes with it, so that an error names pyspark
    from py4j.protocol import Py4JError
    from pyspark import Accumulator, SparkConf, SparkContext, TaskContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        InputPartition,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
    from pyspark.sql.types import StructType
except ModuleNotFoundError as missing:
    raise MissingExtraError("Spark", missing, "spark") from missing

FAILURES_MAX: Final = 2
"""Number of failures of one task before Spark gives up. The cause of one failure may pass, as when
the executor was killed, and no run kills its task twice (see `harness.fleet.task`). So what fails
twice would always fail."""
POLL_S: Final = 0.2
LOG_LINES: Final = 15
CANCEL_S: Final = 10.0
"""Seconds for which tasks may go on after Ctrl-C before the JVM is killed."""
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
    # The driver lists the files of a store at once; as a job it would be a task for each run.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000000",
}
_PATH_SCHEMA: Final = pa.schema(
    [(name, pa.date32() if name == "date" else pa.string()) for name in PATH_COLUMNS]
)
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
            self._context.cancelAllJobs()
            thread.join(CANCEL_S)
            raise
        if failure:
            raise failure[0]
        return done[0]

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
                self._context.stop()
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
    """Return the URL of the master. A local one gets as many failures of a task as others have."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    if local:
        return f"local[{local[1] or 1},{FAILURES_MAX}]"
    if re.match(r"(local(-cluster)?\[|spark://|k8s://|yarn$)", master):
        return master
    raise UsageError(
        f"--spark {quoted(master)}: expected local[*], local[4], spark://HOST:PORT, yarn or k8s://URL"
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


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


class StoreSql:
    """Spark SQL over the views of a store, each of which is made when a query first names it."""

    def __init__(self, fleet: Fleet, tables: StoreTables) -> None:
        self._fleet, self._tables = fleet, tables
        self._session = fleet.session()
        self._makers = {"runs": self._runs, "rows": self._rows, "ops": self._ops}
        self.views: list[str] = []
        """The views that were made."""

    def select(self, sql: str, limit: int) -> SelectedRows:
        """Return the first rows of a query. Raises UsageError if it cannot be answered, or is
        anything but a query; it is not executed then."""
        statement = sql.strip().rstrip(";")
        return self._fleet.attend(lambda: self._select(statement, limit))

    def frame(self, sql: str) -> DataFrame:
        """Return a query that Spark has analysed, and not run. Raises what Spark raises, and
        UsageError for a statement that is no query."""
        self._require_query(sql)
        while True:
            try:
                return self._session.sql(sql)
            except pyspark.errors.AnalysisException as error:
                view = _missing_view(error)
                if view not in self._makers or view in self.views:
                    raise
                made = self._makers[view]()
                made.select(*self._tables.columns(view)).createOrReplaceTempView(view)
                self.views.append(view)

    def _select(self, sql: str, limit: int) -> SelectedRows:
        try:
            frame = self.frame(sql)
            table = frame.limit(limit + 1).toArrow()
            more = frame.count() - limit if len(table) > limit else 0
        except (pyspark.errors.PySparkException, Py4JError) as error:
            # Here, while the JVM still runs: it has the text of some errors.
            raise self._explained(error) from error
        columns = [column.to_pylist()[:limit] for column in table.columns]
        return SelectedRows(tuple(table.column_names), tuple(zip(*columns, strict=True)), more)

    def _require_query(self, sql: str) -> None:
        """Raise UsageError for a statement that is no query. Of Spark's grammar, the rule `query`
        has no statement that writes or changes the session."""
        parser = self._session._jsparkSession.sessionState().sqlParser()
        try:
            parser.parseQuery(sql)
        except pyspark.errors.ParseException:
            parser.parsePlan(sql)  # raises for a statement of no kind
            raise UsageError(
                f"SQL: {quoted(sql)} is no query; expected one, such as "
                "SELECT cell, count(*) FROM runs GROUP BY cell"
            ) from None

    def _explained(self, error: Exception) -> HarnessError:
        """Return Spark's error in one line."""
        text = str(error)
        broken = unreadable_file(text)
        if broken is not None:
            return HarnessError(
                f"{Location(broken).shown}: cannot be read; harness check "
                f"{self._tables.store.shown} makes a broken history.parquet again from its "
                "journal, and a condition such as run != 'CELL/RUN' leaves it out"
            )
        of_task = isinstance(error, pyspark.errors.PythonException)  # of BucketHistories
        if of_task or not isinstance(error, pyspark.errors.PySparkException):
            return HarnessError(f"Spark gave up: {last_error(text)}; see {self._fleet.log}")
        said = sql_error(text, [one.fragment() for one in error.getQueryContext()])
        if not isinstance(error, pyspark.errors.AnalysisException):  # of values, not of the query
            return UsageError(f"SQL: {said}")
        views = "; ".join(
            f"{view} ({', '.join(self._tables.columns(view))})"
            for view in self.views or self._makers
        )
        return UsageError(f"SQL: {said}; expected a query of the views {views}")

    def _runs(self) -> DataFrame:
        if not self._tables.judged:
            store = self._tables.store.shown
            raise UsageError(f"store {store}: has no verdicts; run `harness check {store}` first")
        judged = self._session.createDataFrame(runs_table(self._tables.judged))
        return judged.selectExpr(*_path_columns(RUN_PATH), *(f"`{n}`" for n in judged.columns[1:]))

    def _rows(self) -> DataFrame:
        runs = self._runs().select("run", "cell", "date", "judged_in")
        verdicts, judged = self._tables.verdicts, self._tables.judged
        if verdicts.place.path is None:
            rows = self._session.createDataFrame(verdicts.rows(frozenset(judged)))
            return rows.join(runs, "run")
        rows = self._parquet(ROWS_SCHEMA, verdicts.row_files(judged)).selectExpr(
            "*", f"regexp_extract({FILE_PATH}, '([^/]+/[^/]+)[.]parquet$', 1) AS judged_in"
        )
        return rows.join(runs, ["run", "judged_in"])

    def _ops(self) -> DataFrame:
        histories, schema = self._tables.histories, self._tables.history_schema
        if not histories:
            store = self._tables.store.shown
            raise UsageError(
                f"store {store}: no run has a history.parquet; run `harness check {store}` first, "
                "which makes it from the journal"
            )
        if self._tables.store.path is not None:
            ops = self._parquet(schema, histories)
            return ops.selectExpr(*_path_columns(FILE_PATH), *(f"`{n}`" for n in schema.names))
        # A bucket, for which Spark would need a jar that pyspark does not have.
        places = self._session.createDataFrame([(one.uri,) for one in histories], "uri string")
        files = places.selectExpr("uri", *_path_columns("uri")).toArrow().to_pylist()
        self._session.dataSource.register(BucketHistories)
        reader = self._session.read.format(BucketHistories.name())
        columns = from_arrow_schema(pa.unify_schemas([_PATH_SCHEMA, schema]))
        return reader.schema(columns).option("files", json.dumps(files, default=str)).load()

    def _parquet(self, schema: pa.Schema, files: Sequence[Location]) -> DataFrame:
        """Return rows of files of this machine, or of a directory that all machines share."""
        # Spark takes each path for a pattern.
        paths = [re.sub(r"([{}\[\]*?\\])", r"\\\1", str(file.path)) for file in files]
        # Without the option, a directory NAME=VALUE would become a column.
        reader = self._session.read.schema(from_arrow_schema(schema))
        return reader.option("recursiveFileLookup", "true").parquet(*paths)


def _path_columns(path: str) -> list[str]:
    return [f"{sql.format(path=path)} AS `{name}`" for name, sql in PATH_COLUMNS.items()]


def _missing_view(error: pyspark.errors.AnalysisException) -> str:
    """Return the name of the view or table that Spark did not find; "" if that is not the error."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return ""
    return (error.getMessageParameters() or {}).get("relationName", "").strip("`").lower()


class BucketHistories(DataSource):
    """The histories of a store that is not on a file system of Spark, read with pyarrow. The option
    `files` is a JSON list of objects: the URI of a file, and the columns that its path tells."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "harness-histories"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of all files."""
        return _BucketReader(json.loads(self.options["files"]), schema)


class _BucketReader(DataSourceReader):
    """Reads the files that may have rows that are asked for, each in a task of its own."""

    def __init__(self, files: Sequence[dict[str, Any]], schema: StructType) -> None:
        self._schema = to_arrow_schema(schema)
        self._files = [
            {**one, "date": one["date"] and date.fromisoformat(one["date"])} for one in files
        ]

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Leave out files by what their paths tell. Spark evaluates every filter again."""
        for one in filters:
            holds = _HOLDS.get(type(one))
            (name, *_), value = getattr(one, "attribute", ("",)), getattr(one, "value", None)
            if holds is not None and name in PATH_COLUMNS:
                known = [(file, file[name]) for file in self._files]
                self._files = [f for f, v in known if v is not None and holds(v, value)]
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return a task for each file."""
        return [InputPartition(file) for file in self._files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file. Raises HarnessError, which names it."""
        known: dict[str, Any] = partition.value
        try:
            with Location(known["uri"]).input() as stream:
                for batch in pq.ParquetFile(stream).iter_batches():
                    columns = [
                        pa.repeat(pa.scalar(known[field.name], field.type), len(batch))
                        if field.name in known
                        else batch.column(field.name).cast(field.type)
                        for field in self._schema
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except (OSError, KeyError, pa.ArrowException) as error:
            raise HarnessError(f"{known['uri']}: cannot be read: {error}") from error


_HOLDS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    In: lambda value, among: value in among,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
}
