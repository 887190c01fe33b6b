"""A reproduction of a scenario that needs Docker and nothing of the harness: a directory with
compose.yml, the servers' configuration, `reproduce.sh` and `statements.sql`."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from checkers.look import decode
from checkers.statements.calls import FINAL_ROWS, StatementCall
from checkers.statements.effects import Exact, RowState, StatementStep, in_tables
from compose.plan import ClusterPlan, Image, Images, Server, plan_cluster
from compose.releases import ImageChoice, Release
from compose.render import config_files
from compose.settings import Settings
from harness.clients.sent_statement import SentStatement
from harness.core.engines import Engine
from harness.core.errors import HarnessError
from harness.core.op import Call, Done, Kind, Op
from harness.core.protocols import Context, Generator, Pending, Ready, Worker
from harness.core.topology import Role, Topology
from harness.export.errors import NotExportableError
from harness.export.faults import FAULT_TEXTS, fault_text, refuse_family
from harness.export.findings import STATEMENT_ROWS, FindingRule, rule_of
from harness.export.script_lines import ScriptLines, quote, settings_of
from harness.export.silent_cluster import StatementsOfCalls
from harness.run.scenario_runs import topology_of
from workloads.scenarios.scenario import Scenario
from workloads.statement_table import STATEMENTS
from workloads.statement_tables import SCRIPTED

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("harness.export", "templates"),
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701 # it writes shell and YAML
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_VARIABLES: Final = {Role.CLICKHOUSE: "CLICKHOUSE_IMAGE", Role.ZOOKEEPER: "ZOOKEEPER_IMAGE"}
"""Variables of the environment that choose other images."""
_CREATED_DATABASE: Final = re.compile(r"^CREATE DATABASE IF NOT EXISTS (\S+)")
_FINAL_CLIENT: Final = 100
"""Number of the client that makes the calls at rest on the first replica; the next one has the next
number, as each replica is read by a client of its own."""
_CALLS_MAX: Final = 10_000
"""Number of calls at rest above which a generator is taken for one without an end."""


@dataclass(frozen=True, slots=True)
class ComposedServer:
    """A server of compose.yml."""

    server: Server
    image: str
    variable: str
    """Variable of the environment that chooses another image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedScenario:
    """What is written into the directory."""

    scenario: Scenario
    plan: ClusterPlan
    images: Mapping[Role, str]
    """Public image of each role."""
    setup: Sequence[SentStatement]
    lines: ScriptLines
    final: Sequence[str]
    rule: FindingRule

    @property
    def pages(self) -> Mapping[str, str]:
        """Return the pages of the manual about the script's statements, with what each does."""
        return pages_of([call for call, _ in self.lines.calls])

    def write(self, directory: Path) -> None:
        """Write the files. Raises HarnessError."""
        for name, text in self.files().items():
            write_text(directory / name, text)
        (directory / "reproduce.sh").chmod(0o755)

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its name."""
        return {
            "reproduce.sh": self.script,
            "compose.yml": _render("compose.yml.j2", name=self.scenario.name, servers=self.servers),
            "statements.sql": self.statements,
            **{
                f"{server.config}/{name}": _plain(text)
                for server in self.plan.servers
                for name, text in config_files(self.plan, server.node, peer="{}-peer").items()
            },
        }

    @property
    def servers(self) -> Sequence[ComposedServer]:
        """Return the servers, ZooKeeper's first."""
        servers = sorted(self.plan.servers, key=lambda one: one.node.role is not Role.ZOOKEEPER)
        return [
            ComposedServer(one, self.images[one.node.role], _VARIABLES[one.node.role])
            for one in servers
        ]

    @property
    def script(self) -> str:
        """Return the text of reproduce.sh."""
        sent = [one.sql for one in self.setup]
        sent += [one.sql for _, several in self.lines.calls for one in several]
        return _render(
            "reproduce.sh.j2",
            name=self.scenario.name,
            text=self.scenario.text,
            topology=self.plan.topology,
            engines=self.engines,
            images={role.value: image for role, image in self.images.items()},
            setup=[_must(one) for one in (*self.leftovers, *self.setup)],
            play=self.lines.lines,
            heal=self.lines.heal,
            final=self.final,
            fault_texts=FAULT_TEXTS,
            promise=shlex.quote(f"{self.rule.promise} {self.rule.link}"),
            awk=self.rule.awk,
            judged_at_rest=self.rule.judged_at_rest,
            followers=self.lines.followers,
            ddl=any("ON CLUSTER" in sql for sql in sent),
            rest_s=f"{self.scenario.quiesce_s:.0f}",
        )

    @property
    def engines(self) -> str:
        """Return the engines that the script was written for."""
        return " and ".join(dict.fromkeys(str(one.engine) for one in self.plan.servers))

    def issue(self, timeline: str = "") -> str:
        """Return the Markdown of a bug report; `timeline` is the witness of a run as text."""
        return _render(
            "issue.md.j2",
            scenario=self.scenario,
            engines=self.engines,
            setup=[one for one in self.setup if one.node == self.setup[0].node],
            steps=[*self.lines.told, *map(fault_text, self.lines.heal)],
            rule=self.rule,
            timeline=timeline,
            script=self.script,
            compose=self.files()["compose.yml"],
        )

    @property
    def leftovers(self) -> Sequence[SentStatement]:
        """Return the statements that drop what an earlier try on the same servers has left."""
        made = dict.fromkeys(
            (one.node, created[1])
            for one in self.setup
            if (created := _CREATED_DATABASE.match(one.sql))
        )
        return [
            SentStatement(node, self.plan.server(node).engine.dialect.drop_database(name), {})
            for node, name in reversed(made)
        ]

    @property
    def statements(self) -> str:
        """Return the text of statements.sql, as one can paste it into clickhouse-client."""
        out = [f"-- {self.scenario.name}: {self.scenario.text}.", ""]
        out += [one.pasted for one in self.setup]
        for number, (call, sent) in enumerate(self.lines.calls, 1):
            out += [f"-- call {number}: {call.f}", *(one.pasted for one in sent)]
        return "\n".join(out) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a file, and the directories above it. Raises HarnessError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror}") from error


