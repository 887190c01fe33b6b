"""The scenarios that can be exported, why others cannot, and runs of exported integration tests,
over the stand-in of tests/upstream for the package that they import from ClickHouse's
repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from compose.releases import ImageChoice
from compose.render import config_files
from harness.cli.reproduce import export
from harness.clusters.images import build_images
from harness.core.topology import Role
from harness.export.integration_test import integration_test
from harness.export.reproduction import ExportedScenario, reproduction_of, write_files
from workloads.scenarios.catalogue import SCENARIOS

PROXIED = [
    "skipped-part",
    "incomparable-reads",
    "overtaken-insert",
    "merged-away",
    "phantom-part",
    "doubled-insert",
    "lost-retry",
    "missed-drop",
    "half-alter",
    "crashing-mutation",
    "half-moved",
    "missed-view",
    "half-restored",
    "ignored-part",
    "restored-nothing",
    "suspicious-clone",
    "lost-update",
    "mutated-twice",
]
"""Scenarios whose reproduction has a proxy."""
ON_A_STORE = [
    "orphaned-insert",
    "orphaned-drop",
    "orphaned-fetch",
    "orphaned-commit",
    "orphaned-unlock",
    "dropped-replica",
    "restored-replica",
    "copied-part",
    "attach-own-copy",
    "orphaned-move",
    "moved-twice",
]
"""Scenarios whose reproduction has an object store."""
EXPORTED = [
    "stale-read",
    "unsynced-read",
    "lagging-writer",
    "early-snapshot",
    "backwards-read",
    "unseen-write",
    "hidden-insert",
    "torn-insert",
    "half-insert",
    "dirty-read",
    "unreadable-table",
    "emptied-partition",
    "unwritable-table",
    "returned-rows",
    "missing-table",
    "pending-merged",
    "failed-duplicate",
    "uncounted-clone",
    "stale-replace",
    "moved-away",
    "attached-nowhere",
    "renamed-away",
    "replaced-by-nothing",
    "copied-nothing",
    "forgotten-insert",
    "doubled-view",
    "retried-elsewhere",
    "strayed-update",
    "overwritten-update",
    "forgotten-mutation",
    "stranded-part",
    "forgotten-partition",
    "fetched-over",
    "dropped-map",
    *PROXIED,
    *ON_A_STORE,
]
REFUSED = {
    "lost-distributed-insert": "its tables are made of what servers answer",
    "deaf-replica": "depends on how a call ended",
    "undone-alter": "finding alters: undone",
    "failed-part": "waits for what its statements do not show",
    "failed-part-missed": "waits for what its statements do not show",
    "ddl-twice": "finding ddl: executed-twice",
    "uncounted-quorum": "a client's look at ZooKeeper",
    "set-aside": "a client's look at ZooKeeper",
    "renamed-aside": "a client's look at ZooKeeper",
    "dropped-view": "a client's look at ZooKeeper",
    "unwaited-clone": "finding optimize: not-done",
    "two-leaders": "a single leading replica per table",
    "acknowledged-failure": "a disk that fails on command",
    "discarded-copy": "a disk that fails on command",
    "stuck-rename": "finding statement-reads: impossible",
    "endless-mutation": "finding mutation-ends: unfinished",
    "sole-mover": "finding objects: holds",
    "repeated-insert": "waits for what its statements do not show",
    "refused-itself": "finding set-full: phantom",
    "deleted-twice": "finding linearizable: cycle",
    "handed-on-hole": "a client's look at ZooKeeper",
    "early-epoch": "a disk that fails on command",
    "unwritten": "a disk that fails on command",
    "unlogged-ack": "a disk that fails on command",
    "untruncated": "a disk that fails on command",
    "failed-join": "a disk that fails on command",
    "unsynced-commit": "a disk that fails on command",
    "shared-transactions": "a session that goes on from statement to statement",
    "rewound-insert": "fault keeper-rewound",
    "rewound-restart": "fault keeper-rewound",
    "lost-keepers": "fault keeper-lost",
}
"""Why the others cannot be exported."""
STAND_IN = Path(__file__).parent / "upstream"
SIGNATURES = Path(__file__).parent / "upstream_stubs"
"""What the package takes and returns upstream."""
KEEPER = re.compile(r"\bzk(\d)")


def exported(name: str) -> ExportedScenario:
    """Return the reproduction of a scenario on the default servers."""
    return reproduction_of(SCENARIOS[name], ImageChoice())


def export_by_command(*arguments: str) -> Result:
    return CliRunner().invoke(export, [*arguments])


def write_test(name: str, directory: Path) -> Path:
    """Write the integration test of a scenario; return its file."""
    files = integration_test(exported(name))
    write_files(directory, files)
    return directory / next(file for file in files if file.endswith("/test.py"))


def write_configuration(name: str, directory: Path) -> None:
    """Write the first configuration of each server, which a test adds to."""
    plan = exported(name).plan
    for server in plan.servers:
        here = directory / KEEPER.sub(r"zoo\1", server.node.name)
        texts = config_files(plan, server.node)
        write_files(here, {file: KEEPER.sub(r"zoo\1", text) for file, text in texts.items()})


def run_test(name: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the integration test of a scenario on real servers."""
    test = write_test(name, directory)
    write_configuration(name, directory / "config")
    images = build_images(print, ImageChoice())
    tags = {role: next(iter(by.values())).tag for role, by in images.servers.items()}
    environment = {
        **os.environ,
        "PYTHONPATH": str(STAND_IN),
        "STAND_IN_NAME": f"stand-in-{name}-{os.getpid()}",
        "STAND_IN_CONFIG": str(directory / "config"),
        "STAND_IN_CLICKHOUSE_IMAGE": tags[Role.CLICKHOUSE],
        "STAND_IN_ZOOKEEPER_IMAGE": tags[Role.ZOOKEEPER],
        "STAND_IN_POD_IMAGE": images.pod,
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", test],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


if __name__ == "__main__":
    ran = run_test(sys.argv[1], Path(sys.argv[2]))
    print(ran.stdout, ran.stderr)
    sys.exit(ran.returncode)
