"""Newest ClickHouse engine, unpacked where a Python process can load it.

Run as a program, it downloads the engine and prints its directory.
"""

import shutil
import tempfile
import zipfile
from pathlib import Path

from compose.releases import NEWEST_ENGINE
from harness.clusters import build_inputs
from harness.clusters.own_directory import locked, own_directory


def newest_engine() -> Path:
    """Return the directory that `import chdb` needs in sys.path.

    The wheel is downloaded if it is not in the user's cache; two processes may call this at once.
    Import it in a separate process: the library replaces signal handlers, starts threads and limits
    memory. Raises ClusterError with one reason.
    """
    assert NEWEST_ENGINE.wheel is not None, "the newest engine is in a wheel"
    cache = own_directory()
    there = cache / f"engine-{NEWEST_ENGINE.wheel.sha256[:16]}"
    with locked("engine"):
        if not there.is_dir():
            with tempfile.TemporaryDirectory(dir=cache) as name:
                work = Path(name)
                build_inputs.fetch(NEWEST_ENGINE, work)
                unpacked = work / "unpacked"
                with zipfile.ZipFile(work / build_inputs.WHEEL_FILE) as wheel:
                    wheel.extractall(unpacked)
                # The last step is atomic, so a directory that exists is complete.
                shutil.move(unpacked, there)
    return there


if __name__ == "__main__":
    print(newest_engine())
