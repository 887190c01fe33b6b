"""report.html in a real browser: it tells the story, it obeys, and it believes no text."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from checkers_cases import fault, history, insert, read
from report_browser import in_view, matches, matching, opened, row_at
from report_cases import LONG_LABEL, NASTY, SHOWN, begun, finished, long, onset, sound, stale
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from sim_play import play

from checkers.judge import Judgement, judge, judgement_of
from checkers.ladder import Level, ladder_of
from checkers.suite import set_checkers
from harness.core.history import History
from harness.core.op import Kind, Op, Value
from harness.core.verdict import Anomaly, Status, Verdict
from harness.report.run_files import draw


def span(browser: Chrome) -> float:
    canvas = browser.find_element(By.ID, "canvas")
    return float(canvas.get_attribute("data-to") or 0) - float(
        canvas.get_attribute("data-from") or 0
    )


def test_a_violation_is_told_in_three_sentences_and_a_picture(
    browser: Chrome, tmp_path: Path
) -> None:
    text = opened(browser, finished(tmp_path, stale()))
    assert text.startswith("✗ INVALID\nquorum-set under partition")
    story = [li.text for li in browser.find_elements(By.CSS_SELECTOR, ".story li")]
    assert story == [
        "ch1 acknowledged the insert of 2 into key 0 at 0.060 s, during partition {ch2 | ch1 ch3}.",
        "A read on ch2 that began 900 ms later, at 0.960 s, during partition "
        "{ch2 | ch1 ch3}, returned 1 value without 2.",
        "That breaks linearizable (a read returns every value acknowledged before it began); "
        "sequential held.",
    ]
    wrong = browser.find_element(By.CSS_SELECTOR, ".bar.wrong")
    assert "missing here: 2" in wrong.text
    ok = browser.find_element(By.CSS_SELECTOR, ".bar.ok:not(.wrong)")
    assert "acknowledged here" in ok.text
    assert ok.location["x"] < wrong.location["x"]
    assert browser.find_element(By.CSS_SELECTOR, ".band").text.endswith("{ch2 | ch1 ch3} →")
    assert browser.find_element(By.CSS_SELECTOR, ".shaded .unverified").size["width"] == 0
    rungs = [
        li.text.split("\n")[0] for li in browser.find_elements(By.CSS_SELECTOR, ".ladder li b")
    ]
    assert rungs == ["linearizable", "sequential", "session", "eventual"]
    assert browser.find_element(By.CSS_SELECTOR, ".ladder .invalid .word").text == "violated"
    assert len(browser.find_elements(By.CSS_SELECTOR, ".ladder .promise")) == 1
    assert "harness run --nemesis partition --seed 0x5eed" in text
    assert "exactly the cut ones are dead" in text


def test_filters_search_zoom_and_clicks(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, finished(tmp_path, stale()))
    matches(browser, "9 of 9 calls")
    form = {e.get_attribute("name"): e for e in browser.find_elements(By.CSS_SELECTOR, "[name]")}
    Select(form["kind"]).select_by_visible_text("info")
    matches(browser, "1 of 9 calls")
    (row,) = in_view(browser, "1 call in view")
    assert row.split()[-3:] == ["0", "3", "info"]
    Select(form["kind"]).select_by_visible_text("all")
    Select(form["node"]).select_by_visible_text("ch2")
    matches(browser, "4 of 9 calls")
    form["process"].send_keys("4")
    matches(browser, "1 of 9 calls")
    browser.find_element(By.CSS_SELECTOR, "[type=reset]").click()
    matches(browser, "9 of 9 calls")

    form["value"].send_keys("2")
    matches(
        browser,
        "value 2: in 4 calls; missing from 1 read begun after its acknowledgement, "
        "and rightly not in 1 begun before that",
    )
    form["value"].send_keys(Keys.BACKSPACE)
    form["key"].send_keys("7")
    matches(browser, "0 of 9 calls")
    form["key"].send_keys(Keys.BACKSPACE)

    whole = span(browser)
    browser.find_element(By.CSS_SELECTOR, "[data-zoom=in]").click()
    WebDriverWait(browser, 5).until(lambda b: span(b) < whole * 0.6)
    canvas = browser.find_element(By.ID, "canvas")
    canvas.send_keys("0")
    WebDriverWait(browser, 5).until(lambda b: span(b) == whole)
    wheel = ScrollOrigin.from_element(canvas)
    ActionChains(browser).scroll_from_origin(wheel, 0, -400).perform()
    WebDriverWait(browser, 5).until(lambda b: span(b) < whole * 0.6)
    browser.find_element(By.ID, "to-anomaly").click()
    WebDriverWait(browser, 5).until(
        lambda _: (
            float(canvas.get_attribute("data-from") or 0) < 10_000
            and float(canvas.get_attribute("data-to") or 0) > 964_000
        )
    )
    before = canvas.get_attribute("data-from")
    ActionChains(browser).drag_and_drop_by_offset(canvas, -120, 0).perform()
    WebDriverWait(browser, 5).until(lambda _: canvas.get_attribute("data-from") != before)

    browser.find_element(By.CSS_SELECTOR, "[data-zoom=fit]").click()
    in_view(browser, "9 calls")
    rows = browser.find_elements(By.CSS_SELECTOR, "#list tbody tr")
    next(row for row in rows if "3 values" in row.text).click()
    assert "3 values: 1 2 3" in browser.find_element(By.ID, "detail").text


CALLS_BY_TONE = """
    const [values, tone, done] = arguments;
    Calls.decode(document.getElementById("calls").textContent).then((calls) => done(values.map(
      (value) => [...calls.classify(value)].flatMap((own, call) => own === tone ? [call] : []))));
