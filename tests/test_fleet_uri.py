"""A store that is a URI: what is read and written there, and what is refused."""

import json
import os
from pathlib import Path

import fleet_cases as cases
import pytest
from click.testing import CliRunner
from test_user_store import moto  # noqa: F401  # a fixture

from harness.cli.check import check as command
from harness.core.bucket import Bucket
from harness.core.errors import UsageError
from harness.fleet.location import Location


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
