"""A reproduction as a test of ClickHouse's own tests/integration: a directory with test.py and the
configuration that it adds to the servers."""

import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from compose.render import config_files
from harness.clients.sent_statement import SentStatement
from harness.core.topology import Role
from harness.export.call_rules import AnsweredCall, rule_named, text_of
from harness.export.errors import NotExportableError
from harness.export.faults import FaultCommand
from harness.export.final_calls import FinalCalls
from harness.export.play import AwaitedClient, AwaitedState, PlayedCall, PlayStep, Sleep
from harness.export.reproduction import ExportedScenario, render_template
from workloads.scenarios.steps import Ended, HasRows, Lacks, Repeats, Shows

_KEPT: Final = ("remote_servers", "merge_tree", "backups", "distributed_ddl")
"""Elements of a replica's configuration that the tests' own configuration does not decide."""
_WIDTH: Final = 92
_RETRY_S: Final = 0.5
_TIMEOUT_S: Final = 15
"""Seconds for which a call waits for an answer if it does not say otherwise."""
_CONDITIONS: Final[Mapping[type, Callable[[Any], str]]] = {
    Ended: lambda _: "lambda answer: True",
    Shows: lambda seen: f"lambda answer: {_numbers(seen.values)}.issubset(answer)",
    Lacks: lambda seen: f"lambda answer: {seen.value} not in answer",
    Repeats: lambda seen: f"lambda answer: answer.count({seen.value}) > 1",
    HasRows: lambda seen: "lambda answer: answer" if seen.some else "lambda answer: not answer",
}


def integration_test(exported: ExportedScenario) -> Mapping[str, str]:
    """Return the text of each file by its name, in a directory of the scenario's name. Raises
    NotExportableError for what needs the proxy."""
    if exported.play.has_proxies:
        raise NotExportableError(
            f"scenario {exported.scenario.name}: cannot be an integration test: a proxy stops "
            "single messages, which only reproduce.sh ships; use --as script"
        )
    if exported.plan.topology.has_store:
        raise NotExportableError(
            f"scenario {exported.scenario.name}: cannot be an integration test: its tables are on "
            "an object store, which only compose.yml has; use --as script"
        )
    directory = f"test_{exported.identifier}"
    topology = exported.plan.topology
    files = {f"{directory}/__init__.py": "", f"{directory}/test.py": _test(exported)}
    for node in topology.replicas:
        texts = config_files(exported.plan, topology.node(node))
        config = Xml.fromstring(texts["config.xml"])  # noqa: S314 # the harness rendered it
        files[f"{directory}/configs/{node}/zookeeper_of_replica.xml"] = _zookeeper(config)
        # They are the same for every replica.
        files[f"{directory}/configs/server.xml"] = _server(config, exported)
        files[f"{directory}/configs/users.xml"] = _users(texts["users.xml"])
    return files


def _test(exported: ExportedScenario) -> str:
    rule, topology = exported.rule, exported.plan.topology
    judged = rule_named(rule.name)
    rows = rule.name == "rows"
    play = list(python_lines(exported.play.steps))
    return render_template(
        "integration_test.py.j2",
        identifier=exported.identifier,
        text=_sentence(exported.scenario.text),
        promise=_wrapped(f"{rule.promise} {rule.link}"),
        note=_wrapped(
            f"It fails if the servers do this. It was written for {exported.engines}, and depends "
            "on the settings in configs/."
        ),
        topology=topology,
        macros={
            one.name: _literal({"replica": one.name, "shard": one.shard})
            for one in topology.nodes
            if one.role is Role.CLICKHOUSE
        },
        rule_text=text_of(AnsweredCall, judged),
        judged=f"{judged.__name__}({'ALLOWED, shown' if rows else 'calls'})",
        followers=[_zoo(node) for node in exported.play.followers],
        setup=[(one.node, _literal(one.text)) for one in (*exported.leftovers, *exported.setup)],
        play=play,
        used={line.partition("(")[0] for line in play},
        heal=list(python_lines(exported.play.heal)),
        retries=round(exported.scenario.quiesce_s / _RETRY_S),
        allowed=exported.final.allowed,
        content=rule.shows_content,
        final=list(_final_lines(exported.final)),
    )


