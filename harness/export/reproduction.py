"""A reproduction of a scenario that needs Docker and nothing of the harness: a directory with
compose.yml, the servers' configuration, `reproduce.sh` and `statements.sql`."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from compose.plan import ClusterPlan, Image, Images, Server, plan_cluster
from compose.releases import ImageChoice, Release
from compose.render import config_files
from compose.settings import Settings
from harness.clients.sent_statement import SentStatement
from harness.core.dialect import Mechanism
from harness.core.engines import Engine
from harness.core.errors import HarnessError
from harness.core.op import Call
from harness.core.topology import Role
from harness.export.errors import NotExportableError
from harness.export.faults import FAULT_NAMES, FAULT_TEXTS, refuse_family
from harness.export.final_calls import FinalCalls, final_calls
from harness.export.findings import STATEMENT_ROWS, FindingRule, rule_of
from harness.export.play import Play, PlayedCall
from harness.export.proxies import IMAGE as PROXY_IMAGE
from harness.export.proxies import PATIENCE_S, is_of_messages, proxied, proxy_text, targets
from harness.export.script_lines import call_line, quote, script_lines, settings_of
from harness.export.sentences import final_sentences, sentences
from harness.export.silent_cluster import StatementsOfCalls
from harness.export.stores import FILE as STORE_PROXY
from harness.export.stores import behind_the_proxy, store_proxy_text
from harness.run.scenario_runs import topology_of
from workloads.scenarios.scenario import Scenario
from workloads.scenarios.steps import MESSAGES
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
_VARIABLES: Final = {
    Role.CLICKHOUSE: "CLICKHOUSE_IMAGE",
    Role.ZOOKEEPER: "ZOOKEEPER_IMAGE",
    Role.STORE: "STORE_IMAGE",
}
"""Variables of the environment that choose other images."""
CONFIG: Final = "config"
"""Directory of the servers' configuration."""
LIBRARY: Final = "library.sh"
"""File of the functions of reproduce.sh, where several share it."""
PROXY: Final = "proxy.py"
_CREATED_DATABASE: Final = re.compile(r"^CREATE DATABASE IF NOT EXISTS (\S+)")


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
    play: Play
    final: FinalCalls
    rule: FindingRule

    @property
    def identifier(self) -> str:
        """Return the scenario's name as part of a name in Python."""
        return re.sub(r"\W", "_", self.scenario.name)

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by its name."""
        return {
            **self.own_files(),
            **{f"{CONFIG}/{name}": text for name, text in self.config.items()},
            **self.proxy,
        }

    def own_files(self, shared: str = "", config: str = CONFIG) -> Mapping[str, str]:
        """Return the text of each file that is of this scenario alone. `shared`: the directory that
        has the functions of reproduce.sh and proxy.py, "" if they are here; `config`: the name of
        the directory beside them that has the configuration."""
        at = shared or "."
        return {
            "reproduce.sh": self._script(shared),
            "compose.yml": render_template(
                "compose.yml.j2",
                name=self.scenario.name,
                servers=self.servers,
                config=f"{at}/{config}",
                proxies=self.proxies,
                proxy_image=PROXY_IMAGE,
                proxy=f"{at}/{PROXY}",
                proxied_stores=self.proxied_stores,
                store_proxy=f"{at}/{STORE_PROXY}",
            ),
            "statements.sql": self.statements,
        }

    @property
    def config(self) -> Mapping[str, str]:
        """Return the text of each file of configuration by its name."""
        return {
            f"{server.node.name}/{name}": self._config(server, name, text)
            for server in self.plan.servers
            for name, text in config_files(self.plan, server.node, peer="{}-peer").items()
        }

    @property
    def proxy(self) -> Mapping[str, str]:
        """Return the texts of the proxies' files by their names; nothing if there is none."""
        texts = {}
        if self.proxies:
            texts[PROXY] = proxy_text(render_template("proxy_main.py.j2"))
        if self.proxied_stores:
            texts[STORE_PROXY] = store_proxy_text(render_template("store_proxy_main.py.j2"))
        return texts

    @property
    def proxied_stores(self) -> Sequence[str]:
        """Return the object stores that have a proxy before them: one or none."""
        return self.plan.topology.stores if self.play.breaks_store else ()

    def _config(self, server: Server, name: str, text: str) -> str:
        """Return the text of a server's file."""
        node = server.node.name
        text = _plain(text)
        if name == "config.xml" and node in self.proxies:
            text = proxied(text, node)
        return behind_the_proxy(text) if self.proxied_stores else text

    @property
    def proxies(self) -> Mapping[str, str]:
        """Return the ZooKeeper server behind each replica's proxy; nothing if there is none."""
        topology = self.plan.topology
        if not self.play.has_proxies:
            return {}
        return targets({node: topology.node(node).keepers for node in topology.replicas})

    @property
    def servers(self) -> Sequence[ComposedServer]:
        """Return the servers, ZooKeeper's first."""
        servers = sorted(self.plan.servers, key=lambda one: one.node.role is not Role.ZOOKEEPER)
        return [
            ComposedServer(one, self.images[one.node.role], _VARIABLES[one.node.role])
            for one in servers
        ]

    def _script(self, shared: str) -> str:
        """Return the text of reproduce.sh."""
        sent = [one.sql for one in self.setup]
        sent += [one.sql for _, several in self.play.calls for one in several]
        return render_template(
            "reproduce.sh.j2",
            name=self.scenario.name,
            text=self.scenario.text,
            topology=self.plan.topology,
            engines=self.engines,
            images={role.value: image for role, image in self.images.items()},
            setup=list(self._setup_lines),
            play=script_lines(self.play.steps),
            heal=script_lines(self.play.heal),
            final=list(_final_lines(self.final)),
            content=self.rule.shows_content,
            proxies=self.proxies,
            proxied_stores=self.proxied_stores,
            proxy_image=PROXY_IMAGE,
            promise=shlex.quote(f"{self.rule.promise} {self.rule.link}"),
            awk=self.rule.awk,
            judged_at_rest=self.rule.judged_at_rest,
            followers=self.play.followers,
            ddl=any("ON CLUSTER" in sql for sql in sent),
            rest_s=f"{self.scenario.quiesce_s:.0f}",
            library=f". {shared}/{LIBRARY}" if shared else library_text().rstrip(),
        )

    @property
    def _setup_lines(self) -> Iterator[str]:
        """Yield the lines that drop what an earlier try has left, and make the tables."""
        yield from map(_must, self.leftovers)
        if self.final.objects:
            yield f"note_objects old {quote(self.final.objects.listed)}"
        yield from map(_must, self.setup)

    @property
    def engines(self) -> str:
        """Return the engines that the script was written for."""
        *first, last = dict.fromkeys(str(one.engine) for one in self.plan.servers)
        return " and ".join(filter(None, [", ".join(first), last]))

    def issue(self, timeline: str = "") -> str:
        """Return the Markdown of a bug report; `timeline` is the witness of a run as text."""
        files = self.files()
        steps = [
            *sentences([*self.play.steps, *self.play.heal]),
            *final_sentences(self.final, self._is_about_used_tables),
        ]
        return render_template(
            "issue.md.j2",
            scenario=self.scenario,
            title=_title(self.scenario.text),
            settings=list(self._settings),
            engines=self.engines,
            setup=[
                one
                for one in self.setup
                if one.node == self.setup[0].node and self._is_about_used_tables(one)
            ],
            steps=steps,
            rule=self.rule,
            allowed=self.final.allowed,
            timeline=timeline,
            script=files["reproduce.sh"],
            proxies=self.proxy,
            compose=files["compose.yml"],
        )

    def _is_about_used_tables(self, statement: SentStatement) -> bool:
        """Return whether some call names the database that a statement names first."""
        name = re.search(r"\bharness_\w+", statement.sql)
        played = (step for step in self.play.steps if isinstance(step, PlayedCall))
        texts = [one.sql for step in played for one in step.sent]
        return name is None or any(re.search(rf"\b{name[0]}\b", text) for text in texts)

    @property
    def _settings(self) -> Iterator[str]:
        """Yield the settings of users and tables that the configuration changes, for a reader."""
        replica = self.plan.server(self.plan.topology.replicas[0])
        kinds = {
            "in the profile of users.xml": replica.engine.dialect.profile,
            "below `<merge_tree>` in config.xml": replica.merge_tree,
        }
        for kind, settings in kinds.items():
            if settings:
                yield f"{kind} {', '.join(f'`{k} = {v}`' for k, v in settings.items())}"

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
        for number, (call, sent) in enumerate(self.play.calls, 1):
            out += [f"-- call {number}: {call.f}", *(one.pasted for one in sent)]
        if looked := self.final.objects:
            out += ["-- at rest: the objects", f"{looked.listed};"]
            out += ["-- at rest, on each replica: those of its files", f"{looked.referred};"]
        return "\n".join(out) + "\n"


