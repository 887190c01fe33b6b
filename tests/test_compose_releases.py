"""Versions are chosen by alias or in full; others are refused with what there is."""

import pytest

from compose.releases import (
    CLICKHOUSE,
    ZOOKEEPER,
    ImageChoice,
    ImageOptions,
    clickhouse_release,
    upgrade_targets,
)
from harness.core.dialect import Coordination, Mechanism
from harness.core.engines import Engine, Engines
from harness.core.errors import MissingMechanismError, UsageError
from harness.core.topology import Role


def chosen(**given: str) -> ImageChoice:
    return ImageChoice.of(ImageOptions(**given))


def test_nothing_chosen_is_the_default() -> None:
    assert [str(release) for release in chosen().releases] == [
        "ClickHouse 25.8.2.1 as built in chdb 3.7.2",
        "ZooKeeper 3.8.0 of Debian bookworm",
    ]


def test_a_series_may_be_the_official_image_a_full_version_is_exactly_that_one() -> None:
    assert clickhouse_release("25.8").official == "clickhouse/clickhouse-server:25.8"
    assert clickhouse_release("25.8.2.1").official is None
    assert str(clickhouse_release("25.8.2.1")) == "ClickHouse 25.8.2.1 as built in chdb 3.7.2"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"clickhouse": "25.9"},
            r"--clickhouse '25\.9': no such version can be had; expected one of 18\.16 "
            r"\(18\.16\.1\), 24\.8 \(24\.8\.4\.1\), 25\.5 \(25\.5\.2\.1\), 25\.8 \(25\.8\.2\.1\), "
            r"or an image of your own with --clickhouse-image",
        ),
        (
            {"zookeeper": "4"},
            r"--zookeeper '4': no such version can be had; expected one of 3\.8 \(3\.8\.0\), "
            r"3\.9\.3, 3\.9 \(3\.9\.5\), or an image of your own with --zookeeper-image",
        ),
        (
            {"clickhouse": "25.8", "clickhouse_image": "mine:1"},
            r"--clickhouse 25\.8: --clickhouse-image mine:1 takes its place; expected one of the",
        ),
    ],
)
def test_what_nobody_offers_is_refused_with_the_list(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        chosen(**given)


def test_the_dialect_is_known_before_there_is_an_image_unless_the_user_brings_one() -> None:
    known = chosen(clickhouse="24.8").dialect
    assert known is not None
    assert list(map(str, known.versions)) == ["24.8.4"]
    assert chosen(clickhouse_image="mine:1").dialect is None


def test_versions_and_aliases_name_one_release_each() -> None:
    for releases in (CLICKHOUSE, ZOOKEEPER):
        names = [name for release in releases for name in {release.alias, release.version}]
        assert len(set(names)) == len(names)


def test_a_choice_in_words_names_both_servers_whatever_the_defaults_are() -> None:
    assert chosen().arguments == ("--clickhouse", "25.8", "--zookeeper", "3.8")
    assert chosen(clickhouse="24.8", zookeeper_image="zookeeper:3.7").arguments == (
        "--clickhouse",
        "24.8",
        "--zookeeper-image",
        "zookeeper:3.7",
    )


@pytest.mark.parametrize(
    ("image", "build", "words"),
    [
        ("harness/clickhouse:1", "as built in chdb 3.7.2", ("--clickhouse", "25.8.2.1")),
        ("clickhouse/clickhouse-server:25.8", "", ("--clickhouse", "25.8")),
        ("my/clickhouse:1", "", ("--clickhouse-image", "my/clickhouse:1")),
    ],
)
def test_servers_that_were_met_can_be_chosen_again(
    image: str, build: str, words: tuple[str, ...]
) -> None:
    engines = Engines(
        nodes={
            "ch1": Engine(role=Role.CLICKHOUSE, version="25.8.2.1", build=build),
            "zk1": Engine(role=Role.ZOOKEEPER, version="3.9.5", build="as packed in pyspark"),
        }
    )
    met = ImageChoice.of_run({"ch1": image, "zk1": "harness/zookeeper:1"}, engines)
    assert sorted(met.arguments) == sorted((*words, "--zookeeper", "3.9.5"))


def test_servers_of_several_versions_can_be_chosen_again_by_name() -> None:
    keeper = Engine(role=Role.ZOOKEEPER, version="3.9.5", build="as packed in pyspark")
    old = Engine(role=Role.CLICKHOUSE, version="24.8.4.1", build="as built in chdb 2.1.1")
    new = Engine(role=Role.CLICKHOUSE, version="25.8.2.1", build="as built in chdb 3.7.2")
    engines = Engines(nodes={"ch1": old, "ch2": new, "zk1": keeper})
    met = ImageChoice.of_run(dict.fromkeys(engines.nodes, "harness/x:1"), engines)
    assert met.arguments == ("--clickhouse", "ch1=24.8.4.1,ch2=25.8.2.1", "--zookeeper", "3.9.5")
    assert chosen(clickhouse=met.clickhouse, zookeeper=met.zookeeper) == met


def test_several_versions_need_the_images_of_all_of_them() -> None:
    choice = ImageChoice.of(ImageOptions(clickhouse="ch1=24.8,25.8"), ("25.5", "3.9"))
    assert [release.version for release in choice.releases] == [
        "24.8.4.1",
        "25.8.2.1",
        "25.5.2.1",
        "3.8.0",
        "3.9.5",
    ]
    assert choice.dialect is not None
    assert list(map(str, choice.dialect.versions)) == ["24.8.4", "25.5.2", "25.8.2"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("26.1",),
            r"--upgrade-to '26\.1': no such version can be had; expected one of 18\.16 .*3\.9",
        ),
        (("25.5", "25.8"), r"--upgrade-to 25\.5,25\.8: two versions of ClickHouse; expected one"),
    ],
)
def test_an_upgrade_to_what_cannot_be_had_is_refused(names: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=f"^{said}"):
        upgrade_targets(names)


