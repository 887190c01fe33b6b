"""From what was typed, or stored, to a workload and its options."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from checkers.ladder import Level
from harness.cli.catalogue import WORKLOADS
from harness.core.errors import UsageError
from harness.core.protocols import Workload
from harness.core.ranges import Quorum, range_of, shortened
from harness.run.plan import Plan

if TYPE_CHECKING:
    # Most commands play none: loaded where one is.
    from workloads.scenarios.scenario import Scenario

FLAGS: Mapping[str, str] = {
    "insert": "insert",
    "read": "read",
    "quorum": "quorum",
    "quorum_timeout": "quorum_timeout_ms",
    "writers": "writers",
    "keys": "keys",
    "ops_per_key": "ops_per_key",
    "op_timeout": "timeout_s",
}
"""Flags of the command line that are short for an option, by name."""
SCENARIO = "scenario-"
"""Before the name of a scenario, in the name of its workload."""
EXPLORED = "explore-"
"""Before the name of a model, in the name of the workload of its counterexample, whose calls are
those of quorum-set."""
KEPT = "workload_options"
"""Where a plan keeps them."""


def options_of(name: str, flags: Mapping[str, Any], words: Sequence[str]) -> Any:
    """The options of a workload: `flags` that were given, by name, and words NAME=VALUE. Raises
    UsageError for an option that it does not have, and for a value that is none."""
    kind = WORKLOADS[name].options
    types = get_type_hints(kind)
    known = {field.name: types[field.name] for field in fields(kind)}
    given: dict[str, Any] = {}
    for flag, value in flags.items():
        field = FLAGS[flag]
        if field not in known:
            raise UsageError(f"--{flag.replace('_', '-')}: {_no_option(name, known)}")
        given[field] = value
    for word in words:
        field, equals, text = word.partition("=")
        field = field.replace("-", "_")
        if not equals or field not in known:
            raise UsageError(f"--option {word!r}: {_no_option(name, known)}")
        given[field] = _value(field, word, text, known[field])
    return kind(**given)


def workload_of(plan: Plan) -> Workload:
    """The workload that a plan names, as it was or will be run."""
    if plan.workload.startswith(SCENARIO):
        return scenario_of(plan.workload.removeprefix(SCENARIO)).workload
    entry = WORKLOADS.get("quorum-set" if plan.workload.startswith(EXPLORED) else plan.workload)
    if entry is None:
        raise UsageError(f"workload {plan.workload!r}: expected one of {' '.join(WORKLOADS)}")
    kept = plan.options.get(KEPT)
    known = {field.name for field in fields(entry.options)}
    given = {n: v for n, v in kept.items() if n in known} if isinstance(kept, Mapping) else {}
    return entry.make(
        entry.options(**given),
        plan.seed.child("workload"),
        Level.named(plan.promise),
        plan.nemesis != "none",
    )


def described(name: str) -> str:
    """What it is, and its options with their defaults."""
    entry = WORKLOADS[name]
    defaults = " ".join(
        f"{field.name.replace('_', '-')}={_shown(field.default)}" for field in fields(entry.options)
    )
    return f"{entry.text} ({defaults})"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_option(name: str, known: Mapping[str, type]) -> str:
    names = " ".join(field.replace("_", "-") for field in known)
    return f"workload {name} has no such option; expected NAME=VALUE with a NAME among {names}"


def _value(field: str, word: str, text: str, kind: Any) -> Any:
    expected = "expected true or false"
    kind = int if kind == Quorum else kind
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        if kind in (int, float):
            allowed = range_of(field, kind)
            expected = allowed.expected
            return allowed.parse(text)
        return kind(text)
    except (ValueError, KeyError):
        raise UsageError(f"--option {shortened(word)!r}: {expected}") from None


def scenario_of(name: str) -> "Scenario":
    """By its name. Raises UsageError for one that there is not."""
    from workloads.scenarios.catalogue import SCENARIOS

    if name not in SCENARIOS:
        raise UsageError(f"scenario {name!r}: expected one of {' '.join(SCENARIOS)}")
    return SCENARIOS[name]
