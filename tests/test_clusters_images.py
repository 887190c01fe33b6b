"""Images are built once for each content of their recipes."""

import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest

from compose.plan import Image, Images
from compose.releases import CLICKHOUSE, ImageChoice, clickhouse_release, zookeeper_release
from harness.clusters import base_image, build_inputs, images
from harness.clusters.engine import engine
from harness.clusters.images import build_images, pod_image, release_image, source_of
from harness.core.errors import ClusterError
from harness.core.topology import Role, Topology

pytestmark = pytest.mark.containers

OLD = ImageChoice(clickhouse="18.16", zookeeper="3.8")


def clickhouse(images: Images) -> Image:
    (image,) = images.servers[Role.CLICKHOUSE].values()
    return image


def zookeeper(images: Images) -> Image:
    (image,) = images.servers[Role.ZOOKEEPER].values()
    return image


def test_what_is_built_is_not_built_again() -> None:
    first = build_images(lambda text: None, OLD)
    notes: list[str] = []
    assert build_images(notes.append, OLD) == first
    assert notes == []
    assert str(first.engines(Topology.of())) == (
        "ClickHouse 18.16.1 of Debian bookworm, ZooKeeper 3.8.0 of Debian bookworm"
    )
    ours = {release_image(release) for release in OLD.releases}
    assert {first.pod, clickhouse(first).tag, zookeeper(first).tag} == {pod_image(), *ours}


@pytest.mark.parametrize("version", ["3.8", "3.9.3", "3.9"])
def test_a_zookeeper_server_reads_its_classes_from_an_archive(version: str) -> None:
    image = zookeeper(build_images(lambda text: None, ImageChoice(zookeeper=version)))
    with closing(engine()) as client:
        log = client.containers.run(
            image.tag,
            ["-c", "sh /usr/share/zookeeper/start.sh || true"],  # it has no configuration
            entrypoint="sh",
            environment={"ZOO_MY_ID": "1", "JVMFLAGS": "-XX:+UseSerialGC -Xlog:class+load"},
            network_mode="none",
            remove=True,
        ).decode()
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    assert f"{main} source: shared objects file (top)" in log


def recipes(directory: Path, recipe: str) -> None:
    for name in ("pod", "clickhouse", "zookeeper"):
        (directory / name).mkdir()
        (directory / name / "Dockerfile").write_text(recipe.replace("NAME", name))


def test_another_content_is_another_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes(tmp_path, "FROM scratch")
    monkeypatch.setattr(images, "_RECIPES", tmp_path)
    old = clickhouse_release("18.16")
    before = pod_image(), release_image(old)
    (tmp_path / "pod" / "Dockerfile").write_text("FROM scratch\n")
    after = pod_image(), release_image(old)
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_each_release_has_a_tag_of_its_own_that_names_its_version() -> None:
    tags = [release_image(release) for release in CLICKHOUSE]
    assert len(set(tags)) == len(tags)
    assert release_image(clickhouse_release("25.8")).startswith("harness/clickhouse:25.8.2.1-")


def test_a_build_that_fails_shows_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipes(tmp_path, "ARG BASE\nFROM ${BASE}\nRUN echo the reason of NAME && exit 7\n")
    monkeypatch.setattr(images, "_RECIPES", tmp_path)
    with pytest.raises(
        ClusterError, match=r"(?s)could not build harness/(pod|clickhouse|zookeeper):.*the reason"
    ):
        build_images(lambda text: None, OLD)


def test_without_a_registry_a_release_is_built_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "clickhouse-chdb").mkdir()
    monkeypatch.setattr(images, "_RECIPES", tmp_path)
    new = clickhouse_release("25.8")
    with closing(engine()) as client:
        monkeypatch.setattr(images, "has_image", lambda client, image: False)
        monkeypatch.setattr(images, "registry_has", lambda image: True)
        assert source_of(client, new).image == "clickhouse/clickhouse-server:25.8"
        monkeypatch.setattr(images, "registry_has", lambda image: False)
        way = source_of(client, new)
        assert (way.image, way.ready) == (release_image(new), False)
        assert way.why == (
            "ClickHouse 25.8.2.1 as built in chdb 3.7.2, will be built here: no registry has "
            "clickhouse/clickhouse-server:25.8 for this machine"
        )


