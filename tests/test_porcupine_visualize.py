"""The picture of a history, in a browser."""

import json
import re
from pathlib import Path
from typing import Any

import porcupine_models as models
import pytest
from pyporcupine import UNKNOWN, Annotation, Call, ModelError, Operation, visualize
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By


def op(
    f: str, value: Any, output: Any, call: float, ret: float | None, process: int = 0
) -> Operation:
    return Operation(process, f, None, value, call=call, ret=ret, output=output)


STALE = [
    op("write", 1, None, 0, 10),
    op("write", 2, None, 20, 30),
    op("read", None, 1, 40, 50, 1),
    op("write", 3, None, 45, 60),
    op("read", None, 2, 41, None, 2),
]
AWAY = "</script><script>document.title = 'broken'</script><b>\u202e\u0000é🐟\ud800"


def data_of(page: Path) -> Any:
    found = re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)
    assert found
    return json.loads(found[1])


def opened(browser: Chrome, page: Path) -> Chrome:
    browser.set_window_size(1280, 800)
    browser.get(page.as_uri())
    return browser


def text(browser: Chrome, name: str) -> str:
    return browser.find_element(By.ID, name).text


def state(browser: Chrome) -> dict[str, Any]:
    found: dict[str, Any] = browser.execute_script(
        "return {from: axis.from, to: axis.to, picked: look.picked, over: look.over}"
    )
    return found


def middle(browser: Chrome, row: int) -> ActionChains:
    """Move the pointer to the middle of an operation's bar."""
    x, y, width, height = browser.execute_script(
        "const b = box(arguments[0]);"
        "return [b.left + b.width / 2, b.top + 10, canvas.clientWidth, canvas.clientHeight]",
        row,
    )
    view = browser.find_element(By.ID, "view")
    right, down = round(x - width / 2), round(y - height / 2)
    return ActionChains(browser).move_to_element_with_offset(view, right, down)


