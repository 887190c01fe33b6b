"""Nights, trends, the table of settings, causes of a difference, and links of a report."""

import json
from datetime import timedelta
from pathlib import Path

from markupsafe import escape
from report_cases import WHEN, finished, sound, stale
from test_web_attacks import served
from test_web_pages import asked

from harness.core.history import History
from harness.nights.night import NIGHTS, Night
from harness.report.run_files import facts_in
from harness.run.rates import Share, percent
from harness.store.store import RunDirectory, Store
from harness.web.app import cell_url, night_url, run_url
from harness.web.diff import causes_of
from harness.web.matrix import heat_map_of
from harness.web.nights import Nights
from harness.web.runs import Query, Runs
from harness.web.trends import settings_table, trends

CELLS = {"quorum-set (server) + partition": stale, "quorum-set (plain) + none": sound}
MODES = {"insert": "quorum", "quorum": "2", "read": "sequential"}


def a_run(store: Path, ops: History, seed: int, night: int) -> RunDirectory:
    when = WHEN + timedelta(days=night)
    return finished(store, ops, seed=seed, when=when, workload_options=MODES)


def text(address: str, path: str) -> str:
    status, body = asked(address, path)
    assert status == 200, path
    return body.decode()


def two_nights(store: Path) -> None:
    """Store two nights of two cells; in the second the cell that was INVALID is VALID."""
    for night in (0, 1):
        path = store / NIGHTS / "m" / f"2026112{night}T000000000000Z"
        began = Night.begun(path, {"matrix": "x", "started_utc": f"2026-11-2{night}T00:00:00"})
        for number, (cell, ops) in enumerate(CELLS.items()):
            history = ops() if night == 0 else sound()
            run = a_run(store, history, 10 * night + number, night)
            name = f"{run.path.parent.name}/{run.path.name}"
            status = json.loads(run.results_file.read_text())["status"]
            invalid = status == "INVALID"
            began.say("begin", number, cell=cell, seed=f"{number:#x}")
            began.say("directory", number, path=name)
            began.say("recorded", number, troubles=[], seconds=1.0)
            began.say("judged", number, status=status, reason="", kinds=["stale"] * invalid,
                      first_ns=960_000_000 if invalid else None)  # fmt: skip
        began.say("end")


def test_a_trend_has_rates_and_kinds_that_are_new_and_gone(tmp_path: Path) -> None:
    two_nights(tmp_path)
    (tmp_path / NIGHTS / "m" / "20261119T000000000000Z").symlink_to(tmp_path / NIGHTS / "m")
    views = Nights(Store(tmp_path)).all()
    assert [view.word for view in views] == ["INVALID", "VALID"]
    assert views[1].lost == ("quorum-set (server) + partition: unexplained stale",)
    assert views[1].new == ()
    plain, server = trends(views, {run.name: run for run in Runs(Store(tmp_path)).all()})
    assert server.version == "18.16.1"
    assert [(point.hits, point.tries) for point in server.points] == [(1, 1), (0, 1)]
    assert server.total.text == "50 % (1.3–99 %)"
    assert (server.unseen, server.first_s) == (("unexplained stale",), 0.96)
    assert plain.total.more_needed == 367 - 1
    assert [percent(0.0053), percent(0.999), Share(0, 0).text] == ["0.53 %", "100 %", "–"]


def test_the_table_of_settings_counts_stale_reads(tmp_path: Path) -> None:
    two_nights(tmp_path)
    (row,) = settings_table(Runs(Store(tmp_path)).all())
    assert (row.insert, row.quorum, row.read, row.version) == (
        "quorum",
        "2",
        "sequential",
        "18.16.1",
    )
    assert (row.invalid, row.stale_runs) == (Share(1, 4), Share(1, 4))
    assert row.inserts == Share(1, 3 * 14 + 2)
    assert row.max_ms == 900.0


def test_pages_of_nights_lead_to_each_other(tmp_path: Path) -> None:
    two_nights(tmp_path)
    with served(tmp_path) as address:
        nights = text(address, "/nights")
        assert "/night/m/20261120T000000000000Z" in nights
        assert "50 % (1.3–99 %)" in nights
        night = text(address, "/night/m/20261121T000000000000Z")
        assert "not seen again: unexplained stale" in night
        assert "/night/m/20261120T000000000000Z" in night
        assert asked(address, "/night/m/..%2fx")[0] == 404
        assert asked(address, "/night/m/20261119T000000000000Z")[0] == 404
        assert "sequential" in text(address, "/staleness")
        assert asked(address, "/settings")[0] == 307


def judged(night: Night, number: int, defect: str = "") -> None:
    """Append a run that is VALID, or INVALID by a known defect."""
    night.say("begin", number, cell="c", seed="0x1")
    night.say("directory", number, path=f"c/{number}")
    night.say("recorded", number, troubles=[], seconds=1.0)
    known = {"name": defect, "since": "24.8", "count": 1, "evidence": "read 1"}
    cause = {"status": "known", "defects": [known], "unexplained": []} if defect else None
    status, kinds = ("INVALID", ["stale"]) if defect else ("VALID", [])
    night.say(
        "judged", number, status=status, reason="", kinds=kinds, first_ns=None, cause=cause
    )  # fmt: skip


