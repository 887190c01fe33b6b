"""Lines of a node's log that are shown: those around the anomaly, and its warnings."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.report.node_logs import AROUND, LINES_MAX, excerpts

BEGIN = datetime(2026, 11, 20, 17, 45, 9, tzinfo=UTC)


def logged(directory: Path, every_ms: int, lines: int, grave: tuple[int, ...] = ()) -> Path:
    """Write a log with a line every so many ms; each third line continues without a date."""
    (directory / "ch1").mkdir(parents=True)
    with (directory / "ch1" / "clickhouse-server.log").open("w") as file:
        for i in range(lines):
            time = BEGIN + timedelta(milliseconds=i * every_ms)
            level = "Error" if i in grave else "Debug"
            file.write(f"{time:%Y.%m.%d %H:%M:%S.%f} [ 1 ] <{level}> line {i}\n")
            if i % 3 == 0:
                file.write(f"and more of line {i}\n")
    return directory


@pytest.mark.parametrize("at", [0, 1, 777, 5_000, 9_999])
def test_lines_around_a_moment(tmp_path: Path, at: int) -> None:
    logs = logged(tmp_path, every_ms=1, lines=10_000)
    (one,) = excerpts(logs, BEGIN + timedelta(milliseconds=at))
    shown = [line.text for line in one.lines]
    assert len(shown) == LINES_MAX
    assert any(line.endswith(f" line {at}") for line in shown)
    assert len(set(shown)) == len(shown)
    assert one.left_out > 0


def test_warnings_of_the_whole_time_are_among_them(tmp_path: Path) -> None:
    logs = logged(tmp_path, every_ms=1, lines=10_000, grave=(3_600, 6_400, 9_000))
    (one,) = excerpts(logs, BEGIN + timedelta(milliseconds=5_000))
    grave = [line.text.split()[-1] for line in one.lines if line.grave]
    assert grave == ["3600", "6400"]


def test_what_is_far_away_or_without_dates_is_not_shown(tmp_path: Path) -> None:
    logs = logged(tmp_path, every_ms=10, lines=100)
    (tmp_path / "ch1" / "stdout.log").write_text("Logging to a file\n")
    assert excerpts(logs, BEGIN + timedelta(hours=1)) == ()
    late = BEGIN + timedelta(milliseconds=990) + AROUND - timedelta(milliseconds=15)
    (one,) = excerpts(logs, late)
    assert [line.text for line in one.lines][-1:] == ["and more of line 99"]
    assert excerpts(tmp_path / "nothing", None) == ()


def test_without_a_moment_the_last_lines(tmp_path: Path) -> None:
    logs = logged(tmp_path, every_ms=1, lines=10_000)
    (one,) = excerpts(logs, None)
    assert one.lines[-1].text == "and more of line 9999"
    assert len(one.lines) == LINES_MAX


def test_what_is_said_of_every_query_and_what_repeats_gives_way(tmp_path: Path) -> None:
    """1,000 ms of queries, of refusals that are all the same, and of three events."""
    (tmp_path / "ch1").mkdir()
    with (tmp_path / "ch1" / "clickhouse-server.log").open("w") as file:
        for i in range(1_000):
            stamp = f"{BEGIN + timedelta(milliseconds=i):%Y.%m.%d %H:%M:%S.%f} [ {i % 7} ]"
            file.write(f"{stamp} {{0a-{i}}} <Debug> executeQuery: (from 1.2.3.4) SELECT {i}\n")
            if i % 4 == 0:
                file.write(f"{stamp} {{0b-{i}}} <Error> executeQuery: Code: 289, part {i}\n")
            if i in (10, 500, 990):
                file.write(f"{stamp} {{}} <Debug> t (ReplicatedMergeTreeQueue): Pulled {i}\n")
    (one,) = excerpts(tmp_path, BEGIN + timedelta(milliseconds=500))
    assert len(one.lines) == LINES_MAX
    assert [line.text[-3:] for line in one.lines if "Pulled" in line.text] == [" 10", "500", "990"]
    assert one.middle is not None
    assert [line.text[-8:] for line in one.lines[one.middle - 1 : one.middle + 3]] == [
        "part 496", "part 500", "lled 500", "part 504"
    ]  # fmt: skip
