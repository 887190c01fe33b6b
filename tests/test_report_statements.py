"""The statements of a call on the page, in a real browser."""

import json
from pathlib import Path

from report_browser import in_view, opened
from report_cases import finished, stale
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from harness.core.op import Kind


def test_a_call_shows_its_statements_and_what_its_server_logged_of_them(
    browser: Chrome, tmp_path: Path
) -> None:
    run = finished(tmp_path, stale())
    (failed,) = [pair for pair in stale().pairs if pair.kind is Kind.FAIL]
    op = failed.invoke.index
    head = {"statement": 0, "sql": "SELECT value FROM t WHERE key = {}", "settings": {"a": 1}}
    line = {"op": op, "node": "ch2", "query_id": f"r-{op}", "numbers": [0], "statement": 0}
    text = "".join(json.dumps(one) + "\n" for one in (head, line))
    (run.path / "statements.jsonl").write_text(text)
    log = run.logs / "ch2" / "clickhouse-server.log"
    log.parent.mkdir(parents=True)
    lines = [f"{{r-{op}}} <Error> refused </script>", f"{{r-{op}}} <Debug> {'long ' * 99}."]
    log.write_text("".join(f"{line}\n" for line in (*lines, f"{{r-{op}1}} <Debug> of another")))
    assert "1 × " in opened(browser, run)
    browser.get(f"{run.report.as_uri()}#op={op}")
    browser.refresh()
    detail = browser.find_element(By.ID, "detail")
    WebDriverWait(browser, 5).until(lambda _: "statement" in detail.text)
    boxes = detail.find_elements(By.TAG_NAME, "pre")
    statement, logged = [pre.text for pre in boxes]
    assert statement == (
        "/* ch2 */\nSET a = 1;\nSELECT value FROM t WHERE key = 0;\nSET a = DEFAULT;"
    )
    assert logged.splitlines() == lines
    assert boxes[1].get_property("textContent") == "".join(f"{line}\n" for line in lines)
    marked = boxes[1].find_elements(By.CSS_SELECTOR, "span.grave")
    assert [span.text for span in marked] == lines[:1]
    # A wrapped line is indented from its second row on, so that each line can be told.
    short, long = [span.size["height"] for span in boxes[1].find_elements(By.TAG_NAME, "span")]
    assert long >= 2 * short
    in_view(browser, "9 calls")
    rows = browser.find_elements(By.CSS_SELECTOR, "#list tbody tr")
    next(row for row in rows if "3 values" in row.text).click()
    assert "none on this page; harness report" in detail.text
