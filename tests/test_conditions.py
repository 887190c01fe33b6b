"""Conditions of a run: the servers that answered, named once."""

import pytest

from harness.store.conditions import conditions_of


@pytest.mark.parametrize(
    ("spec", "versions", "on"),
    [
        ({}, {"ch1": "25.8.2.1", "ch2": "25.8.2.1", "zk1": "3.8.0"}, "25.8.2.1 3.8.0"),
        (
            {"cluster": "sim"},
            {"ch1": "simulated 18.16.1", "zk1": "simulated 18.16.1"},
            "simulated 18.16.1",
        ),
        ({"cluster": "external"}, {"ch1": "25.8.2.1"}, "external 25.8.2.1"),
        ({"workload": "explore-quorum"}, {}, "model"),
        ({"cluster": "sim"}, None, "simulated"),
    ],
)
def test_servers_are_named_by_kind_and_version(spec: object, versions: object, on: str) -> None:
    assert conditions_of({"spec": spec, "versions": versions}).on == on