def test_a_version_says_which_server_it_is_of() -> None:
    names = [name for r in (*CLICKHOUSE, *ZOOKEEPER) for name in {r.alias, r.version}]
    assert len(set(names)) == len(names)


def test_keeper_takes_the_place_of_zookeeper() -> None:
    choice = chosen(clickhouse="25.8", keeper_image="clickhouse/clickhouse-keeper:25.8")
    assert choice.arguments[2:] == ("--keeper-image", "clickhouse/clickhouse-keeper:25.8")
    assert choice.servers[Role.ZOOKEEPER] == {"": "clickhouse/clickhouse-keeper:25.8"}
    assert choice.versions["zookeeper"] == ""
    dialect = choice.dialect
    assert dialect is not None
    with pytest.raises(MissingMechanismError, match="with ClickHouse Keeper does not have"):
        dialect.require("harness conform", (Mechanism.TRANSACTION_LOG,))


def test_a_kept_cluster_with_keeper_can_be_chosen_again() -> None:
    keeper = Engine(role=Role.ZOOKEEPER, version="25.8.2.29", coordination=Coordination.KEEPER)
    server = Engine(role=Role.CLICKHOUSE, version="25.8.2.1", build="as built in chdb 3.7.2")
    met = ImageChoice.of_run(
        {"ch1": "a", "zk1": "my/keeper:1"}, Engines(nodes={"ch1": server, "zk1": keeper})
    )
    assert met.arguments == ("--clickhouse", "25.8.2.1", "--keeper-image", "my/keeper:1")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"zookeeper": "3.9"}, "--zookeeper 3.9: --keeper-image k:1 takes its place; expected one"),
        ({"zookeeper_image": "z:1"}, "--zookeeper-image z:1: --keeper-image k:1 takes its place"),
    ],
)
def test_keeper_and_zookeeper_exclude_each_other(given: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        chosen(keeper_image="k:1", **given)
    assert why in str(refused.value)


def test_keeper_is_not_upgraded_to_a_version_of_zookeeper() -> None:
    with pytest.raises(UsageError, match="leaves no ZooKeeper server to upgrade"):
        ImageChoice.of(ImageOptions(keeper_image="k:1"), ("3.9",))
