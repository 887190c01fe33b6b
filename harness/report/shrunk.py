"""shrunk.html: a run before and after it was shrunk, on one self-contained page."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.report.facts import Facts
from harness.report.page import asset, environment, script_hash, style
from harness.report.story import sentences
from harness.report.witness import picture_of


def write_comparison(
    path: Path, runs: Sequence[Facts], sizes: Mapping[str, Any], script: str
) -> str | None:
    """Write the page of two runs, before and after; `sizes` is the result as JSON and `script` the
    file of the shrunk run. Return why it was not drawn, and never raise: the script is written."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        copying = asset("page.js")
        shown = [
            {
                "facts": facts,
                "sentences": sentences(facts),
                "picture": None
                if facts.witness is None or facts.history is None
                else picture_of(facts.history, facts.witness[1]),
            }
            for facts in runs
        ]
        text = (
            environment()
            .get_template("shrunk.html.j2")
            .render(
                runs=shown,
                sizes=sizes,
                script=script,
                style=style(),
                copying=Markup(copying),  # noqa: S704
                script_hash=script_hash(copying),
            )
        )
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(path)
    except Exception as error:
        return f"{path.name} was not drawn: {type(error).__name__}: {error}"
    finally:
        partial.unlink(missing_ok=True)
    return None