def python_lines(steps: Iterable[PlayStep]) -> Iterator[str]:
    """Yield the statements of Python that make the steps."""
    for step in steps:
        yield _TABLE[type(step)](step)


def _call(played: PlayedCall) -> str:
    if until := played.until:
        seen = _CONDITIONS[type(until.seen)](until.seen)
        more = f"seen={seen}, tries={until.tries}, pause={until.pause_s:g}"
        return _call_text("call_until", played, more)
    ends = "" if played.ends == "ok" else f'ends="{played.ends}"'
    return _call_text("call" if played.wait else "start", played, ends)


def _call_text(function: str, played: PlayedCall, more: str = "") -> str:
    call = played.call
    values = f"values={list(played.values)}" if played.values else ""
    named = [f"client={played.by}", f"key={call.key}", values, more]
    named.append("" if played.timeout_s == _TIMEOUT_S else f"timeout={played.timeout_s:.0f}")
    lines = [
        f"{function}(",
        f'    {played.number}, {call.node}, "{call.f}",',
        "    [",
        *(f"        {_statement(one)}," for one in played.sent),
        "    ],",
        f"    {', '.join(filter(None, named))},",
        ")",
    ]
    return "\n    ".join(lines)


def _statement(one: SentStatement) -> str:
    return f"({_literal(one.text)}, {_literal(one.settings)})"


def _fault(command: FaultCommand) -> str:
    if command.name == "cut_off":
        return f'cut_off("{_zoo(command.node)}", partitions)'
    if command.name == "reconnect":
        return "partitions.heal_all()"
    return f"{command.name}({command.node})"


_TABLE: Final[Mapping[type, Callable[[Any], str]]] = {
    PlayedCall: _call,
    FaultCommand: _fault,
    AwaitedState: lambda awaited: (
        f"await_shown({awaited.shown.node}, {_literal(awaited.shown.sql)})"
    ),
    Sleep: lambda pause: f"time.sleep({pause.seconds:g})",
    AwaitedClient: lambda awaited: f"in_flight.pop({awaited.by}).get()",
}


def _final_lines(final: FinalCalls) -> Iterator[str]:
    for one in final.looks:
        if isinstance(one, PlayedCall):
            yield _call_text("final_call", one)
            continue
        tables = [
            f"        {_literal(table)}: {_literal(sent.text)}," for table, sent in one.by_table
        ]
        yield "\n    ".join([f"look({one.node}, {one.partition}, {{", *tables, "})"])


def _zookeeper(config: Xml.Element) -> str:
    """Return which ZooKeeper server a replica uses, by its name there."""
    element = config.find("zookeeper")
    assert element is not None, "each replica uses ZooKeeper"
    element.set("replace", "replace")
    for host in element.iter("host"):
        host.text = _zoo(str(host.text))
    return _document([element])


def _server(config: Xml.Element, exported: ExportedScenario) -> str:
    """Return the settings of the servers beside the ports and paths, which the tests decide."""
    replica = exported.plan.server(exported.plan.topology.replicas[0])
    kept = [*_KEPT, *replica.engine.dialect.server]
    return _document([one for one in config if one.tag in kept])


def _users(text: str) -> str:
    profiles = Xml.fromstring(text).find("profiles")  # noqa: S314 # the harness rendered it
    assert profiles is not None, "a profile has the settings"
    return _document([profiles])


def _document(elements: Sequence[Xml.Element]) -> str:
    root = Xml.Element("clickhouse")
    root.extend(elements)
    Xml.indent(root, "    ")
    return Xml.tostring(root, encoding="unicode") + "\n"


def _zoo(node: str) -> str:
    """Return the name that the tests give to a ZooKeeper server."""
    return f"zoo{node.removeprefix('zk')}"


def _literal(value: object) -> str:
    """Return a literal of Python with double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    return repr(value)


def _numbers(values: Iterable[int]) -> str:
    """Return a set in ascending order."""
    return "{" + ", ".join(map(str, sorted(values))) + "}"


def _sentence(text: str) -> str:
    return _wrapped(f"{text[0].upper()}{text[1:]}")


def _wrapped(text: str) -> str:
    """Return text in lines for a docstring."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + len(word) < _WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return "\n".join(lines)
