"""The picture of transactions, in a browser."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyporcupine import Transaction, visualize_transactions
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

SKEW = [
    Transaction("alice", [("r", "x", []), ("append", "y", 1), ("r", "z", [3])], call=0, ret=10),
    Transaction("bob", [("r", "y", []), ("append", "x", 1)], call=5, ret=15),
    Transaction("carol", [("append", "z", 3)], call=0, ret=2),
]
BACK = "but T1 < T0, because T1 read key 'y' without T0's append of 1: a contradiction"


def drawn(browser: Chrome, page: Path, **question: Any) -> str:
    """Draw the history and open its page; return the verdict."""
    status = visualize_transactions(SKEW, "list-append", path=page, **question).status
    browser.set_window_size(1280, 800)
    browser.get(page.as_uri())
    assert browser.find_element(By.ID, "status").text == status
    return status


def lines(browser: Chrome) -> list[str]:
    return browser.find_element(By.ID, "details").text.splitlines()


def test_the_page_has_the_cycle_as_arrows_and_in_sentences(browser: Chrome, tmp_path: Path) -> None:
    assert drawn(browser, tmp_path / "skew.html", title="write skew") == "INVALID"
    assert browser.title == "write skew"
    assert lines(browser)[0].startswith("3 transactions of 3 clients. ")
    assert lines(browser)[1:] == [
        "Anomalies",
        "G2-item",
        "T0 < T1, because T0 read key 'x' without T1's append of 1",
        BACK,
        "Smallest failing sub-history: 2",
        "T0: r x → [], append y 1",
        "T1: r y → [], append x 1",
    ]
    arrows = browser.execute_script(
        "const seen = [], drawn = drawEdge;"
        "drawEdge = (from, to, kind) => { seen.push([from.top < to.top, kind]); };"
        "draw(); drawEdge = drawn; return seen"
    )
    assert arrows == [[True, "rw"], [False, "rw"]]
    bad = browser.execute_script("return labels.map((_, op) => isBad(objects[0], op))")
    assert bad == [True, True, False]


def test_an_anomaly_that_the_level_allows_is_told(browser: Chrome, tmp_path: Path) -> None:
    assert drawn(browser, tmp_path / "si.html", consistency="snapshot-isolation") == "VALID"
    assert lines(browser)[1:] == [
        "Anomalies",
        "G2-item, which the level allows",
        "T0 < T1, because T0 read key 'x' without T1's append of 1",
        BACK,
    ]


def test_columns_cannot_be_drawn(tmp_path: Path) -> None:
    table: Any = pa.table({"process": [0], "call": [0], "ret": [1]})
    with pytest.raises(TypeError, match="history has Arrow columns, expected a list"):
        visualize_transactions(table, "list-append", path=tmp_path / "x.html")
