"""Tells somebody that a night is over: runs a shell command, or posts to a URL."""

import json
import subprocess
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from harness.core.op import Json
from harness.core.time_limit import OutOfTime, time_limit
from harness.nights.night_text import lines

LIMIT_S: Final = 60.0
"""Time that a command or a server has."""
_ERROR_CHARS: Final = 300


class _NoRedirect(HTTPRedirectHandler):
    """Makes an error of a redirect: what follows it is sent no body."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request."""


def _slack(text: list[str]) -> Mapping[str, Json]:
    """Return a message of Slack's incoming webhooks, whose text has three characters of its own."""
    escaped = "\n".join(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped}


def _teams(text: list[str]) -> Mapping[str, Json]:
    """Return a message of a workflow of Teams: an adaptive card."""
    first, *others = text
    blocks: list[Json] = [{"type": "TextBlock", "text": first, "wrap": True, "weight": "bolder"}]
    blocks += [
        {"type": "TextBlock", "text": one, "wrap": True, "spacing": "small"} for one in others
    ]
    card: dict[str, Json] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


CHATS: Final[Mapping[str, Callable[[list[str]], Mapping[str, Json]]]] = {
    "slack": _slack,
    "teams": _teams,
}
"""Bodies of the POST that tells a chat, by the prefix of its URL."""


def notify(target: str, report: Mapping[str, Json]) -> str | None:
    """Give the summary of a night, as JSON, to a shell command on its standard input or to a URL as
    the body of a POST; "slack:URL" and "teams:URL" are sent what these take. Return why that
    failed; None if it did not."""
    chat, _, url = target.partition(":")
    try:
        if chat in CHATS:
            return _post(url, CHATS[chat](lines(report)))
        if target.startswith(("http://", "https://")):
            return _post(target, report)
        said = subprocess.run(  # noqa: S602 # the user's own command
            target,
            shell=True,
            input=json.dumps(report),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except (HTTPException, OSError, ValueError, subprocess.SubprocessError) as error:
        return f"{target}: {error}"
    if said.returncode == 0:
        return None
    return f"{target}: exit status {said.returncode}: {said.stderr.strip()[-_ERROR_CHARS:]}"


def _post(url: str, report: Mapping[str, Json]) -> str | None:
    """Return why a server refuses a report; None if it takes it. Raises OSError, HTTPException and
    ValueError."""
    headers = {"Content-Type": "application/json"}
    request = Request(url, json.dumps(report).encode(), headers)  # noqa: S310 # http or https
    try:
        with time_limit(LIMIT_S):  # that of a connection begins anew with each byte
            try:
                build_opener(_NoRedirect).open(request, timeout=LIMIT_S).close()
            except HTTPError as error:
                with error:
                    text = error.read(_ERROR_CHARS).decode(errors="replace")
                    to = f" to {error.headers['Location']}" if "Location" in error.headers else ""
                    return f"{url}: {error.code} {error.reason}{to}: {text}"
    except OutOfTime:
        return f"{url}: no answer within {LIMIT_S:g} s"
    return None
