"""Flame graphs of two checks in docs/: a key-value store, and a register with compare-and-set.

    python -m benches.porcupine_flames [DIRECTORY]

Needs `perf`, the programs of `cargo install inferno`, and a pyporcupine with symbols:
`CARGO_PROFILE_RELEASE_DEBUG=1 cargo build --release --features python` in crates/porcupine, and
target/release/libpyporcupine.so in front on PYTHONPATH as pyporcupine.abi3.so. Samples are of CPU
time; what is not under the check is left out.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
# name: (row of porcupine.py, how often it is checked)
PICTURES = {
    "kv": ("kv keys=100 n=100,000 c=10", 100),
    "cas5": ("cas5 n=1,000 c=10", 1000),
}
CHECK = "python::check::check"
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import pyporcupine
from benches import porcupine as bench
from benches import porcupine_histories as histories
kind, n, c, more, _, _ = bench.ROWS[sys.argv[2]]
model, initial = bench.MODELS[kind]
table = bench.as_arrow(histories.synthetic(kind, n, c, **more))
for _ in range(int(sys.argv[3])):
    pyporcupine.check(table, model, initial=initial, threads=1, witness=False)
"""


def stacks(row: str, times: int, directory: Path) -> list[str]:
    """Return the samples as lines "a;b;c count", with stacks that begin at the check."""
    data = directory / "perf.data"
    record = [
        "perf",
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "999",
        "--call-graph",
        "dwarf,32768",
        "-o",
        str(data),
        "--",
    ]
    program = [sys.executable, "-c", RUN, str(Path(__file__).parent.parent), row, str(times)]
    subprocess.run([*record, *program], check=True)
    script = subprocess.run(
        ["perf", "script", "-i", str(data)], check=True, capture_output=True, text=True
    ).stdout
    folded = subprocess.run(
        ["inferno-collapse-perf"], check=True, capture_output=True, text=True, input=script
    ).stdout
    kept = []
    for line in folded.splitlines():
        frames = line.split(";")
        at = next((i for i, frame in enumerate(frames) if CHECK in frame), None)
        if at is not None:
            kept.append(";".join(frames[at:]))
    return kept


def main() -> None:
    into = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    for name, (row, times) in PICTURES.items():
        with tempfile.TemporaryDirectory() as directory:
            kept = stacks(row, times, Path(directory))
        look = ["--title", row, "--colors", "rust", "--width", "1200", "--minwidth", "0.4"]
        svg = subprocess.run(
            ["inferno-flamegraph", *look],
            check=True, capture_output=True, text=True, input="\n".join(kept) + "\n",
        ).stdout  # fmt: skip
        (into / f"porcupine-{name}.svg").write_text(svg)
        print(into / f"porcupine-{name}.svg", len(kept), "stacks")


if __name__ == "__main__":
    main()
