"""The store as pages. No request changes a run, except that its report may be drawn."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
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
from checkers.phrasing import number as counted
from harness.core.errors import HarnessError
from harness.core.verdict import Status
from harness.nights.night_summary import unexplained_first
from harness.report.page import environment as report_environment
from harness.report.page import page, script_hash, style
from harness.report.run_files import archive, draw, facts_in
from harness.run.rates import EXCLUDED, percent
from harness.store.conditions import DEFAULTS
from harness.store.store import RunDirectory, Store
from harness.web.diff import causes_of, diff, parts
from harness.web.live import Tail
from harness.web.matrix import heat_map_of
from harness.web.navigation import linked, neighbours_of, night_by_run, own_file
from harness.web.nights import Nights, NightView
from harness.web.runs import ALL, Query, Runs
from harness.web.shared import Made
from harness.web.summary import EXPLAINED, GROUPS, STATUSES, Summary
from harness.web.trends import settings_table, trends

ROWS: Final = 100
"""Number of runs on a page of the list."""
NIGHTS_LINKED: Final = 8
"""Number of nights to which the matrix leads."""
LISTS_MAX: Final = 32
"""Number of pages of the list that are kept as they were sent, of some 100 KB each."""
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
    made.filters["night_url"] = night_url
    made.filters["cell_url"] = cell_url
    made.filters["percent"] = percent
    made.globals["DEFAULTS"] = DEFAULTS
    made.globals["counted"] = counted
    return made


def run_url(name: str) -> str:
    """Return the URL of a run's report; a name may contain whatever a file name may."""
    return "/run/" + quote(os.fsencode(name))


def cell_url(run: Summary) -> str:
    """Return the URL of the list of all runs of a run's cell."""
    cell = ("workload", run.workload), ("nemesis", run.nemesis), ("settings", run.settings)
    return "/?" + urlencode([*cell, ("version", run.version), ("group", run.group)])


def night_url(name: str) -> str:
    """Return the URL of a night."""
    return "/night/" + quote(os.fsencode(name))


def app(store: Store, hosts: tuple[str, ...]) -> Starlette:
    """Return the application. It answers only under the host names `hosts`, which defeats DNS
    rebinding."""
    pages = _Pages(Runs(store), Nights(store))
    route = Callable[[Request], Response]
    routes: Mapping[str, route] = {
        "/": pages.runs,
        "/matrix": pages.matrix,
        "/nights": pages.nights,
        "/night/{matrix}/{stamp}": pages.night,
        "/staleness": pages.staleness,
        "/settings": lambda _: RedirectResponse("/staleness"),  # its name before
        "/diff": pages.diff,
        "/run/{folder}/{name}": pages.report,
        "/run/{folder}/{name}/live": pages.live,
        "/run/{folder}/{name}/shrunk": pages.shrunk,
        "/run/{folder}/{name}/figures": pages.figures,
        "/run/{folder}/{name}/archive": pages.archive,
        "/run/{folder}/{name}/logs/{node}/{file}": pages.log,
    }
    return Starlette(
        routes=[Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: pages.refused, HarnessError: pages.failed},
    )


