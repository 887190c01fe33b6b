"""A store's nights and verdicts travel as one file, and nothing else does."""

import io
import tarfile
from pathlib import Path

import fleet_cases as cases
import pytest

from harness.core.errors import UsageError
from harness.fleet.found_runs import found
from harness.fleet.location import Location
from harness.fleet.stored_runs import StoredRuns, check_fleet, verdicts_of
from harness.nights.findings import nights_before
from harness.nights.night import NIGHTS, Night
from harness.nights.packing import pack, restore
from harness.spec.workload_options import workload_of


def a_night(store: Path, stamp: str, *, over: bool = True) -> Path:
    path = store / NIGHTS / "smoke" / stamp
    night = Night.begun(path, {"started_utc": "2026-11-20T00:00:00+00:00"})
    night.say("begin", 0, cell="a", seed="0x1")
    if over:
        night.say("end")
    (path / "summary.json").write_text("{}")
    (path / "junit.xml").write_text("<xml/>")
    return path


def contents(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}


def test_nights_and_verdicts_travel_and_histories_do_not(tmp_path: Path) -> None:
    store, other, file = tmp_path / "store", tmp_path / "other", tmp_path / "nights.tar.gz"
    cases.run(store, "none", 1, cases.stale())
    check_fleet(found(store), StoredRuns(workload_of), cases.in_process)
    for stamp in ("1", "2", "3"):
        a_night(store, stamp)
    packed = pack(store, file, nights_max=2)
    assert (packed.nights, packed.kept) == (2, 0)
    restored = restore(other, file)
    assert (restored.nights, restored.files) == (2, packed.files)
    assert {name for name in contents(other) if name.startswith(NIGHTS)} == {
        f"{NIGHTS}/smoke/{stamp}/{name}"
        for stamp in "23"
        for name in ("journal.jsonl", "summary.json")
    }
    (judged,) = verdicts_of(Location.of(other), None).judged().values()
    assert judged.summary.status.value == "INVALID"
    assert not [name for name in contents(other) if "history" in name or "report" in name]
    again = restore(other, file)
    assert (again.files, again.kept) == (0, packed.files)


def test_a_night_that_was_not_over_is_not_resumed_where_its_runs_are_not(tmp_path: Path) -> None:
    store, other, file = tmp_path / "store", tmp_path / "other", tmp_path / "nights.tar.gz"
    path = a_night(store, "1", over=False)
    pack(store, file, nights_max=9)
    restore(other, file)
    assert Night.read(other / path.relative_to(store)).over
    assert not Night.read(path).over
    assert list(nights_before(other / NIGHTS / "smoke" / "2").records) == ["a"]


@pytest.mark.parametrize(
    "name",
    [
        "../outside", "/etc/passwd", f"{NIGHTS}/../run.json", f"{NIGHTS}/a/b/report.html",
        f"{NIGHTS}/../../x/journal.jsonl", "quorum-set+none/x/history.jsonl",
        "verdicts/rows/generation=1/../a.parquet",
    ],
)  # fmt: skip
def test_what_was_not_packed_is_refused_before_anything_is_written(
    name: str, tmp_path: Path
) -> None:
    file = tmp_path / "nights.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for entry in (tarfile.TarInfo("verdicts.json"), tarfile.TarInfo(name)):
            tar.addfile(entry, io.BytesIO())
    with pytest.raises(UsageError, match="expected a file of harness pack"):
        restore(tmp_path / "store", file)
    assert not (tmp_path / "store").exists()


def test_a_link_and_what_is_no_archive_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "nights.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        entry = tarfile.TarInfo("verdicts.json")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    for content in (file.read_bytes(), b"no archive", file.read_bytes()[:40]):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="expected a file of harness pack"):
            restore(tmp_path / "store", file)
    with pytest.raises(UsageError, match="no such file"):
        restore(tmp_path / "store", tmp_path / "lost")
