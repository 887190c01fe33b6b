"""Removal of a cluster from an engine that lost what it knew of it, or does not let it go."""

from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from compose.plan import RUN
from harness.clusters import removal
from harness.clusters.removal import remove_run
from harness.core.errors import ClusterError


class FakeVolume:
    def __init__(self, engine: "FakeEngine", name: str, labels: dict[str, str] | None) -> None:
        self.name = name
        self.attrs = {"Labels": labels}
        self._engine = engine

    def remove(self, force: bool) -> None:
        if self.name in self._engine.mounted:
            raise APIError("409", explanation=f"remove {self.name}: volume has active mounts")
        self._engine.kept.remove(self)


class FakeEngine:
    """Engine that has nothing but volumes; its filters match as Docker's do."""

    def __init__(self, labels: dict[str, dict[str, str] | None], mounted: str = "") -> None:
        self.mounted = mounted.split()
        self.kept = [FakeVolume(self, name, own) for name, own in labels.items()]
        self.volumes = self

    @property
    def containers(self) -> Any:
        return FakeEngine({})

    networks = containers

    def list(self, filters: dict[str, str], **_: object) -> list[FakeVolume]:
        label, _, value = filters.get("label", "").partition("=")
        return [
            one
            for one in self.kept
            if filters.get("name", "") in one.name
            and (not label or (one.attrs["Labels"] or {}).get(label) == value)
        ]


def test_a_volume_whose_labels_the_engine_lost_is_removed_too(tmp_path: Path) -> None:
    """An engine that is stopped while it creates a volume knows only its name afterwards."""
    own, other = {RUN: "harness-1"}, {RUN: "harness-2"}
    fake: Any = FakeEngine(
        {
            "harness-1-ch1-data": own,
            "harness-1-zk2-log": None,
            "harness-1-of-another": other,
            "my-harness-1-backup": None,
            "harness-12-ch1-data": None,
        }
    )
    assert remove_run(fake, "harness-1", tmp_path) == ["harness-1-ch1-data", "harness-1-zk2-log"]
    left = [one.name for one in fake.kept]
    assert left == ["harness-1-of-another", "my-harness-1-backup", "harness-12-ch1-data"]


def test_the_error_has_the_reason_for_which_something_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --live-restore a restarted engine takes the volumes of containers that have ended for
    mounted, until it is restarted again without them."""
    monkeypatch.setattr(removal, "_REMOVE_S", 0.3)
    fake: Any = FakeEngine({"harness-1-ch1-data": {RUN: "harness-1"}}, "harness-1-ch1-data")
    with pytest.raises(ClusterError) as raised:
        remove_run(fake, "harness-1", tmp_path)
    assert str(raised.value) == (
        "harness-1: could not be removed in 0.3 s: harness-1-ch1-data is left "
        "(remove harness-1-ch1-data: volume has active mounts)"
    )


@pytest.mark.parametrize(
    ("files", "is_removed"),
    [
        (["lock", "cluster.json", "compose.yml", "config/ch1.xml"], True),
        (["lock", "config/ch1.xml"], True),
        (["lock"], True),
        ([], True),
        (["lock", "cluster.json", "notes.txt"], False),
        (["cluster.json", "compose.yml"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_a_killed_removal_left_of_a_directory_is_removed(
    tmp_path: Path, files: list[str], is_removed: bool
) -> None:
    """Whatever is in it that no cluster writes is somebody's."""
    directory = tmp_path / "harness-1"
    directory.mkdir()
    for name in files:
        path = directory / (removal.LOCK if name == "lock" else name)
        path.parent.mkdir(exist_ok=True)
        path.touch()
    engine: Any = FakeEngine({})
    assert remove_run(engine, "harness-1", directory) == []
    assert directory.exists() != is_removed
