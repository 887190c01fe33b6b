"""Images are built once for each content of their recipes."""

import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest

from harness.clusters import base_image, images
from harness.clusters.engine import engine
from harness.clusters.images import build_images, our_images
from harness.core.errors import ClusterError

pytestmark = pytest.mark.containers


def test_what_is_built_is_not_built_again() -> None:
    first = build_images(lambda text: None)
    notes: list[str] = []
    assert build_images(notes.append) == first
    assert notes == []
    assert first.clickhouse_version == "18.16.1"
    assert {first.pod, first.clickhouse, first.zookeeper} == set(our_images().values())


def test_another_content_is_another_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pod", "clickhouse", "zookeeper"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text("FROM scratch")
    monkeypatch.setattr(images, "_RECIPES", tmp_path)
    before = our_images()
    (tmp_path / "pod" / "Dockerfile").write_text("FROM scratch\n")
    after = our_images()
    assert before["pod"] != after["pod"]
    assert before["clickhouse"] == after["clickhouse"]


def test_a_build_that_fails_shows_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pod", "clickhouse", "zookeeper"):
        (tmp_path / name).mkdir()
        recipe = f"ARG BASE\nFROM ${{BASE}}\nRUN echo the reason of {name} && exit 7\n"
        (tmp_path / name / "Dockerfile").write_text(recipe)
    monkeypatch.setattr(images, "_RECIPES", tmp_path)
    with pytest.raises(ClusterError, match=r"(?s)could not build harness/pod:.*the reason of pod"):
        build_images(lambda text: None)


def test_a_users_image_takes_the_place_of_ours() -> None:
    ours = build_images(lambda text: None)
    given = build_images(lambda text: None, clickhouse_image=ours.clickhouse)
    assert given == ours


def test_a_users_image_that_nobody_has_is_named() -> None:
    with pytest.raises(ClusterError, match=r"could not pull nowhere\.invalid/clickhouse:1"):
        build_images(lambda text: None, clickhouse_image="nowhere.invalid/clickhouse:1")


def test_a_users_image_without_clickhouse_is_refused() -> None:
    zookeeper = our_images()["zookeeper"]
    with pytest.raises(ClusterError, match=r"could not ask .* for its version"):
        build_images(lambda text: None, clickhouse_image=zookeeper)


def test_two_processes_may_build_at_once() -> None:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2) as pool:
        first, second = pool.map(_built, range(2))
    assert first == second


def _built(_: int) -> str:
    return build_images(lambda text: None).pod


def test_with_no_base_no_hub_and_no_tool_the_message_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base_image, "has_image", lambda client, tag: False)
    monkeypatch.setattr(base_image, "hub_answers", lambda: False)
    monkeypatch.setattr(base_image, "bootstrap_tool", lambda: None)
    refused = pytest.raises(ClusterError, match="apt-get install mmdebstrap")
    with closing(engine()) as client, refused:
        base_image.base_image(client, lambda text: None)
