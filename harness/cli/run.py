"""`harness run`: run a workload under faults, once or several times on one cluster."""

import gc
from collections.abc import Sequence

import rich_click as click
from click.core import ParameterSource
from rich.console import Console

from harness.cli.options import COMMON, invocation_of, run_options, spec_of
from harness.cli.paneled_help import PaneledCommand
from harness.cli.run_output import RunOutput, isolated, report_of
from harness.cli.terminal import Terminal
from harness.core.errors import EXIT_CRASH, HarnessError, UsageError
from harness.run.campaign import Campaign
from harness.run.run_request import RunRequest
from harness.run.stop import Stop
from harness.spec.run_options import OPTIONS


@click.command("run", cls=PaneledCommand, common=COMMON)
@run_options
@click.pass_context
def run(context: click.RichContext, /, **_: object) -> int:
    """Run operations and faults against a cluster, and decide whether it kept its word.

    Brings the cluster up, runs the workload under the nemesis, heals, waits until the cluster
    is quiescent, reads everything on every replica, and judges the history.
    """
    request = _request(context)
    options = request.invocation
    console = Terminal(stderr=options.as_json)
    if request.no_engine is not None:
        console.print(f"simulated servers: {request.no_engine}", style="yellow", highlight=False)
    output = RunOutput(console, options.count, options.as_json)
    console.warn(request.store.prepare())
    gc.freeze()  # exempt the loaded modules from every later collection
    stop = Stop()
    with stop.obeying_signals():
        campaign = request.campaign(output.shown, stop)
        try:
            if options.jobs > 1:
                from harness.run.jobs import side_by_side  # slow to load

                with output.side_by_side():
                    made = isolated(request)
                    for report in side_by_side(made, range(options.count), options.jobs, stop):
                        output.finished(report)
            else:
                campaign.run(request.specs(), lambda run: output.finished(report_of(run, options)))
        except HarnessError as error:
            if not (options.as_json and output.reports):
                raise
            output.reports[-1]["error"] = str(error)
    _say_what_is_left(console, campaign, stop)
    output.end(open_=options.open_)
    if output.reports and "error" in output.reports[-1]:
        return EXIT_CRASH
    return output.status.exit_status


def request_for(words: Sequence[str]) -> RunRequest:
    """Return the request of a command line, without its first words. Raises UsageError."""
    try:
        return _request(run.make_context("run", [*words]))
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error


def _request(context: click.Context) -> RunRequest:
    typed = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    stated = frozenset(
        name
        for name, entry in OPTIONS.items()
        if context.get_parameter_source(entry.parameter) in typed
    )
    spec, invocation = spec_of(context.params), invocation_of(context.params)
    return RunRequest(spec, invocation, stated=stated)


def _say_what_is_left(console: Console, campaign: Campaign, stop: Stop) -> None:
    """Print how to use and to remove a cluster that was kept."""
    if not campaign.clusters.leave or campaign.clusters.files is None:
        return
    if stop.frozen:
        pods = f"docker ps -qf name={campaign.clusters.files.name}-.*-pod"
        resume = "xargs -I{} docker exec {} sh -c 'kill -CONT -1'"
        console.print(f"{stop.reason}; they go on after: {pods} | {resume}")
    console.print(
        "the cluster is still running: "
        f"harness run --reuse {campaign.clusters.files.name} uses it, "
        f"harness clean {campaign.clusters.files.name} removes it"
    )
