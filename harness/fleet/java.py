"""The Java that Spark runs on."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.core.errors import UsageError

JAVA_MIN: Final = 17


def require_java() -> Path:
    """Return the path of the Java that Spark will use. Raises UsageError if there is none or it is
    too old."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = (
        f"Spark needs Java {JAVA_MIN} or newer; on Debian: apt install openjdk-17-jre-headless; "
        "elsewhere set JAVA_HOME"
    )
    if found is None:
        raise UsageError(f"java: not found in PATH, and JAVA_HOME is not set; {advice}")
    try:
        done = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(f"java {found}: cannot be run: {error.strerror}; {advice}") from error
    version = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        output = (done.stderr or done.stdout).strip().split("\n")[0]
        raise UsageError(f"java {found}: is {output!r}; {advice}")
    return Path(found)
