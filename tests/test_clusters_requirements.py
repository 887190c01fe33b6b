"""`harness doctor` tries things and does not guess."""

import pytest

from harness.clusters.requirements import requirements


@pytest.mark.containers
def test_every_requirement_of_a_run_is_met_where_containers_run() -> None:
    found = {requirement.name: requirement for requirement in requirements()}
    assert [name for name, r in found.items() if r.needed and not r.ok] == []
    assert found["kernel: iptables DROP"].found == "works"
    assert all(requirement.found for requirement in found.values())


def test_without_an_engine_each_missing_thing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    missing = {r.name: r for r in requirements() if not r.ok}
    assert {"Docker engine", "images, or a way to build them", "kernel: iptables DROP"} <= set(
        missing
    )
    assert "none answers" in missing["Docker engine"].found
    assert all(requirement.how_to_get for requirement in missing.values())
