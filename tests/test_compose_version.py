"""What a ClickHouse server understands follows its version."""

import pytest

from compose.version import Version
from harness.core.errors import UsageError


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("18.16.1", Version(18, 16, 1)),
        ("ClickHouse client version 18.16.1.\n", Version(18, 16, 1)),
        ("ClickHouse client version 24.8.4.13 (official build).", Version(24, 8, 4)),
    ],
)
def test_version_is_read_out_of_what_a_server_says(said: str, version: Version) -> None:
    assert Version.of(said) == version


@pytest.mark.parametrize(
    ("version", "root", "parallel_quorum"),
    [
        ("18.16.1", "yandex", False),
        ("20.9.9", "yandex", False),
        ("20.10.1", "yandex", True),
        ("21.12.9", "yandex", True),
        ("22.1.0", "clickhouse", True),
        ("25.3.1", "clickhouse", True),
    ],
)
def test_configuration_follows_the_version(version: str, root: str, parallel_quorum: bool) -> None:
    assert Version.of(version).root == root
    assert Version.of(version).parallel_quorum is parallel_quorum


def test_a_text_without_a_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"version 'latest': expected three numbers"):
        Version.of("latest")
