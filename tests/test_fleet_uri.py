"""A store that is a URI: what is read and written there, and what is refused."""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import fleet_cases as cases
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from test_user_store import moto  # noqa: F401  # a fixture

from harness.cli.check import check as command
from harness.cli.query import query
from harness.core.bucket import Bucket
from harness.core.errors import HarnessError, UsageError
from harness.fleet.location import Location
from harness.fleet.spark import Fleet
from harness.fleet.verdicts import Verdicts


def put(directory: Path, place: Location) -> None:
    """Copy a store from this machine to a location."""
    for path in directory.rglob("*"):
        if path.is_file():
            with place.below(*path.relative_to(directory).parts).output() as out:
                out.write(path.read_bytes())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://me:hunter2@bucket/store", "the URI names a user; expected one without"),
        ("s3://bucket/store?endpoint_override=h:9", "is taken from AWS_ENDPOINT_URL"),
    ],
)
def test_a_uri_with_secrets_or_options_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Location.of(text)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_path_is_a_uri_and_back(tmp_path: Path) -> None:
    place = Location.of(tmp_path).below("quorum-set+kill", "50%+ #1")
    assert place.uri.startswith("file:///")
    assert place.path == tmp_path / "quorum-set+kill" / "50%+ #1"
    assert place.name == "50%+ #1"
    with place.output() as out:
        out.write(b"all")
    assert [file.name for file in Location.of(tmp_path).files()] == ["quorum-set+kill/50%+ #1"]
    with pytest.raises(TypeError), place.output() as out:
        out.write([b"half", None])
    assert place.read() == b"all"


def check(*words: str) -> tuple[int, dict]:
    done = CliRunner().invoke(
        command, [*words, "--json"], catch_exceptions=False, standalone_mode=False
    )
    return done.return_value, json.loads(done.stdout)


@pytest.mark.containers
def test_a_store_in_a_bucket_is_judged_there(
    tmp_path: Path,
    moto: Bucket,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [cases.run(tmp_path, "none", 1, cases.sound(), journal=True)]
    runs += [cases.run(tmp_path, "kill", 2, cases.stale())]
    runs[0].journal.write_bytes(runs[0].journal.read_bytes()[:-1])  # so that the journal decides
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.server)
    place = Location.of(f"s3://{moto.name}/nights")
    put(tmp_path, place)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.unlink()  # nothing is taken from here

    status, report = check(place.uri)
    assert (status, report["judged"]) == (1, 2)
    assert report["statuses"] == {"VALID": 1, "UNKNOWN": 0, "INVALID": 1}
    assert report["verdicts"] == f"{place.uri}/verdicts"
    names = {file.name.split("/")[0] for file in place.files()}
    assert names == {"quorum-set+none", "quorum-set+kill", "verdicts", "verdicts.json"}
    folder = check(f"{place.uri}/quorum-set+kill")[1]
    assert (folder["runs"], folder["unchanged"]) == (1, 1)
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in place.below("verdicts.json").read().decode()
    with place.below(runs[1].path.parent.name, runs[1].path.name, "history.parquet").output() as o:
        o.write(b"no longer")
    assert check(place.uri)[1]["statuses"] == {"VALID": 1, "UNKNOWN": 1, "INVALID": 0}


@pytest.mark.containers
def test_a_store_in_a_bucket_is_asked_there(
    tmp_path: Path,
    moto: Bucket,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases.run(tmp_path, "none", 1, cases.sound(2))
    broken = cases.run(tmp_path, "kill", 2, cases.stale())
    check(f"{tmp_path}/")
    broken.parquet_file.write_bytes(b"no Parquet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto.server)
    place = Location.of(f"s3://{moto.name}/nights")
    put(tmp_path, place)
    (local,) = (tmp_path / "quorum-set+none").glob("2*")
    sql = """
        WITH o AS (
            SELECT run, seed, count(*) AS ops, count_if(key = 1) AS of_key, max(`values`) AS most
            FROM ops WHERE cell = 'quorum-set+none' AND date >= '2020-01-01' GROUP BY run, seed),
        v AS (SELECT run, count(*) AS verdicts FROM rows GROUP BY run)
        SELECT run, o.seed, ops, of_key, most, verdicts, status
        FROM o JOIN v USING (run) JOIN runs USING (run)"""

    @contextmanager
    def shared(*_: object) -> Iterator[Fleet]:
        yield fleet

    monkeypatch.setattr("harness.cli.query.spark_fleet", shared)
    with closing(Fleet("local[2]", tmp_path / "log" / "spark.log")) as fleet:
        words = [place.uri, sql, "--json"]
        done = CliRunner().invoke(query, words, catch_exceptions=False, standalone_mode=False)
        with pytest.raises(HarnessError, match=r"HarnessError: s3://.*\+kill/.*: cannot be read"):
            query.main([place.uri, "SELECT count(f) FROM ops"], standalone_mode=False)
    (result,) = json.loads(done.stdout)["results"]
    history = pq.read_table(local / "history.parquet")
    verdicts = Verdicts(Location.of(tmp_path / "verdicts"))
    name = f"quorum-set+none/{local.name}"
    assert result["rows"] == [
        {
            "run": name,
            "seed": "0x1",
            "ops": len(history),
            "of_key": history["key"].to_pylist().count(1),
            "most": list(range(20)),
            "verdicts": len(verdicts.rows({name})),
            "status": "VALID",
        }
    ]