"""
"""Calls that get a certain tone, for each of some searched values."""
HIDDEN, HOLDS, LACKS, NOT_DUE = 0, 4, 5, 6


def test_a_search_marks_only_the_reads_that_must_have_the_value(
    browser: Chrome, tmp_path: Path
) -> None:
    """A read of another key, one that ended before the insert began, one during it, one that
    begins at the nanosecond of the acknowledgement, two after it; and a value without an answer."""
    ops = history(
        read(1, [], 1, 2, node="ch2", key=0),
        insert(0, 4, 10, 20, key=0),
        read(1, [], 12, 14, node="ch2", key=0),
        read(2, [], 20, 22, node="ch3", key=0),
        read(1, [], 20.000001, 23, node="ch2", key=0),
        read(3, [], 30, 31, node="ch3", key=1),
        read(2, [4], 40, 41, node="ch3", key=0),
        read(1, [], 42, 43, node="ch2", key=0),
        insert(4, 5, 50, 60, "info", key=1),
        read(1, [], 70, 71, node="ch2", key=1),
    )
    opened(browser, finished(tmp_path, ops))
    found = {
        tone: browser.execute_async_script(CALLS_BY_TONE, ["4"], tone)[0]
        for tone in (HIDDEN, HOLDS, LACKS, NOT_DUE)
    }
    assert found == {HIDDEN: [5, 8, 9], HOLDS: [1, 6], LACKS: [4, 7], NOT_DUE: [0, 2, 3]}
    browser.find_element(By.NAME, "value").send_keys("4")
    matches(
        browser,
        "value 4: in 2 calls; missing from 2 reads begun after its acknowledgement, "
        "and rightly not in 3 begun before that",
    )
    browser.find_element(By.NAME, "value").send_keys(Keys.BACKSPACE, "5")
    matches(browser, "value 5: in 1 call; never acknowledged")
    browser.find_element(By.NAME, "value").send_keys(Keys.BACKSPACE, "6")
    matches(browser, "value 6: in 0 calls; never inserted")


def test_a_search_finds_the_stale_reads_that_set_full_counts(
    browser: Chrome, tmp_path: Path
) -> None:
    """The run is simulated: its calls often begin at the moment when another one ends."""
    ops = play(3, "partition-pair", read="plain", insert="plain", time_limit_s=6.0).outcome.history
    (verdict,) = [
        verdict
        for verdict in judge(
            ops, set_checkers(Level.LINEARIZABLE, faults_expected=False), 60, "linearizable"
        ).verdicts
        if verdict.checker == "set-full"
    ]
    opened(browser, finished(tmp_path, ops))
    values = [str(pair.invoke.value) for pair in ops.pairs if pair.invoke.f == "insert"]
    lacking = browser.execute_async_script(CALLS_BY_TONE, values, LACKS)
    assert verdict.figures["stale_reads"] == len(set().union(*lacking)) > 50
    assert verdict.figures["missed"] == sum(map(bool, lacking)) > 10


LINES = """
    const [name, node, done] = arguments;
    Calls.decode(document.getElementById("calls").textContent).then((calls) => {
      const fits = (n) => Number(!node || calls.names.node[n] === node);
      const shown = Uint8Array.from(calls.node, fits);
      const axis = { from: 0, to: 1_000_000 };
      const { first, width, lines } = linesOf(name, { calls, shown, axis });
      done([first, width, Object.fromEntries(lines.map((line) => [line.label, line.values]))]);
    });