def reproduction_of(scenario: Scenario, choice: ImageChoice) -> ExportedScenario:
    """Return the reproduction of a scenario on these servers. Raises NotExportableError with the
    reason for a scenario that needs more, MissingMechanismError for servers that lack what it
    needs."""
    try:
        return _reproduction_of(scenario, choice)
    except NotExportableError as error:
        raise NotExportableError(f"scenario {scenario.name}: cannot be exported: {error}") from None


def _reproduction_of(scenario: Scenario, choice: ImageChoice) -> ExportedScenario:
    if scenario.store or scenario.disks:
        what = "an object store" if scenario.store else "a disk"
        raise NotExportableError(f"it needs {what} that fails on command")
    for family in scenario.nemesis.split(","):
        refuse_family(family)
    topology = topology_of(scenario, choice.versions)
    images = _images(choice)
    plan = plan_cluster(
        topology, Settings(log_level="information"), images, name=scenario.name, labels={}
    )
    engines = images.engines(topology)
    engines.dialect.require(f"scenario {scenario.name}", scenario.needs)
    token = scenario.name.replace("-", "_")
    statements = StatementsOfCalls(scenario.workload, topology, engines, token)
    lines = ScriptLines(statements, strict=scenario.finding.checker == STATEMENT_ROWS)
    lines.add(scenario.steps)
    made = list(lines.calls)
    sent = [one for _, several in made for one in several]
    rule = rule_of(scenario.finding, pages_of([call for call, _ in made]), sent)
    final = _final_lines(scenario, topology, lines, made)
    statements.close()
    return ExportedScenario(
        scenario=scenario,
        plan=plan,
        images={role: next(iter(by.values())).tag for role, by in images.servers.items()},
        setup=statements.setup,
        lines=lines,
        final=final,
        rule=rule,
    )


def pages_of(calls: Sequence[Call]) -> Mapping[str, str]:
    """Return the pages of the manual about statements of calls, with what each does."""
    kinds = {**STATEMENTS, **SCRIPTED}
    return {kinds[call.f].promise: kinds[call.f].text for call in calls if call.f in kinds}


def _images(choice: ImageChoice) -> Images:
    """Return the public images of the chosen versions. Raises NotExportableError for an image of
    the user's own, whose version is not known."""
    servers: dict[Role, dict[str, Image]] = {}
    for role, by_version in choice.servers.items():
        if role not in _VARIABLES:
            continue
        for version, found in by_version.items():
            if not isinstance(found, Release):
                raise NotExportableError(
                    f"image {found}: its version is not known; choose a version here, and the "
                    f"image by {_VARIABLES[role]} when you run reproduce.sh"
                )
            engine = Engine(role=role, version=found.version, build=found.build)
            servers.setdefault(role, {})[version] = Image(found.public, engine)
    for role, images in servers.items():
        if len(images) > 1:
            raise NotExportableError(f"{' '.join(images)}: expected one version of {role}")
    return Images(pod="", servers=servers)


