"""A class name stands for one thing, wherever it is read."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("harness", "workloads", "nemesis", "checkers", "compose")


def homes_by_class() -> dict[str, set[str]]:
    homes = defaultdict(set)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    homes[node.name.lstrip("_")].add(path.relative_to(ROOT).as_posix())
    return homes


def test_a_class_name_stands_for_one_thing():
    homes = homes_by_class()
    assert {"KeyVerdict", "VerdictRow", "Op"} <= homes.keys()
    shared = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert not shared, "one name for several classes: rename the newer one"