class _Pages:
    """Handlers of the pages. Each reads files, so none is a coroutine: starlette runs it in a
    thread, and a slow disk or a large journal does not delay other pages."""

    def __init__(self, runs: Runs, nights: Nights) -> None:
        self._runs, self._nights = runs, nights
        self._tails: dict[Path, Tail] = {}
        self._lists = Made[bytes](LISTS_MAX)

    def runs(self, request: Request) -> Response:
        """Show the list of runs."""
        query = Query.of(request.query_params)
        first = _number(request.query_params.get("first", "0"))
        stored, nights = self._runs.all(), self._nights.all()
        page = self._lists.get(
            (stored, nights), (query, first), lambda: self._list(query, first, stored, nights)
        )
        return HTMLResponse(page, headers=HEADERS)

    def _list(
        self, query: Query, first: int, stored: Sequence[Summary], nights: Sequence[NightView]
    ) -> bytes:
        """Return a page of the list, which begins with the run of this index."""
        counts = Counter(run.group for run in stored)
        every = [run for run in stored if query.group in (ALL, run.group)]
        chosen = query.chosen(every)
        current = {name: getattr(query, name) for name in Query.__slots__}

        def link(**other: object) -> str:
            changed = {**current, **other}
            changed = {
                **changed,
                "group": changed["group"] if changed["group"] != GROUPS[0] else "",
            }
            return "/?" + urlencode({name: value for name, value in changed.items() if value})

        return _rendered(
            "runs.html.j2",
            script="filters.js",
            query=query,
            runs=chosen[first : first + ROWS],
            total=len(chosen),
            every=len(every),
            first=first,
            rows=ROWS,
            link=link,
            groups={**{group: counts[group] for group in GROUPS}, ALL: len(stored)},
            nights=night_by_run(nights),
            statuses=(*STATUSES, EXPLAINED),
            choices={
                name: sorted({getattr(run, name) for run in every})
                for name in ("workload", "nemesis")
            }
            | {
                "settings": sorted({run.settings for run in every}),
                "kind": sorted({kind for run in every for kind in run.kinds}),
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
            nights=self._nights.all()[: -NIGHTS_LINKED - 1 : -1],
            shown=Counter(run.group for run in every),
            urlencode=urlencode,
        )

    def diff(self, request: Request) -> Response:
        """Show two runs side by side."""
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise HTTPException(
                400,
                f"A comparison needs two runs, not {len(names)}: select two in the list of runs.",
            )
        left, right = [self._named(*name.partition("/")[::2]) for name in names]
        a = facts_in(left)
        b = facts_in(right)
        lines = diff(a, b)
        return _html(
            "diff.html.j2", left=a, right=b, lines=lines, parts=parts(lines), causes=causes_of(a, b)
        )

    def nights(self, request: Request) -> Response:
        """Show the nights of a matrix, and the trends of its cells."""
        every = self._nights.all()
        matrices = sorted({view.matrix for view in every})
        latest = every[-1].matrix if every else ""
        matrix = request.query_params.get("matrix", latest)
        views = [view for view in every if view.matrix == matrix]
        runs = {run.name: run for run in self._runs.all()}
        return _html(
            "nights.html.j2",
            nights=views[::-1],
            matrix=matrix,
            matrices=matrices,
            trends=trends(views, runs),
        )

    def night(self, request: Request) -> Response:
        """Show one night."""
        name = f"{request.path_params['matrix']}/{request.path_params['stamp']}"
        every = self._nights.all()
        view = next((one for one in every if one.name == name), None)
        if view is None:
            raise HTTPException(404, f"There is no night {name} in {self._runs.store.root}.")
        chain = [one for one in every if one.matrix == view.matrix and one.stamp <= view.stamp]
        later = (one for one in every if one.matrix == view.matrix and one.stamp > view.stamp)
        by_cell = {trend.cell: trend for trend in trends(chain, {})}
        return _html(
            "night.html.j2",
            view=view,
            later=next(later, None),
            trends=by_cell,
            runs={run.name: run for run in self._runs.all()},
            slots=unexplained_first([s for s in view.slots if s.verdict is not Status.VALID]),
            excluded=percent(EXCLUDED),
        )

    def staleness(self, request: Request) -> Response:
        """Show how stale reads are by settings."""
        query = Query.of(request.query_params)
        chosen = query.chosen(self._runs.all())
        return _html("staleness.html.j2", rows=settings_table(chosen), query=query)

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
        else:
            text = run.report.read_bytes()
        return self._linked(run, text, "report")

    def shrunk(self, request: Request) -> Response:
        """Show a run before and after it was shrunk."""
        run = self._run(request)
        file = own_file(run, run.shrunk_page.name)
        if file is None:
            raise HTTPException(
                404, f"{_name(run)} was not shrunk: it has no {run.shrunk_page.name}."
            )
        return self._linked(run, file.read_bytes(), "shrunk")

    def _linked(self, run: RunDirectory, text: bytes, page: str) -> Response:
        """Return a stored page of a run with links out of it."""
        found = neighbours_of(_name(run), self._runs.all(), self._nights.all())
        shrunk = own_file(run, run.shrunk_page.name) is not None
        navigation = environment().get_template("out.html.j2").render(
            at=found, page=page, shrunk=shrunk, urlencode=urlencode
        )  # fmt: skip
        return HTMLResponse(linked(text, navigation, run_url(_name(run))), headers=SANDBOXED)

    def log(self, request: Request) -> Response:
        """Return a log of a run as plain text, or a packed one as a file."""
        run = self._run(request)
        node, name = request.path_params["node"], request.path_params["file"]
        path = own_file(run, run.logs.name, node, name)
        if path is None:
            raise HTTPException(404, f"There is no log {node}/{name} of {_name(run)}.")
        text = path.suffix == ".log"
        return FileResponse(
            path,
            filename=None if text else f"{node}-{name}",
            media_type="text/plain; charset=utf-8" if text else "application/octet-stream",
            headers=SANDBOXED,
        )

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
            # A client may leave before the run ends.
            over = [p for p in [*self._tails] if not (p.is_dir() and RunDirectory(p).alive)]
            for path in over:
                self._tails.pop(path, None)
            promised = run.info().spec.promise == Level.LINEARIZABLE.value
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
        status = HTTPStatus(error.status_code)
        # Starlette's own errors have no text but the title.
        unknown = status is HTTPStatus.NOT_FOUND and error.detail == status.phrase
        what = "There is no page at this address." if unknown else error.detail
        return _html("refused.html.j2", status, title=status.phrase.capitalize(), what=what)

    def failed(self, _request: Request, error: Exception) -> Response:
        """Show the error of a run with invalid files."""
        return _html("refused.html.j2", 500, title="A run cannot be read", what=str(error))

    def _run(self, request: Request) -> RunDirectory:
        return self._named(request.path_params["folder"], request.path_params["name"])

    def _named(self, folder: str, name: str) -> RunDirectory:
        run = self._runs.find(folder, name)
        if run is None:
            raise HTTPException(404, f"There is no run {folder}/{name} in {self._runs.store.root}.")
        return run


def _html(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_rendered(template, **values), status, headers=HEADERS)


def _rendered(template: str, *, script: str = "", **values: Any) -> bytes:
    text = (Path(__file__).parent / "assets" / script).read_text("utf-8") if script else ""
    own_style = (Path(__file__).parent / "assets/web.css").read_text("utf-8")
    made = environment().get_template(template).render(
        here=template.partition(".")[0],
        style=style() + Markup(own_style),  # noqa: S704 # a file of this room
        script=Markup(text),  # noqa: S704
        script_hash=script_hash(text),
        **values,
    )  # fmt: skip
    return made.encode(errors="replace")


def _name(run: RunDirectory) -> str:
    return f"{run.path.parent.name}/{run.path.name}"


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
