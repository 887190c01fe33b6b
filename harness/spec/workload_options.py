"""Workloads and their options, made from a run's options."""

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, get_type_hints

from checkers.ladder import Level
from harness.core.errors import UsageError
from harness.core.protocols import Workload
from harness.core.ranges import Quorum, did_you_mean, quoted, range_of, unknown_name
from harness.spec.catalogue import workload_entry
from harness.spec.run_options import OPTIONS, workload_flags
from harness.spec.run_spec import RunSpec
from workloads.audited_table import AUDITED, AuditedTable
from workloads.options import PacedOptions, WorkloadOptions

if TYPE_CHECKING:
    # Most commands run no scenario, so the module is imported where one is needed.
    from workloads.scenarios.scenario import Scenario

SCENARIO = "scenario-"
"""Prefix of the workload name of a scenario."""
EXPLORED = "explore-"
"""Prefix of the workload name of a model's counterexample, whose calls are those of quorum-set."""
SHARED = frozenset(field.name for field in fields(PacedOptions))
"""Names of the options that workloads share."""


def options_of(spec: RunSpec) -> WorkloadOptions:
    """Return the options of a run's workload, from flags and from NAME=VALUE. Raises UsageError for
    an option that the workload does not have, and for an invalid value."""
    known = _types(spec.workload)
    given: dict[str, Any] = {}
    for flag, value in workload_flags(spec).items():
        field = OPTIONS[flag].option.workload_option
        if field not in known:
            raise UsageError(f"--{flag}: {_no_option(spec.workload, field, known)}")
        given[field] = value
    given |= named_options(spec.workload, spec.option)
    return workload_entry(spec.workload).options(**given)


def named_options(workload: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the values that words of the form NAME=VALUE give options of a workload. Raises
    UsageError."""
    known = _types(workload)
    given: dict[str, Any] = {}
    for word in words:
        field, equals, text = word.partition("=")
        field = field.replace("-", "_")
        if not equals or field not in known:
            raise UsageError(f"--option {quoted(word)}: {_no_option(workload, field, known)}")
        given[field] = _value(field, word, text, known[field])
    return given


def _types(workload: str) -> dict[str, Any]:
    kind = workload_entry(workload).options
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in _fields(kind)}


def workload_of(spec: RunSpec) -> Workload:
    """Return the workload of a run, with its options. Raises UsageError."""
    if spec.workload.startswith(SCENARIO):
        return scenario_of(spec.workload.removeprefix(SCENARIO)).workload
    if spec.workload == AUDITED:
        return AuditedTable()
    name = "quorum-set" if spec.workload.startswith(EXPLORED) else spec.workload
    try:
        entry = workload_entry(name)
    except UsageError as error:
        raise UsageError(f"workload {error}") from error
    if former := sorted(entry.former.keys() & spec.workload_options.keys()):
        raise UsageError(
            f"workload {name}: the run has its option {former[0].replace('_', '-')}, and calls of "
            "a form that only versions from before 2026-11-28 judge; its stored verdict stays"
        )
    known = {field.name for field in fields(entry.options)}
    given: dict[str, Any] = {n: v for n, v in spec.workload_options.items() if n in known}
    return entry.make(
        entry.options(**given),
        spec.seed.child("workload"),
        Level.named(spec.promise),
        spec.nemesis != "none",
    )


@dataclass(frozen=True, slots=True)
class DescribedOption:
    """Option of a workload, for a reader."""

    name: str
    default: str
    text: str


def described_options(name: str) -> Sequence[DescribedOption]:
    """Return the options of a workload; the text of each is the docstring of its field."""
    kind = workload_entry(name).options
    texts: dict[str, str] = {}
    for one in reversed(kind.__mro__[:-1]):
        texts.update(_field_docstrings(one))
    return [
        DescribedOption(
            field.name.replace("_", "-"), _shown(field.default), texts.get(field.name, "")
        )
        for field in _fields(kind)
    ]


def _field_docstrings(kind: type) -> Mapping[str, str]:
    """Return the text below each field of a class, from its source."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.replace("`", "").split())
        for field, below in pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _fields(kind: type[WorkloadOptions]) -> Sequence[Field[Any]]:
    """Return the fields of a workload's options, with those that workloads share at the end."""
    return sorted(fields(kind), key=lambda field: field.name in SHARED)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_option(workload: str, given: str, known: Mapping[str, type]) -> str:
    names = [field.replace("_", "-") for field in known]
    if given in known:
        return f"expected NAME=VALUE, such as {given.replace('_', '-')}=…"
    former = workload_entry(workload).former
    if given in former:
        return f"workload {workload} no longer has this option; expected {former[given]}=…"
    return (
        f"workload {workload} has no such option; {did_you_mean(given, names)}"
        f"expected NAME=VALUE with a NAME among {' '.join(names)}"
    )


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
        raise UsageError(f"--option {quoted(word)}: {expected}") from None


def scenario_of(name: str) -> "Scenario":
    """Return the scenario of that name. Raises UsageError for an unknown name."""
    from workloads.scenarios.catalogue import SCENARIOS

    if name not in SCENARIOS:
        raise UsageError(f"scenario {unknown_name(name, SCENARIOS, 'harness scenario')}")
    return SCENARIOS[name]
