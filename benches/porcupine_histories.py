"""The shared histories as operations of pyporcupine."""

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from pyporcupine import Operation

SHARED = Path(__file__).resolve().parents[2] / "shared" / "histories"

ETCD = re.compile(r"jepsen\.util - (\d+)\s+:(\w+)\s+:(\w+)\s+(.*)$")
KV = re.compile(
    r"\{:process (\d+), :type :(\w+), :f :(\w+), :key \"([^\"]*)\", :value (nil|\"(.*)\")\}"
)


def generator() -> ModuleType:
    """The module that writes the synthetic histories."""
    spec = importlib.util.spec_from_file_location("generate", SHARED / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def synthetic(
    kind: str, n: int, c: int, *, keys: int = 1, info: int = 0, seed: int = 1, bad: bool = False
) -> list[Operation]:
    """A history of `generate.py`."""
    module = generator()
    records = module.generate(kind, n, c, keys, info, seed)
    if bad:
        records = module.corrupt(kind, records, n // 2)
    return [from_record(record) for record in records]


def from_record(record: dict[str, Any]) -> Operation:
    """One line that `generate.py` wrote."""
    f, value = record["f"], record["value"]
    reads = f in ("read", "get")
    return Operation(
        record["client"],
        f,
        record["key"],
        None if reads else value,
        call=record["call"],
        ret=record["return"],
        output=value if reads else record["ok"] if f == "cas" else None,
    )


def etcd(path: Path) -> list[Operation]:
    """A log of a compare-and-set register; times are line numbers."""
    calls: dict[int, tuple[int, str, Any]] = {}
    done: list[Operation] = []
    for at, line in enumerate(path.read_text().splitlines()):
        found = ETCD.search(line)
        if not found:
            continue
        process, kind, f = int(found[1]), found[2], found[3]
        if kind == "invoke":
            calls[process] = (at, f, _etcd_value(found[4]))
            continue
        if kind == "info":
            continue
        call, f, value = calls.pop(process)
        if f == "read" and kind == "ok":
            output = _etcd_value(found[4])
            done.append(Operation(process, f, None, None, call=call, ret=at, output=output))
        elif f == "cas":
            done.append(Operation(process, f, None, value, call=call, ret=at, output=kind == "ok"))
        elif kind == "ok":
            done.append(Operation(process, f, None, value, call=call, ret=at))
    done += [
        Operation(process, f, None, value, call=call) for process, (call, f, value) in calls.items()
    ]
    return sorted(done, key=lambda op: op.call)


def _etcd_value(text: str) -> Any:
    text = text.strip()
    if text == "nil":
        return None
    if text.startswith("["):
        return tuple(int(part) for part in text.strip("[]").split())
    return int(text)


def porcupine_kv(path: Path) -> list[Operation]:
    """A key-value history; times are line numbers."""
    calls: dict[int, tuple[int, str, str, str | None]] = {}
    done: list[Operation] = []
    for at, line in enumerate(path.read_text().splitlines()):
        found = KV.match(line)
        assert found, line
        process, kind, f, key = int(found[1]), found[2], found[3], found[4]
        value = None if found[5] == "nil" else found[6]
        if kind == "invoke":
            calls[process] = (at, f, key, value)
            continue
        call, f, key, written = calls.pop(process)
        output = value if f == "get" else None
        done.append(Operation(process, f, key, written, call=call, ret=at, output=output))
    return sorted(done, key=lambda op: op.call)


def truth() -> dict[str, bool]:
    """Linearizable or not, by the path under the shared histories."""
    import json

    verdicts: dict[str, bool] = json.loads((SHARED / "truth.json").read_text())
    return verdicts


def files(names: Iterable[str]) -> list[Path]:
    """Paths of the shared histories."""
    return [SHARED / name for name in names]
