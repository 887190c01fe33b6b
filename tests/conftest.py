"""Fixtures that tests share: a cluster of real servers and a browser."""

import os
from collections.abc import Iterator
from shutil import which

import hypothesis  # also while gc.freeze() of a run hides nothing from its hooks
import pytest
from real_servers import THREE
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from compose.releases import DEFAULT_CLICKHOUSE, ImageChoice
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.images import build_images
from harness.clusters.own_directory import locked

# A busy machine is no failure.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

# The JVMs of Spark live for seconds, in which the optimizing compiler costs more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with tests on real servers first. They take minutes each and mostly wait, so that
    the many short files fill what is left of every worker's time."""
    on_servers = {item.path for item in items if item.get_closest_marker("containers")}
    items.sort(key=lambda item: item.path not in on_servers)


@pytest.fixture(scope="module")
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerCluster]:
    """Yield three replicas and three ZooKeeper servers that the tests of a module share.

    They run the default version unless the module sets CLICKHOUSE.
    """
    choice = ImageChoice(clickhouse=getattr(request.module, "CLICKHOUSE", DEFAULT_CLICKHOUSE))
    directory = tmp_path_factory.mktemp("cluster")
    cluster = DockerCluster(THREE, directory, images=build_images(lambda text: None, choice))
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def orphans() -> Iterator[None]:
    """Hold a lock while a test leaves clusters without an owner or removes all such clusters.

    Otherwise one test would remove what another is about to find.
    """
    with locked("tests-orphans"):
        yield


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chrome]:
    """Yield a headless browser that can reach only this machine."""
    options = ChromeOptions()
    options.binary_location = which("chromium") or "chromium"
    for switch in (
        "--headless=new",
        "--no-sandbox",  # tests may run as root
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1280,900",
    ):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService(which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(chromium: Chrome) -> Iterator[Chrome]:
    """Yield the browser at an empty page. An error on a page's console fails the test."""
    chromium.get("about:blank")
    chromium.get_log("browser")
    yield chromium
    errors = [line["message"] for line in chromium.get_log("browser") if line["level"] == "SEVERE"]
    chromium.get("about:blank")
    assert not errors
