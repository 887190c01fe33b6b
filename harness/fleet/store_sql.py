"""Spark SQL about a store: its views, and what a query may do."""

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from math import inf
from time import monotonic
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark.errors  # isort: split

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame
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

from harness.core.errors import HarnessError, UsageError
from harness.core.ranges import quoted
from harness.fleet.location import Location
from harness.fleet.rows import SCHEMA as ROWS_SCHEMA
from harness.fleet.spark import Fleet  # first: its error says how to install pyspark
from harness.fleet.spark_errors import (
    USED_UP,
    exceeded_memory,
    last_error,
    sql_error,
    unreadable_file,
)
from harness.fleet.sql_limits import remove_functions, require_no_script
from harness.fleet.verdicts import runs_table
from harness.fleet.views import FILE_PATH, PATH_COLUMNS, RUN_PATH, SelectedRows, StoreTables

_PATH_SCHEMA: Final = pa.schema(
    [(name, pa.date32() if name == "date" else pa.string()) for name in PATH_COLUMNS]
)


class StoreSql:
    """Spark SQL over the views of a store, each of which is made when a query first names it."""

    def __init__(self, fleet: Fleet, tables: StoreTables) -> None:
        self._fleet, self._tables = fleet, tables
        self._session = fleet.session()
        self._removed = remove_functions(self._session)
        self._makers = {"runs": self._runs, "rows": self._rows, "ops": self._ops}
        self.views: list[str] = []
        """The views that were made."""

    def select(self, sql: str, limit: int, limit_s: float = inf) -> SelectedRows:
        """Return the first rows of a query. Raises UsageError if it cannot be answered, or does
        more than a query may; it is not executed then. Raises HarnessError after `limit_s`
        seconds."""
        statement = sql.strip().rstrip(";")
        end = monotonic() + limit_s

        def stop_late() -> None:
            if monotonic() > end:
                raise HarnessError(
                    f"SQL: the query was cancelled after {limit_s:g} s without an answer; narrow "
                    "it, for instance by a condition on cell or date, or give a longer --time-limit"
                )

        return self._fleet.attend(lambda: self._select(statement, limit), stop_late)

    def frame(self, sql: str) -> DataFrame:
        """Return a query that Spark has analysed, and not run. Raises what Spark raises, and
        UsageError for a statement that is no query."""
        self._require_query(sql)
        while True:
            try:
                frame = self._session.sql(sql)
                require_no_script(frame)
                return frame
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
        except (pyspark.errors.PySparkException, Py4JError, ConnectionError) as error:
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
        exceeded = exceeded_memory(text)
        # An error that has no exception of Java's in it: the JVM does not answer.
        gone = not isinstance(error, pyspark.errors.PySparkException | Py4JJavaError)
        if exceeded is None and gone and self._fleet.ran_out_of_memory():
            exceeded = USED_UP
        if exceeded is not None:
            return HarnessError(
                f"SQL: {exceeded}; select fewer columns, aggregate, give a lower --limit, or start "
                "harness by spark-submit with a higher figure"
            )
        of_task = isinstance(error, pyspark.errors.PythonException)  # of BucketHistories
        if of_task or not isinstance(error, pyspark.errors.PySparkException):
            return HarnessError(f"Spark gave up: {last_error(text)}; see {self._fleet.log}")
        routine = (error.getMessageParameters() or {}).get("routineName", "")
        name = routine.rpartition(".")[2].strip("`").lower()
        said = (
            f"{name} is refused, because it may call code or open files"
            if name in self._removed
            else sql_error(text, [one.fragment() for one in error.getQueryContext()])
        )
        if not isinstance(error, pyspark.errors.AnalysisException):  # of values, not of the query
            return UsageError(f"SQL: {said}")
        views = "; ".join(
            f"{view} ({', '.join(self._tables.columns(view))})"
            for view in self.views or self._makers
        )
        return UsageError(f"SQL: {said}; expected a query of the views {views}")

    def _runs(self) -> DataFrame:
        self._tables.require_verdicts()
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
