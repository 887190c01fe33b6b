"""A report in a browser: opened, and read."""

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from harness.report.run_files import draw
from harness.store.store import RunDirectory


def opened(browser: Chrome, run: RunDirectory) -> str:
    """Return the whole text of the page once its timeline has been painted."""
    assert draw(run) is None
    browser.get(run.report.as_uri())
    if browser.find_elements(By.ID, "canvas"):
        WebDriverWait(browser, 10).until(
            lambda b: b.find_element(By.ID, "canvas").get_attribute("data-ready")
        )
    return browser.find_element(By.TAG_NAME, "main").text


def row_at(browser: Chrome, index: int) -> WebElement:
    """Return a row of the list of calls, which may be filled a moment after the timeline."""

    def found(b: Chrome) -> WebElement | None:
        rows = b.find_elements(By.CSS_SELECTOR, "#list tbody tr")
        return rows[index] if len(rows) > index else None

    row: WebElement = WebDriverWait(browser, 10).until(found)
    return row


def matching(browser: Chrome) -> str:
    return browser.find_element(By.ID, "matching").text


def matches(browser: Chrome, text: str) -> None:
    """Wait until the text appears: an event and its effect may be a moment apart."""
    WebDriverWait(browser, 5).until(lambda b: matching(b) == text, f"expected {text!r}")


def in_view(browser: Chrome, begins: str) -> list[str]:
    """Return the rows of the list once its caption begins with this text."""
    WebDriverWait(browser, 10).until(
        lambda b: b.find_element(By.CSS_SELECTOR, "#list caption").text.startswith(begins)
    )
    return [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#list tbody tr")]