def library_text() -> str:
    """Return the functions of reproduce.sh, which are the same for every scenario."""
    return render_template("library.sh.j2", fault_texts=FAULT_TEXTS, fault_names=FAULT_NAMES)


def _title(text: str) -> str:
    """Return what a scenario's sentence says up to its reason."""
    title = re.split(r", (?:for|because) |; ", text)[0]
    return title[0].upper() + title[1:]


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write texts by the names of their files; scripts can be executed. Raises HarnessError."""
    for name, text in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if path.suffix == ".sh":
                path.chmod(0o755)
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
    if scenario.disks:
        raise NotExportableError("it needs a disk that fails on command")
    if Mechanism.TRANSACTIONS in scenario.needs:
        raise NotExportableError("it needs a session that goes on from statement to statement")
    families = scenario.nemesis.split(",")
    for family in families:
        refuse_family(family)
    topology = topology_of(scenario, choice.versions)
    images = _images(replace(choice, store=scenario.store))
    plan = plan_cluster(
        topology, _settings(scenario, families), images, name=scenario.name, labels={}
    )
    engines = images.engines(topology)
    engines.dialect.require(f"scenario {scenario.name}", scenario.needs)
    token = scenario.name.replace("-", "_")
    statements = StatementsOfCalls(scenario.workload, topology, engines, token)
    play = Play(
        statements,
        strict=scenario.finding.checker == STATEMENT_ROWS,
        patience_s=PATIENCE_S if any(map(is_of_messages, families)) else 0,
    )
    play.add(scenario.steps)
    made = list(play.calls)
    sent = [one for _, several in made for one in several]
    rule = rule_of(scenario.finding, pages_of([call for call, _ in made]), sent)
    final = final_calls(
        scenario,
        topology,
        play,
        rows=play.strict,
        content=rule.shows_content,
        objects=rule.judges_objects,
    )
    statements.close()
    return ExportedScenario(
        scenario=scenario,
        plan=plan,
        images={role: next(iter(by.values())).tag for role, by in images.servers.items()},
        setup=statements.setup,
        play=play,
        final=final,
        rule=rule,
    )


def _settings(scenario: Scenario, families: Sequence[str]) -> Settings:
    """Return the settings of servers with these families of faults. A replica gives up a request
    that is held back after as long as calls wait, so that it is still there when a shell on a busy
    machine releases it."""
    settings = replace(scenario.settings, log_level="information")
    if MESSAGES in families:
        return replace(settings, operation_timeout_ms=round(1_000 * PATIENCE_S))
    return settings


def pages_of(calls: Sequence[Call]) -> Sequence[tuple[str, str]]:
    """Return the pages of the manual about statements of calls, each with what a statement does by
    it, in order."""
    known = {**STATEMENTS, **SCRIPTED}
    kinds = [known[call.f] for call in calls if call.f in known]
    return [*dict.fromkeys((kind.promise, kind.text) for kind in kinds)]


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


def render_template(template: str, **values: object) -> str:
    """Return the text of a template of this package."""
    return _ENVIRONMENT.get_template(template).render(**values)


def _final_lines(final: FinalCalls) -> Iterator[str]:
    """Yield the lines of the calls at rest."""
    if final.objects:
        yield f"final_objects {quote(final.objects.listed)} \\\n    {quote(final.objects.referred)}"
    for row in final.allowed:
        yield f"allowed {row.partition} {row.row} {' '.join(map(quote, row.states))}"
    for look in final.looks:
        if isinstance(look, PlayedCall):
            yield call_line(look, "final_call ")
            continue
        tables = (f"{table} {quote(one.text)}" for table, one in look.by_table)
        yield " \\\n    ".join([f"final_rows {look.node} {look.partition}", *tables])
