"""Digests of what a fixed set of simulated runs writes: a change of the code that should not change
what happens leaves every line as it was.

    python -m benches.sweep_digest [--every 7] > before
    ... change the code ...
    python -m benches.sweep_digest [--every 7] | diff before -

The runs are every seventh cell of `benches.sim_sweep`, each with a seed of its own, once with a
repaired protocol and once with that of a version, whose defects the checkers find and the triage
explains. A line has the cell, the verdict, and the first digits of the digests of history.jsonl and
of results.json without the time that checking took.
"""

import argparse
import contextlib
import hashlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benches.sim_sweep import arguments, cells
from harness.cli.main import app

SEED = 0xD16E57
REAL = {"repaired": "18.16", "repaired-25.8": "25.8"}
"""Protocols with a version's defects, in place of the repaired ones."""


def commands(every: int) -> Iterator[list[str]]:
    """Yield the arguments of each run."""
    for number, (workload, nemesis) in enumerate(cells()[::every]):
        for real in (False, True):
            words = arguments(workload, nemesis)
            at = words.index("--protocol") + 1
            if real:
                words[at] = REAL[words[at]]
                if "--read" in words:
                    del words[words.index("--read") : words.index("--read") + 2]
            yield [*words, "--seed", hex(SEED + number)]


def digests(words: list[str]) -> tuple[str, str, str]:
    """Execute `harness run`; return its status, and the digests of its history and its results."""
    with tempfile.TemporaryDirectory() as store:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app.main(["run", *words, "--store", store], standalone_mode=False)
        (history,) = Path(store).glob("*/2*/history.jsonl")
        results = json.loads(history.with_name("results.json").read_text())
        for verdict in results["verdicts"]:
            del verdict["seconds"]
        return results["status"], digest(history.read_bytes()), digest(json.dumps(results).encode())


def digest(data: bytes) -> str:
    """Return the first 16 digits of the SHA-256 digest."""
    return hashlib.sha256(data).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=7)
    total = hashlib.sha256()
    for words in commands(parser.parse_args().every):
        line = " ".join([*words[1:4:2], *words[words.index("--protocol") :], *digests(words)])
        total.update(line.encode())
        print(line, flush=True)
    print(total.hexdigest()[:16])


if __name__ == "__main__":
    main()
