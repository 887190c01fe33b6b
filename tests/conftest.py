"""Fixtures that tests share, real servers and a browser, and the order of the tests."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import which

import hypothesis  # also while gc.freeze() of a run hides nothing from its hooks
import pytest
from cluster_pool import ClusterPool, Shape
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.own_directory import locked

# A busy machine is no failure.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

# The JVMs of Spark live for seconds, in which the optimizing compiler costs more than it saves.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


SHAPES = pytest.StashKey[dict[Path, Shape]]()
"""Shapes of the clusters that modules share, by the module's file."""
NEXT_SHAPE = pytest.StashKey[Shape | None]()
"""Shape that the module of the next test asks for."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put files with tests on real servers first. They take minutes each and mostly wait, so that
    the many short files fill what is left of every worker's time. Of these, those that share a
    cluster come first, a shape after the other."""
    on_servers = {item.path for item in items if item.get_closest_marker("containers")}
    shapes = config.stash[SHAPES] = {
        item.path: getattr(item.module, "SHAPE", Shape())
        for item in items
        if isinstance(item, pytest.Function) and item.path in on_servers and shares_cluster(item)
    }
    order = list(dict.fromkeys([Shape(), *shapes.values()]))

    def rank(item: pytest.Item) -> tuple[bool, int]:
        shape = shapes.get(item.path)
        return item.path not in on_servers, order.index(shape) if shape else len(order)

    items.sort(key=rank)


def shares_cluster(item: pytest.Function) -> bool:
    return "servers" in item.fixturenames or hasattr(item.module, "SHAPE")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note which cluster is asked for next, before the fixtures of this module end."""
    next_shape = item.config.stash[SHAPES].get(nextitem.path) if nextitem else None
    item.config.stash[NEXT_SHAPE] = next_shape


@pytest.fixture(scope="session")
def cluster_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    """Yield the cluster that modules share, and remove it in the end."""
    with closing(ClusterPool(lambda: tmp_path_factory.mktemp("cluster"))) as pool:
        yield pool


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest, cluster_pool: ClusterPool) -> Iterator[DockerCluster]:
    """Yield a cluster that the tests of a module share: without data, of the module's SHAPE, or
    three replicas and three ZooKeeper servers of the default version.

    The next module gets it if it asks for the same shape and no test of this one has failed.
    """
    shape = getattr(request.module, "SHAPE", Shape())
    failed = request.session.testsfailed
    yield cluster_pool.take(shape)
    if request.config.stash[NEXT_SHAPE] != shape or request.session.testsfailed > failed:
        cluster_pool.close()


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
