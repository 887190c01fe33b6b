"""The list of runs of `harness serve`: one client, and then many at once.

    python -m benches.serve [runs] [clients] [seconds]

The store has 5,000 runs by default: a few simulated ones, copied. The clients ask for the list
over and over, each on one connection, for some seconds. The ratio is that of the medians.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlsplit

HARNESS = (sys.executable, "-m", "harness.cli.main")
SIMULATED = 10
"""Number of runs that are not copies."""
COPIED = ("run.json", "results.json", "history.jsonl", "history.parquet")


def fill(store: Path, runs: int) -> None:
    """Create a store of this many runs."""
    chosen = ["--cluster", "sim", "--time-limit", "2", "--rate", "40", "--seed", "1"]
    subprocess.run(
        [*HARNESS, "run", *chosen, "--count", str(SIMULATED), "--store", str(store)],
        stdout=subprocess.DEVNULL,
        check=False,  # the exit code is the worst verdict
    )
    originals = [path.parent for path in store.glob("*/*/run.json") if not path.parent.is_symlink()]
    for number in range(runs - len(originals)):
        original = originals[number % len(originals)]
        copy = original.with_name(f"{original.name}-{number}")
        copy.mkdir()
        for name in COPIED:
            if (original / name).exists():
                shutil.copy(original / name, copy)


@contextmanager
def served(store: Path) -> Iterator[str]:
    """Serve the store in a process of its own, and yield host and port."""
    command = [*HARNESS, "serve", "--store", str(store), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield urlsplit(json.loads(server.stdout.readline())["address"]).netloc
        finally:
            server.terminate()


def latencies_s(address: str, clients: int, seconds: float) -> list[float]:
    """Return how long each answer took."""
    latencies: list[float] = []
    end = time.monotonic() + seconds

    def client() -> None:
        connection = HTTPConnection(address)
        while True:
            begun = time.monotonic()
            connection.request("GET", "/")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            latencies.append(time.monotonic() - begun)
            if time.monotonic() > end:
                break
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def main(runs: int = 5000, clients: int = 20, seconds: int = 20) -> None:
    """Print the latencies of one client and of many, and the ratio of their medians."""
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "store"
        fill(store, runs)
        with served(store) as address:
            latencies_s(address, 1, 0)  # caches warm
            medians = []
            for number in (1, clients):
                found = latencies_s(address, number, seconds)
                medians.append(median(found))
                print(
                    f"{number:3} clients   {len(found):6} answers   median {medians[-1]:.3f} s   "
                    f"95th percentile {quantiles(found, n=20)[-1]:.3f} s"
                )
            print(f"ratio of the medians {medians[1] / medians[0]:.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
