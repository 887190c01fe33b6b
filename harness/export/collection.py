"""Reproductions of several scenarios: a directory for each, and one for what they share."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.export.reproduction import (
    CONFIG,
    LIBRARY,
    ExportedScenario,
    library_text,
    render_template,
)

SHARED: Final = "shared"


def collection(several: Sequence[ExportedScenario]) -> Mapping[str, str]:
    """Return the text of each file by its name. Scenarios whose servers are configured alike share
    a directory of configuration. There is no statements.sql: reproduce.sh has the statements."""
    files = {
        "README.md": render_template(
            "collection.md.j2", several=several, engines=[*{one.engines: None for one in several}]
        ),
        f"{SHARED}/{LIBRARY}": "# Functions of each reproduce.sh, which sources them.\n\n"
        + library_text(),
    }
    places: dict[tuple[tuple[str, str], ...], str] = {}
    for one in several:
        config = tuple(one.config.items())
        place = places.setdefault(config, f"{CONFIG}-{len(places) + 1}")
        files |= {f"{SHARED}/{place}/{name}": text for name, text in config}
        files |= {f"{SHARED}/{name}": text for name, text in one.proxy.items()}
        own = one.own_files(f"../{SHARED}", place)
        files |= {
            f"{one.scenario.name}/{name}": own[name] for name in ("reproduce.sh", "compose.yml")
        }
    return files