def test_the_page_shows_the_verdict_and_what_is_clicked(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "stale.html"
    result = visualize(STALE, "register", path=page, title="a stale read")
    (found,) = result.objects
    assert (result.status, found.stuck, found.witness) == ("INVALID", 2, [0, 1, 2])
    opened(browser, page)
    assert browser.title == "a stale read"
    assert text(browser, "status") == "INVALID"
    assert "Smallest failing sub-history: 3" in text(browser, "details")
    middle(browser, 2).click().perform()
    assert state(browser)["picked"] == 2
    assert "Nothing explains this operation" in text(browser, "details")
    assert "read → 1" in text(browser, "details")
    middle(browser, 1).perform()
    assert "place\n2 of 3" in text(browser, "details")


def test_hover_shows_another_partial_linearization(browser: Chrome, tmp_path: Path) -> None:
    """When the read begins, either of two writes in flight may be the last, not both."""
    history = [
        op("write", 1, None, 0, 100),
        op("cas", (0, 2), True, 0, 90, 1),
        op("cas", (0, 3), True, 0, 95, 2),
    ]
    page = tmp_path / "either.html"
    (found,) = visualize(history, "cas-register", path=page, initial=0).objects
    orders = [found.linearization, *found.alternatives]
    assert {row for order in orders for row in order} >= {0, 1}
    assert data_of(page)["objects"][0]["order"] == found.linearization
    opened(browser, page)
    for row in {row for order in orders for row in order}:
        middle(browser, row).perform()
        assert "place\n" in text(browser, "details")
        assert "in no order" not in text(browser, "details")


def test_zoom_pan_and_the_way_to_the_error(browser: Chrome, tmp_path: Path) -> None:
    history = [op("write", at, None, 10 * at, 10 * at + 5) for at in range(300)]
    history.append(op("read", None, 7, 2000, 2005, 1))
    page = tmp_path / "long.html"
    visualize(history, "register", path=page)
    opened(browser, page)
    at_error = state(browser)
    assert at_error["from"] < 2000 < at_error["to"] < 3000
    browser.find_element(By.ID, "fit").click()
    all_of_it = state(browser)
    assert all_of_it["from"] < 0
    assert all_of_it["to"] > 2995
    browser.find_element(By.ID, "in").click()
    closer = state(browser)
    assert closer["to"] - closer["from"] < 0.7 * (all_of_it["to"] - all_of_it["from"])
    view = browser.find_element(By.ID, "view")
    ActionChains(browser).drag_and_drop_by_offset(view, -120, 0).perform()
    assert state(browser)["from"] > closer["from"]
    browser.execute_script(
        "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -300, clientX: 600, clientY: 300}))"
    )
    assert state(browser)["to"] - state(browser)["from"] < closer["to"] - closer["from"]
    browser.find_element(By.ID, "error").click()
    assert state(browser)["picked"] == 300
    ActionChains(browser).send_keys("0").perform()
    assert state(browser)["from"] == all_of_it["from"]


def test_search_by_value(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "search.html"
    visualize(STALE, "register", path=page)
    opened(browser, page)
    box = browser.find_element(By.ID, "search")
    box.send_keys("write")
    assert text(browser, "found") == "0 of 3"
    box.send_keys(Keys.ENTER, Keys.ENTER)
    assert (text(browser, "found"), state(browser)["picked"]) == ("2 of 3", 1)
    box.send_keys(" 9")
    assert text(browser, "found") == "none"


def test_values_are_text_and_nothing_else(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "away.html"
    described = models.Register()
    described.describe = lambda one: f"{one.f} {AWAY}"
    band = (0, 20, AWAY.replace("\ud800", ""))
    title = AWAY.replace("\ud800", "")
    visualize(STALE[:2], described, path=page, bands=[band], title=title)
    assert page.read_text().count("</script>") == 2
    opened(browser, page)
    assert browser.title.startswith("</script><script>document")
    middle(browser, 0).click().perform()
    heading = browser.find_element(By.CSS_SELECTOR, "aside h2").text
    assert heading == (
        "write </script><script>document.title = 'broken'</script><b>\\u{202e}\\u{0}é🐟\\u{d800}"
    )
    assert not browser.find_elements(By.CSS_SELECTOR, "aside b, h1 b")


def test_keys_are_chosen_and_the_theme_changes(browser: Chrome, tmp_path: Path) -> None:
    history = [
        Operation(0, "add", "good", 1, call=0, ret=1),
        Operation(0, "add", "bad", 1, call=2, ret=3),
        Operation(0, "read", "bad", call=4, ret=5, output=[]),
    ]
    page = tmp_path / "keys.html"
    visualize(history, "set", path=page)
    opened(browser, page)
    options = browser.find_elements(By.CSS_SELECTOR, "#object option")
    assert [one.text for one in options] == ["good · VALID", "bad · INVALID", "all"]
    assert text(browser, "status") == "INVALID"
    options[0].click()
    assert text(browser, "status") == "VALID"
    paper = "return [color.paper, getComputedStyle(document.body).backgroundColor]"
    themes = []
    for _ in range(2):
        browser.find_element(By.ID, "theme").click()
        themes.append(browser.execute_script(paper))
    assert sorted(themes) == [["rgb(20, 23, 27)"] * 2, ["rgb(255, 255, 255)"] * 2]


def test_of_ten_thousand_operations_what_is_in_sight_is_drawn(
    browser: Chrome, tmp_path: Path
) -> None:
    history = [op("add", at, None, 10 * at, 10 * at + 40, at % 5) for at in range(10_000)]
    page = tmp_path / "many.html"
    assert visualize(history, "set", path=page, unit="ns").status == "VALID"
    opened(browser, page)
    browser.find_element(By.ID, "fit").click()
    drawn = "draw(); return look.drawn"
    assert 500 < browser.execute_script(drawn) < 2500  # a row has a bar for every few pixels
    browser.find_element(By.ID, "search").send_keys("add 4321", Keys.ENTER)
    assert state(browser)["picked"] == 4321
    for _ in range(8):
        browser.find_element(By.ID, "in").click()
    assert 1 <= browser.execute_script(drawn) < 60


def test_bands_and_times_beyond_what_javascript_counts(tmp_path: Path) -> None:
    base = 1_700_000_000_000_000_000
    page = tmp_path / "wall.html"
    history = [op("add", 1, None, base, base + 7)]
    visualize(history, "set", path=page, bands=[(base + 2, None, "cut")])
    data = data_of(page)
    assert (data["call"], data["ret"]) == ([0], [7])
    assert data["bands"] == [{"from": 2, "to": None, "label": "cut"}]


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="band 0 is 3, expected"):
        visualize(STALE, "register", path=tmp_path / "x", bands=[3])
    with pytest.raises(ValueError, match=r"unit is .years., expected"):
        visualize(STALE, "register", path=tmp_path / "x", unit="years")
    with pytest.raises(OSError, match="cannot write"):
        visualize(STALE, "register", path=tmp_path / "none" / "x")
    mute = models.Register()
    mute.describe = lambda one: 1 // 0
    with pytest.raises(ModelError, match=r"row 0: describe\(Operation.* raised ZeroDivisionError"):
        visualize(STALE, mute, path=tmp_path / "x")


class Chest:
    """A register of which a cas that never returned may or may not have happened."""

    def init(self) -> int:
        return 0

    def step(self, state: int, call: Call, output: Any) -> int | list[int] | None:
        match call:
            case Call("write", value):
                return [state, value] if output is UNKNOWN else int(value)
            case _:
                return state if output is UNKNOWN or output == state else None

    def describe_state(self, state: int) -> str:
        return f"the chest holds {state}"


def test_states_along_the_order(browser: Chrome, tmp_path: Path) -> None:
    """A state that is not certain is told as all that are possible; without a description of its
    own it is told as Python shows it."""
    page = tmp_path / "states.html"
    (found,) = visualize(STALE, Chest(), path=page).objects
    assert (found.linearization, found.stuck) == ([0, 1], 2)
    data = data_of(page)
    states = [data["states"][number] for number in data["objects"][0]["states"]]
    assert states == ["the chest holds 0", "the chest holds 1", "the chest holds 2"]
    opened(browser, page)
    middle(browser, 1).click().perform()
    assert "state before\nthe chest holds 1\nstate after\nthe chest holds 2" in text(
        browser, "details"
    )
    middle(browser, 2).click().perform()
    assert "state before\nthe chest holds 2" in text(browser, "details")
    lost = [
        op("write", 7, None, 0, None),
        op("read", None, 0, 1, 2, 1),
        op("read", None, 7, 3, 4, 1),
    ]
    (found,) = visualize(lost, models.Register(), path=page).objects
    data = data_of(page)
    states = [data["states"][number] for number in data["objects"][0]["states"]]
    assert (states[0], states[-1], len(states)) == ("0", "7", len(found.linearization) + 1)
    broken = Chest()
    broken.describe_state = lambda state: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=r"Chest.describe_state\(0\) raised ZeroDivisionError"):
        visualize(STALE, broken, path=page)


def test_notes_in_the_rows_of_clients_and_of_their_own(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "notes.html"
    notes = [
        Annotation("cut", 15, 35, row="nemesis", details="client 0 from the leader"),
        Annotation("restart", 70, row="nemesis"),
        Annotation(f"slow {AWAY.replace(chr(0xD800), '')}", 38, 48, process=1),
    ]
    visualize(STALE, "register", path=page, annotations=notes)  # type: ignore[arg-type]
    data = data_of(page)
    assert data["noteRows"] == ["nemesis"]
    assert [(note["row"], note["from"], note["to"]) for note in data["notes"]] == [
        (3, 15, 35), (3, 70, None), (1, 38, 48),
    ]  # fmt: skip
    opened(browser, page)
    assert browser.execute_script("return [lanes, end > 70]") == [[0, 1, 2, 3], True]
    buttons = browser.find_elements(By.CSS_SELECTOR, "#details li button")
    assert [one.text for one in buttons[-3:-1]] == ["cut", "restart"]
    x, y = browser.execute_script(
        "const b = noteBox(notes[0]); return [b.left + b.width / 2 - canvas.clientWidth / 2,"
        "b.top + 10 - canvas.clientHeight / 2]"
    )
    view = browser.find_element(By.ID, "view")
    ActionChains(browser).move_to_element_with_offset(view, round(x), round(y)).click().perform()
    assert text(browser, "details").startswith("cut\nclient 0 from the leader\nrow\nnemesis")
    assert state(browser)["picked"] is None
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    browser.find_elements(By.CSS_SELECTOR, "#details li button")[-1].click()
    assert "slow </script><script>" in browser.find_element(By.CSS_SELECTOR, "aside h2").text


def test_times_that_are_floats(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "floats.html"
    base = 1_764_400_000.0
    history = [
        op("write", 1, None, base + 0.5, base + 0.75),
        op("read", None, 0, base + 1, base + 1.5),
    ]
    note = Annotation("here", base + 1.25)
    visualize(
        history,
        "register",
        path=page,
        unit="s",
        bands=[(base + 2, None, "cut")],
        annotations=[note],
    )
    data = data_of(page)
    assert (data["call"], data["ret"]) == ([0, 0.5], [0.25, 1])
    assert (data["bands"][0]["from"], data["notes"][0]["from"]) == (1.5, 0.75)
    opened(browser, page)
    middle(browser, 0).click().perform()
    assert "took\n250 ms" in text(browser, "details")
    visualize([op("write", 1, None, -0.5, 0.75)], "register", path=page)
    assert (data_of(page)["call"], data_of(page)["ret"]) == ([-0.5], [0.75])


def test_notes_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    for notes, error in (
        ([3], "annotation 0 is 3, expected an Annotation"),
        ([Annotation("x", 1, process=9)], "annotation 0 is of process 9, expected one of the"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            visualize(STALE, "register", path=tmp_path / "x", annotations=notes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="end is 1, expected a time from start, 2, on"):
        Annotation("x", 2, 1)
    with pytest.raises(ValueError, match="process and row are both given"):
        Annotation("x", 2, process=0, row="y")