"""
"""The first bin, its width in µs, and the values of each line of a chart over the first second."""


def test_charts_follow_rate_and_latency_in_slices_of_time(browser: Chrome, tmp_path: Path) -> None:
    """The run takes 2 s, so that its slices are whole parts of it: 24 of 83 ms. The call that never
    ended is in none, and that of 1.5 s not in view."""
    ops = history(
        *(insert(0, n, 100 + 10 * n, 101 + 11 * n) for n in range(3)),
        insert(1, 7, 100, 130, "fail"),
        read(2, [1], 300, 310, node="ch2"),
        insert(1, 8, 400, 500, "info", node="ch2"),
        insert(3, 9, 600, None, "info", node="ch3"),
        read(2, [1], 1500, 2000, node="ch2"),
    )
    opened(browser, finished(tmp_path, ops))

    def lines(name: str, node: str = "") -> Mapping[str, Mapping[int, float]]:
        """Return the values that are there, by slice."""
        first, width_us, found = browser.execute_async_script(LINES, name, node)
        assert (first, round(width_us)) == (0, 83_333)
        return {
            label: {at: round(value, 6) for at, value in enumerate(values) if value}
            for label, values in found.items()
        }

    assert lines("rate") == {"ok": {1: 36, 3: 12}, "fail": {1: 12}, "info": {6: 12}}
    assert lines("rate", "ch2") == {"ok": {3: 12}, "info": {6: 12}}
    assert lines("medians") == {
        "insert ok": {1: 2e6}, "insert fail": {1: 30e6}, "insert info": {6: 100e6},
        "read ok": {3: 10e6},
    }  # fmt: skip
    assert lines("quantiles") == {
        "median": {1: 2e6, 3: 10e6},
        **{label: {1: 3e6, 3: 10e6} for label in ("95 %", "99 %", "max")},
    }
    drawn = {
        canvas.get_attribute("id"): canvas.get_attribute("data-lines")
        for canvas in browser.find_elements(By.CSS_SELECTOR, "canvas.chart")
    }
    assert drawn == {
        "scatter": None, "rate": "ok, fail, info", "quantiles": "median, 95 %, 99 %, max",
        "medians": "insert ok, insert fail, insert info, read ok",
    }  # fmt: skip


def test_what_is_seen_is_in_the_address_and_comes_back(browser: Chrome, tmp_path: Path) -> None:
    run = finished(tmp_path, stale())
    searched = (
        "value 2: in 1 call; missing from 1 read begun after its acknowledgement, "
        "and rightly not in 1 begun before that"
    )
    opened(browser, run)
    form = {e.get_attribute("name"): e for e in browser.find_elements(By.CSS_SELECTOR, "[name]")}
    Select(form["node"]).select_by_visible_text("ch2")
    form["value"].send_keys("2")
    browser.find_element(By.ID, "to-anomaly").click()
    matches(browser, searched)
    canvas = browser.find_element(By.ID, "canvas")
    canvas.send_keys("n")
    canvas.send_keys("n")
    WebDriverWait(browser, 5).until(lambda b: "op=12" in b.current_url)
    seen = browser.current_url.partition("#")[2]
    assert seen.startswith("node=ch2&value=2&view=")
    browser.get("about:blank")
    browser.get(f"{run.report.as_uri()}#{seen}")
    matches(browser, searched)
    assert "#12 to #13\n" in browser.find_element(By.ID, "detail").text
    assert browser.find_element(By.ID, "canvas").get_attribute("data-from") != "0"
    browser.find_element(By.CSS_SELECTOR, "#filters [type=reset]").click()
    matches(browser, "9 of 9 calls")
    WebDriverWait(browser, 5).until(lambda b: "node=" not in b.current_url)


def test_filters_that_fit_nothing_say_so(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, finished(tmp_path, stale()))
    browser.find_element(By.NAME, "process").send_keys("77")
    matches(browser, "0 of 9 calls")
    browser.find_element(By.CSS_SELECTOR, "#none button").click()
    matches(browser, "9 of 9 calls")


def test_a_fault_is_hatched_from_its_invocation_until_it_was_verified(
    browser: Chrome, tmp_path: Path
) -> None:
    """Its label stays in the picture, however long it is."""
    opened(browser, finished(tmp_path, onset()))
    story = [li.text for li in browser.find_elements(By.CSS_SELECTOR, ".story li")]
    assert story[1] == (
        "A read on ch2 that began 900 ms later, at 0.960 s, while partition-keeper-follower "
        f"{LONG_LABEL} was being injected (verified at 0.980 s), returned 1 value without 2."
    )

    def box(selector: str) -> tuple[float, float]:
        found = browser.find_element(By.CSS_SELECTOR, selector).rect
        return found["x"], found["x"] + found["width"]

    picture, read_, hatched = box(".witness svg"), box(".bar.wrong rect"), box(".unverified")
    assert hatched[0] < read_[0] < hatched[1] < read_[1]
    assert box(".verified")[0] == pytest.approx(hatched[1], abs=1)
    label = box(".band span")
    assert picture[0] <= label[0] < label[1] <= picture[1] + 1
    (row,) = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#h-faults ~ * tbody tr")]
    assert "0.900 s 0.980 s 1.500 s" in row


def test_where_it_is_narrow_time_goes_down(browser: Chrome, tmp_path: Path) -> None:
    whole = browser.get_window_size()
    browser.set_window_size(500, 900)
    try:
        opened(browser, finished(tmp_path, stale()))
        rows = [row.text.split("\n") for row in browser.find_elements(By.CSS_SELECTOR, ".rails li")]
        assert not browser.find_element(By.CSS_SELECTOR, "figure.wide").is_displayed()
        assert [row[-1] for row in rows if "process" in row[-2:][0]] == [
            "insert 2 #6", "acknowledged here #8", "read → 1 value #12", "missing here: 2 #13"
        ]  # fmt: skip
        overflow = "return document.documentElement.scrollWidth - innerWidth"
        assert browser.execute_script(overflow) <= 0
    finally:
        browser.set_window_size(whole["width"], whole["height"])


def test_a_click_on_the_canvas_shows_the_call(browser: Chrome, tmp_path: Path) -> None:
    opened(browser, finished(tmp_path, history(insert(0, 7, 0, 100), read(0, [7], 100, 200))))
    canvas = browser.find_element(By.ID, "canvas")
    left = -canvas.size["width"] / 2 + 54
    at = left + (canvas.size["width"] - 58) * 0.3
    height = canvas.size["height"]
    ActionChains(browser).move_to_element_with_offset(
        canvas, at, -height / 2 + 42
    ).click().perform()
    assert "insert" in browser.find_element(By.ID, "detail").text


@pytest.mark.parametrize("kind", ["valid", "unknown", "killed", "crashed", "no history", "broken"])
def test_it_is_drawn_whatever_became_of_the_run(browser: Chrome, tmp_path: Path, kind: str) -> None:
    if kind in ("valid", "unknown"):
        run = finished(tmp_path, sound(), least=10 if kind == "valid" else 1_000)
    else:
        run = begun(tmp_path, stale())
    if kind == "crashed":
        run.crash(f"ClusterError: {NASTY}")
    if kind == "no history":
        run.journal.unlink()
    if kind == "broken":
        run.journal.write_bytes(run.journal.read_bytes()[:-20] + b"x\n")
        run.results_file.write_text('{"status": "GREAT", "ladder": 7}')
    text = opened(browser, run)
    expected = {
        "valid": ("✓ VALID", "Every level up to linearizable held."),
        "unknown": ("? UNKNOWN", "14 ok calls of insert, at least 1,000 expected"),
        "killed": ("! CRASHED", "The harness process is gone and left no reason"),
        "crashed": ("! CRASHED", f"The harness itself failed: ClusterError: {SHOWN}"),
        "no history": ("! CRASHED", "history.jsonl: cannot be read: No such file"),
        "broken": ("! CRASHED", "not the results of a judgement"),
    }[kind]
    assert text.startswith(expected[0])
    assert expected[1] in text
    if kind == "unknown":
        words = [word.text for word in browser.find_elements(By.CSS_SELECTOR, ".ladder .word")]
        assert set(words) == {"not violated"}
    if kind == "broken":
        assert "is not an op" in text


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    run = begun(tmp_path, stale())
    assert not run.alive
    with run.held():
        assert run.alive
        assert draw(run) is None
        assert "RUNNING" in run.report.read_text()
    assert not run.alive


def test_text_from_outside_stays_text(browser: Chrome, tmp_path: Path) -> None:
    """Everything that a database, a file name or a user may have put there."""
    ops = history(
        insert(0, 1, 1, 4, node=NASTY),
        fault(5, 40, text=NASTY, name=NASTY),
        insert(1, 2, 5, 6, "fail", node="$\\alpha$ch2", error=NASTY),
        read(2, [], 10, 20, node="ch2", f=NASTY),
        read(3, [], 10, 20, node="ch2"),
    )
    run = finished(tmp_path, ops, workload=NASTY, nemesis=NASTY, workload_options={NASTY: NASTY},
                   version=NASTY)  # fmt: skip
    logs = run.logs / "ch1"
    logs.mkdir(parents=True)
    (logs / f"a{chr(0x202E)}<b>.log").write_bytes(
        f"2026.11.20 17:45:09.011 <Error> {NASTY}\n".encode() + b"\xff\xfe not UTF-8\n"
    )
    text = opened(browser, run)
    assert browser.title.startswith("INVALID ")
    assert text.count(SHOWN) >= 7
    assert not browser.find_elements(By.CSS_SELECTOR, "main b > script, script[src]")
    assert len(browser.find_elements(By.TAG_NAME, "script")) == 2
    for summary in browser.find_elements(By.CSS_SELECTOR, "summary"):
        summary.click()
    assert f"<Error> {SHOWN}" in browser.find_element(By.TAG_NAME, "main").text
    refused = next(
        row
        for row in browser.find_elements(By.CSS_SELECTOR, "#list tbody tr")
        if "fail" in row.text
    )
    browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", refused)
    refused.click()
    assert SHOWN in browser.find_element(By.ID, "detail").text


def test_numbers_beyond_53_bits_stay_exact(browser: Chrome, tmp_path: Path) -> None:
    great = 2**64 - 1
    ops = history(insert(0, great, 1, 2), read(1, [great, 5, 5], 3, 4, node="ch2"))
    opened(browser, finished(tmp_path, ops))
    browser.find_element(By.NAME, "value").send_keys(str(great))
    matches(
        browser, f"value {great}: in 2 calls; missing from 0 reads begun after its acknowledgement"
    )
    row_at(browser, 1).click()
    detail = browser.find_element(By.ID, "detail").text
    assert f"2 values: 5 {great}" in detail
    assert "more than once\n5" in detail


def test_a_report_of_100_000_operations_is_small_and_searched(
    browser: Chrome, tmp_path: Path
) -> None:
    """How long it takes to open is measured by benches.timeline."""
    run = begun(tmp_path, long(50_000))
    assert run.journal.read_bytes().count(b"\n") == 100_000
    opened(browser, run)
    matches(browser, "50,000 of 50,000 calls")
    browser.find_element(By.NAME, "value").send_keys("49990")
    WebDriverWait(browser, 5).until(lambda b: matching(b).startswith("value 49990: in "))
    assert run.report.stat().st_size < 3_000_000


def test_a_stored_judgement_is_read_back_as_it_was(tmp_path: Path) -> None:
    judged = judge(
        stale(), set_checkers(Level.LINEARIZABLE, faults_expected=False), 60, "linearizable"
    )
    assert judgement_of(json.loads(json.dumps(judged.results()))) == judged


def test_the_read_that_no_order_explains_is_red(browser: Chrome, tmp_path: Path) -> None:
    """The histories are of registers: a read of a number, and a cas, whose value is two numbers."""

    def call(i: int, f: str, given: Value, got: Value, kind: Kind = Kind.OK) -> list[Op]:
        same = {"process": i, "node": f"ch{i + 1}", "key": 0, "f": f}
        return [
            Op(index=2 * i, kind=Kind.INVOKE, time_ns=i * 10, value=given, **same),
            Op(index=2 * i + 1, kind=kind, time_ns=i * 10 + 5, value=got, **same),
        ]

    ops = History(
        [
            *call(0, "write", 8, 8),
            *call(1, "write", 9, 9),
            *call(2, "read", None, 8),
            *call(3, "cas", (1, 2), (1, 2), Kind.FAIL),
        ]
    )
    cycle = Anomaly(kind="cycle", text="key 0: no order", ops=(0, 2, 4), key=0)
    verdict = Verdict(checker="linearizable", status=Status.INVALID, summary="1 of 1 key not so",
                      checked=3, anomalies=(cycle,))  # fmt: skip
    run = begun(tmp_path, ops)
    run.finish(Judgement(Status.INVALID, (verdict,), ladder_of(Level.LINEARIZABLE, [verdict]), {}))
    opened(browser, run)
    wrong = browser.find_elements(By.CSS_SELECTOR, ".bar.wrong text")
    assert [text.text for text in wrong] == ["read → 8 #4", "cannot be explained #5"]
    cas = row_at(browser, 3)
    assert "cas 0 [1,2] fail" in cas.text.replace("[1, 2]", "[1,2]")
