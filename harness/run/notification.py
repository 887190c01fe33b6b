"""Tells somebody that a night is over: runs a command, or posts to a URL."""

import json
import shlex
import subprocess
from collections.abc import Mapping
from typing import Final

import requests

from harness.core.op import Json

LIMIT_S: Final = 60.0
"""Time that a command or a server has."""
_ERROR_CHARS: Final = 300


def notify(target: str, report: Mapping[str, Json]) -> str | None:
    """Give the summary of a night, as JSON, to a command on its standard input or to a URL as the
    body of a POST. Return why that failed; None if it did not."""
    try:
        if target.startswith(("http://", "https://")):
            return _refusal(requests.post(target, json=report, timeout=LIMIT_S))
        said = subprocess.run(  # the user's own command
            shlex.split(target),
            input=json.dumps(report),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except (requests.RequestException, OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{target}: {error}"
    if said.returncode == 0:
        return None
    return f"{target}: exit status {said.returncode}: {said.stderr.strip()[-_ERROR_CHARS:]}"


def _refusal(answer: requests.Response) -> str | None:
    if answer.ok:
        return None
    return f"{answer.url}: {answer.status_code} {answer.reason}: {answer.text[:_ERROR_CHARS]}"
