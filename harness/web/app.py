"""The store as pages. No request changes a run, except that its report may be drawn."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from checkers.ladder import Level
from harness.core.errors import HarnessError
from harness.report.page import asset as report_asset
from harness.report.page import environment as report_environment
from harness.report.page import page, script_hash
from harness.run.store import RunDirectory, Store
from harness.web.diff import diff, parts
from harness.web.live import Tail
from harness.web.matrix import heat_map_of
from harness.web.run_files import archive, draw, facts_in
from harness.web.runs import SORTS, STATUSES, Query, Runs

ROWS: Final = 200
"""Number of runs on a page of the list."""
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
SANDBOXED: Final = HEADERS | {"Content-Security-Policy": "sandbox allow-scripts"}
"""Headers of a stored report, which others may have written and which must not read other pages."""


@cache
def environment() -> jinja2.Environment:
    """Return the environment of the templates of reports and pages, which escapes every value."""
    loaders = [jinja2.PackageLoader("harness.web"), report_environment().loader]
    made = report_environment().overlay(loader=jinja2.ChoiceLoader([x for x in loaders if x]))
    made.filters["run_url"] = run_url
    return made


def run_url(name: str) -> str:
    """Return the URL of a run's report; a name may contain whatever a file name may."""
    return "/run/" + quote(os.fsencode(name))


def app(store: Store, hosts: tuple[str, ...]) -> Starlette:
    """Return the application. It answers only under the host names `hosts`, which defeats DNS
    rebinding."""
    pages = _Pages(Runs(store))
    route = Callable[[Request], Response]
    routes: Mapping[str, route] = {
        "/": pages.runs,
        "/matrix": pages.matrix,
        "/diff": pages.diff,
        "/run/{folder}/{name}": pages.report,
        "/run/{folder}/{name}/live": pages.live,
        "/run/{folder}/{name}/figures": pages.figures,
        "/run/{folder}/{name}/archive": pages.archive,
    }
    return Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: pages.refused, HarnessError: pages.failed},
    )


class _Pages:
    """Handlers of the pages. Each reads files, so none is a coroutine: starlette runs it in a
    thread, and a slow disk or a large journal does not delay other pages."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._tails: dict[Path, Tail] = {}

    def runs(self, request: Request) -> Response:
        """Show the list of runs."""
        query = Query.of(request.query_params)
        every = self._runs.all()
        chosen = query.chosen(every)
        first = _number(request.query_params.get("first", "0"))
        current = {name: getattr(query, name) for name in Query.__slots__}

        def link(**other: object) -> str:
            changed = {**current, **other}
            return "/?" + urlencode({name: value for name, value in changed.items() if value})

        return _html(
            "runs.html.j2",
            query=query,
            runs=chosen[first : first + ROWS],
            total=len(chosen),
            every=len(every),
            first=first,
            rows=ROWS,
            link=link,
            sorts=tuple(SORTS),
            statuses=STATUSES,
            choices={
                name: sorted({getattr(run, name) for run in every})
                for name in ("workload", "nemesis")
            },
            # Includes the query of a matrix cell: the versions of all servers, joined.
            versions=sorted(
                {version for run in every for version in run.versions}
                | ({query.version} if query.version else set())
            ),
            store=str(self._runs.store.root),
        )

    def matrix(self, request: Request) -> Response:
        """Show the heat map."""
        query = Query.of(request.query_params)
        every = self._runs.all()
        chosen = query.chosen(every)
        days = sorted({run.date for run in every if run.date}, reverse=True)
        return _html(
            "matrix.html.j2",
            matrix=heat_map_of(chosen),
            query=query,
            total=len(chosen),
            days=days,
            urlencode=urlencode,
        )

    def diff(self, request: Request) -> Response:
        """Show two runs side by side."""
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise HTTPException(400, f"{len(names)} runs given; select two in the list")
        left, right = [self._named(*name.partition("/")[::2]) for name in names]
        a = facts_in(left)
        b = facts_in(right)
        lines = diff(a, b)
        return _html("diff.html.j2", left=a, right=b, lines=lines, parts=parts(lines))

    def report(self, request: Request) -> Response:
        """Show a run's report; redirect to the live page of a run that is not over."""
        run = self._run(request)
        if run.alive:
            return RedirectResponse(run_url(_name(run)) + "/live")
        drawn = _modified(run.report)
        if drawn < max(_modified(run.info_file), _modified(run.results_file)):
            draw(run)
        if run.report.is_symlink() or not run.report.is_file():
            # The report leads elsewhere, the store is read-only, or drawing failed: then this
            # raises the error.
            text = page(facts_in(run)).encode(errors="replace")
            return HTMLResponse(text, headers=SANDBOXED)
        return FileResponse(run.report, media_type="text/html", headers=SANDBOXED)

    def live(self, request: Request) -> Response:
        """Show the live page of a run, which a script updates."""
        run = self._run(request)
        if not run.alive:
            return RedirectResponse(run_url(_name(run)))
        return _html("live.html.j2", script="live.js", run=_name(run), info=run.info())

    def figures(self, request: Request) -> Response:
        """Return the figures of a live run as JSON."""
        run = self._run(request)
        alive = run.alive
        tail = self._tails.get(run.path)
        if tail is None:
            promised = run.info().plan.promise == Level.LINEARIZABLE.value
            tail = self._tails.setdefault(run.path, Tail(run.journal, promised))
        figures = tail.read()
        if not alive:
            self._tails.pop(run.path, None)
        return JSONResponse({"alive": alive, **figures}, headers=HEADERS)

    def archive(self, request: Request) -> Response:
        """Return all files of a run as an archive."""
        run = self._run(request)
        file = archive(run.path)
        name = f"{run.path.parent.name}-{run.path.name}.tar.gz"
        remove = BackgroundTask(file.unlink, missing_ok=True)
        return FileResponse(file, filename=name, background=remove, headers=HEADERS)

    def refused(self, _request: Request, error: Exception) -> Response:
        """Show an HTTP error."""
        assert isinstance(error, HTTPException)
        return _html("refused.html.j2", error.status_code, what=error.detail)

    def failed(self, _request: Request, error: Exception) -> Response:
        """Show the error of a run with invalid files."""
        return _html("refused.html.j2", 500, what=str(error))

    def _run(self, request: Request) -> RunDirectory:
        return self._named(request.path_params["folder"], request.path_params["name"])

    def _named(self, folder: str, name: str) -> RunDirectory:
        run = self._runs.find(folder, name)
        if run is None:
            raise HTTPException(404, f"no run {folder}/{name} in {self._runs.store.root}")
        return run


def _html(template: str, status: int = 200, *, script: str = "", **values: Any) -> HTMLResponse:
    text = (Path(__file__).parent / "assets" / script).read_text("utf-8") if script else ""
    style = report_asset("page.css") + (Path(__file__).parent / "assets/web.css").read_text("utf-8")
    made = environment().get_template(template).render(
        here=template.partition(".")[0],
        style=Markup(style),  # noqa: S704 # files of ours
        script=Markup(text),  # noqa: S704
        script_hash=script_hash(text),
        **values,
    )  # fmt: skip
    return HTMLResponse(made.encode(errors="replace"), status, headers=HEADERS)


def _name(run: RunDirectory) -> str:
    return f"{run.path.parent.name}/{run.path.name}"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