def test_what_is_accepted_and_gone_differs_from_what_one_night_did_not_see(tmp_path: Path) -> None:
    accept = {"accept": {"c": ["stale-read"]}}
    for day, runs in enumerate((["stale-read"] * 4, ["skipped-part"] + 7 * [""], [""])):
        path = tmp_path / NIGHTS / "m" / f"2026112{day}T000000000000Z"
        night = Night.begun(path, {"started_utc": f"2026-11-2{day}T00:00:00", **accept})
        for number, defect in enumerate(runs):
            judged(night, number, defect)
        night.say("end")
    first, second, third = Nights(Store(tmp_path)).all()
    assert first.lost == ()
    assert second.lost == ("c: stale-read (gone)",)
    assert third.lost == ("c: stale-read (gone), skipped-part",)
    with served(tmp_path) as address:
        page = text(address, night_url(third.name))
        assert "accepted and gone: stale-read" in page
        assert "not seen again: skipped-part" in page
        assert "1 run</summary>" in page


def test_a_run_that_goes_on_counts_as_nothing_yet(tmp_path: Path) -> None:
    path = tmp_path / NIGHTS / "m" / "20261120T000000000000Z"
    night = Night.begun(path, {"started_utc": "2026-11-20T00:00:00"})
    judged(night, 0)
    night.say("begin", 1, cell="c", seed="0x2")
    night.say("directory", 1, path="c/1")
    (view,) = Nights(Store(tmp_path)).all()
    assert (view.word, view.waiting, len(view.slots)) == ("VALID", 1, 1)
    with served(tmp_path) as address:
        assert "not over, 1 run without a verdict yet" in text(address, night_url(view.name))
    night.say("end")
    (view,) = Nights(Store(tmp_path)).all()
    assert (view.word, view.waiting, len(view.slots)) == ("UNKNOWN", 0, 2)


def test_a_cell_leads_to_the_list_of_its_runs(tmp_path: Path) -> None:
    two_nights(tmp_path)
    runs = Runs(Store(tmp_path)).all()
    (url,) = {cell_url(run) for run in runs}
    with served(tmp_path) as address:
        for page in ("/nights", "/night/m/20261121T000000000000Z"):
            link = f'<a href="{escape(url)}">quorum-set (server) + partition</a>'
            assert link in text(address, page)
        assert f"{len(runs)} of {len(runs)} runs" in text(address, url)
        night = night_url("m/20261121T000000000000Z")
        assert f'<a href="{night}">m 2026-11-21 00:00:00</a>' in text(address, "/matrix")


def test_the_list_says_how_many_calls_a_run_made_and_how_long_they_took(tmp_path: Path) -> None:
    for number, ops in enumerate((stale(), sound())):
        finished(tmp_path, ops, seed=number)
    few, many = Query(sort="calls").chosen(Runs(Store(tmp_path)).all())
    assert (few.calls, many.calls) == (9, 30)
    assert many.took_s == 0.291
    with served(tmp_path) as address:
        page = text(address, "/")
    assert f'data-label="calls">{many.calls}</td>' in page
    assert f'data-label="took">{many.took_s:.0f} s</td>' in page


def test_a_report_leads_to_its_night_its_neighbours_and_its_logs(tmp_path: Path) -> None:
    two_nights(tmp_path)
    store = Store(tmp_path)
    names = [run.name for run in sorted(Runs(store).all(), key=lambda run: (run.started, run.name))]
    log = tmp_path / names[0] / "logs" / "ch1" / "clickhouse-server.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026.11.20 17:45:09.900000 <Error> one\n")
    (log.parent / "out.log").symlink_to("/etc/passwd")
    with served(tmp_path) as address:
        page = text(address, run_url(names[0]))
        assert "/night/m/20261120T000000000000Z" in page
        assert "4 runs of this cell" in page
        assert f'href="{run_url(names[1])}" rel="next"' in page
        url = f"{run_url(names[0])}/logs/ch1/clickhouse-server.log"
        assert f'href="{url}"' in page
        assert text(address, url) == log.read_text()
        for other in ("out.log", "none.log", "..%2f..%2frun.json"):
            assert asked(address, f"{run_url(names[0])}/logs/ch1/{other}")[0] == 404


def test_causes_come_before_counters(tmp_path: Path) -> None:
    left = finished(tmp_path, stale(), seed=1)
    right = finished(tmp_path, sound(), seed=2, nemesis="none", workload_options={"keys": 2})
    causes = causes_of(facts_in(left), facts_in(right))
    assert [(line.name, line.left, line.right) for line in causes.settings] == [
        ("nemesis", "partition", "none"), ("keys", "–", "2")
    ]  # fmt: skip
    assert (causes.first_fault, causes.faults[0].right) == (1, "–")
    assert "partition {ch2 | ch1 ch3}" in causes.faults[0].left
    assert causes.first_call is not None
    assert causes.first_call[0] == 4


def test_a_cell_shows_first_what_no_known_defect_explains(tmp_path: Path) -> None:
    """An INVALID run that known defects explain is KNOWN, whatever its number of anomalies."""
    explained = {"status": "known", "defects": [{"name": "stale-read"}], "unexplained": []}
    for seed, cause in ((1, explained), (2, None), (3, explained)):
        run = a_run(tmp_path, stale(), seed, 0)
        results = json.loads(run.results_file.read_text())
        run.results_file.write_text(json.dumps({**results, "explanation": cause}))
    known, unexplained, other = sorted(Runs(Store(tmp_path)).all(), key=lambda run: run.seed)
    assert [run.outcome for run in (known, unexplained, other)] == ["KNOWN", "INVALID", "KNOWN"]
    (cell,) = heat_map_of([known, unexplained, other]).cells.values()
    assert (cell.worst, dict(cell.counts)) == ("INVALID", {"INVALID": 1, "KNOWN": 2})
    (cell,) = heat_map_of([known, other]).cells.values()
    assert (cell.worst, cell.share) == ("KNOWN", 1.0)
    assert Query(status="KNOWN").fits(known)
    assert Query(status="INVALID").fits(known)
    assert not Query(status="KNOWN").fits(unexplained)