def test_a_wheel_of_another_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is a directory with a wheel that is not the pinned one."""
    index = tmp_path / "index"
    index.mkdir()
    name = "chdb-3.7.2-cp38-abi3-manylinux2014_x86_64.whl"
    (index / name).write_bytes(b"not the wheel")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    with pytest.raises(
        ClusterError,
        match=r"ClickHouse 25\.8\.2\.1 .*: what pip downloaded as chdb 3\.7\.2 is not the wheel "
        r"with sha256 c119f0830c12",
    ):
        build_inputs.fetch(clickhouse_release("25.8"), tmp_path)


def test_a_wheel_that_cannot_be_downloaded_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ClusterError, match=r"chdb 3\.7\.2 cannot be downloaded: .*chdb==3\.7\.2"):
        build_inputs.fetch(clickhouse_release("25.8"), tmp_path)


def test_a_machine_that_cannot_run_it_is_told_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_inputs, "cpu_flags", lambda: frozenset({"sse4_2"}))
    with pytest.raises(
        ClusterError, match=r"^ClickHouse 25\.8\.2\.1 .* cannot run here: it needs a CPU with AVX"
    ):
        build_inputs.fetch(clickhouse_release("25.8"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_jars_are_taken_out_of_pyspark(tmp_path: Path) -> None:
    build_inputs.fetch(zookeeper_release("3.9"), tmp_path)
    names = {path.name for path in (tmp_path / "jars").iterdir()}
    assert {"zookeeper-3.9.5.jar", "zookeeper-jute-3.9.5.jar"} <= names


def test_a_users_image_takes_the_place_of_ours() -> None:
    ours = build_images(lambda text: None, OLD)
    given = build_images(lambda text: None, ImageChoice(clickhouse_image=clickhouse(ours).tag))
    assert clickhouse(given).tag == clickhouse(ours).tag
    assert clickhouse(given).engine.version == "18.16.1"


def test_a_users_image_that_nobody_has_is_named() -> None:
    with pytest.raises(ClusterError, match=r"could not pull nowhere\.invalid/clickhouse:1"):
        build_images(
            lambda text: None, ImageChoice(clickhouse_image="nowhere.invalid/clickhouse:1")
        )


def test_a_users_image_without_clickhouse_is_refused() -> None:
    keeper = zookeeper(build_images(lambda text: None, OLD)).tag
    with pytest.raises(ClusterError, match=r"could not ask .* for its version"):
        build_images(lambda text: None, ImageChoice(clickhouse_image=keeper))


def test_an_image_without_keeper_is_refused() -> None:
    keeper = zookeeper(build_images(lambda text: None, OLD)).tag
    with pytest.raises(ClusterError, match=r"could not ask .* for its version"):
        build_images(lambda text: None, ImageChoice(clickhouse="18.16", keeper_image=keeper))


def test_two_processes_may_build_at_once() -> None:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2) as pool:
        first, second = pool.map(_built, range(2))
    assert first == second


def _built(_: int) -> str:
    return build_images(lambda text: None, OLD).pod


def test_with_no_base_no_hub_and_no_tool_the_message_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base_image, "has_image", lambda client, tag: False)
    monkeypatch.setattr(base_image, "registry_has", lambda: False)
    monkeypatch.setattr(base_image, "bootstrap_tool", lambda: None)
    refused = pytest.raises(ClusterError, match="apt-get install mmdebstrap")
    with closing(engine()) as client, refused:
        base_image.base_image(client, lambda text: None)