def _must(statement: SentStatement) -> str:
    return f"must {statement.node} {quote(settings_of(statement))} {quote(statement.text)}"


def _plain(text: str) -> str:
    """Return a configuration file without the comments that point into the harness."""
    return "".join(line for line in text.splitlines(keepends=True) if "harness/core" not in line)


def _render(template: str, **values: object) -> str:
    return _ENVIRONMENT.get_template(template).render(**values)


def _final_lines(
    scenario: Scenario,
    topology: Topology,
    lines: ScriptLines,
    made: Sequence[tuple[Call, tuple[SentStatement, ...]]],
) -> Sequence[str]:
    """Return the lines of the calls at rest."""
    keys = list(dict.fromkeys(call.key for call, _ in made if call.key is not None))
    calls = list(dict.fromkeys(_calls(scenario.workload.final(keys, topology.replicas), topology)))
    out: list[str] = []
    rows = scenario.finding.checker == STATEMENT_ROWS
    if rows:
        out += [_allowed_line(*row) for row in _allowed(made)]
    for call in calls:
        if call.f == FINAL_ROWS and rows:
            out.append(_rows_line(call, lines.statements.of(call)))
            continue
        by = _FINAL_CLIENT + topology.replicas.index(str(call.node))
        out.append(lines.call_line(call, by, "any", "final_call "))
    return out


def _calls(generator: Generator, topology: Topology) -> Iterator[Call]:
    """Yield the calls of a generator all of whose calls end ok, each with its node."""
    workers = tuple(Worker(n, n, node) for n, node in enumerate(topology.replicas))
    now_ns = 0
    for number in range(_CALLS_MAX):
        context = Context(time_ns=now_ns, free=workers, busy=())
        step, generator = generator.op(context)
        if isinstance(step, Pending) and step.wake_ns is not None:
            now_ns = step.wake_ns
            continue
        if not isinstance(step, Ready):
            return
        call = step.call
        node = call.node or step.worker.node
        yield Call(f=call.f, value=call.value, key=call.key, node=node)
        done = Done(Kind.OK, ())
        for kind, value in ((Kind.INVOKE, call.value), (done.kind, done.value)):
            op = Op(
                index=number,
                process=step.worker.process,
                kind=kind,
                f=call.f,
                time_ns=now_ns,
                value=value,
                key=call.key,
                node=node,
            )
            generator = generator.update(context, op)


def _allowed(
    made: Sequence[tuple[Call, tuple[SentStatement, ...]]],
) -> Iterator[tuple[int, int, Sequence[str]]]:
    """Yield partition and number of each row, and what the tables may have of it after the
    statements, one after the other, on all that was acknowledged."""
    steps = [
        (call.key, StatementStep(place, place, place, call.node, decode(_op(call), StatementCall)))
        for place, (call, _) in enumerate(made)
    ]
    rows = dict.fromkeys(
        (key, step.call.row) for key, step in steps if isinstance(step.call.row, int)
    )
    for key, row in rows:
        states = {RowState()}
        for of, step in steps:
            if of in (key, None) and step.call.touches(row):
                states = {after for state in states for after in Exact(()).after(step, state)}
        assert key is not None, "a row is in a partition"
        yield key, row, sorted({_state_text(state) for state in states})


def _op(call: Call) -> Op:
    return Op(index=0, process=0, kind=Kind.INVOKE, f=call.f, time_ns=0, value=call.value)


def _state_text(state: RowState) -> str:
    return " ".join(f"{table}={len(copies)}" for table, copies in in_tables(state)) or "nothing"


def _allowed_line(partition: int, row: int, states: Sequence[str]) -> str:
    return f"allowed {partition} {row} {' '.join(map(quote, states))}"


def _rows_line(call: Call, sent: Sequence[SentStatement]) -> str:
    """Return the line that notes the rows of a partition, by the tables' short names."""
    words = [f"final_rows {call.node} {call.key}"]
    for one in sent:
        database = one.text.split(" FROM ")[1].split(".")[0]
        words.append(f"{database.rpartition('_')[2]} {quote(one.text)}")
    return " \\\n    ".join(words)
