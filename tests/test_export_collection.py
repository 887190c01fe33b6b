"""The folder of all reproductions, and what several of them share."""

import os
import re
from pathlib import Path

from export_cases import EXPORTED, export_by_command, exported

from harness.export.collection import collection

FOLDER = Path(__file__).parent.parent / "docs" / "reproductions"


def test_the_folder_of_reproductions_has_what_the_command_writes(tmp_path: Path) -> None:
    """If not: `rm -r docs/reproductions; harness export all --to docs/reproductions`."""
    assert export_by_command("all", "--to", str(tmp_path)).exit_code == 0
    assert texts(FOLDER) == texts(tmp_path)
    assert {path.parent.name for path in FOLDER.glob("*/reproduce.sh")} == {*EXPORTED}
    assert all(os.access(path, os.X_OK) for path in FOLDER.glob("*/reproduce.sh"))


def texts(directory: Path) -> dict[str, str]:
    """Return the texts of all files by their paths in a directory."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def test_what_a_script_and_its_servers_share_with_others_is_there() -> None:
    for script in FOLDER.glob("*/reproduce.sh"):
        compose = (script.parent / "compose.yml").read_text()
        named = re.findall(r'"(\.[^:"]+):', compose) + re.findall(
            r"(?m)^\. (\S+)", script.read_text()
        )
        assert len(named) >= 5  # settings of four servers, and the library
        assert all((script.parent / name).exists() for name in named)


def test_scenarios_whose_servers_are_configured_alike_share_the_configuration() -> None:
    files = collection([exported(name) for name in ("stale-read", "moved-away", "half-alter")])
    configured = [name for name in files if name.endswith("/ch1/config.xml")]
    assert configured == ["shared/config-1/ch1/config.xml", "shared/config-2/ch1/config.xml"]
    assert "../shared/config-1/ch1" in files["moved-away/compose.yml"]
    assert "../shared/proxy.py:/proxy.py:ro" in files["half-alter/compose.yml"]
    assert "\n. ../shared/library.sh\n" in files["stale-read/reproduce.sh"]


def test_a_reproduction_of_its_own_needs_no_other_directory() -> None:
    files = exported("half-alter").files()
    assert {"reproduce.sh", "compose.yml", "proxy.py", "config/ch1/config.xml"} <= {*files}
    assert ".." not in files["compose.yml"]
    assert "\nawait_server() {" in files["reproduce.sh"]
