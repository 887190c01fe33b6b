"""A run's options in run.json, also as older versions of the harness wrote them."""

import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final

from harness.spec.run_options import OPTIONS, option_values
from harness.spec.run_spec import RunSpec

SCHEMA: Final = 2
"""Version of run.json. Version 1 had a "plan", an object of fewer options, in place of "spec"."""


def spec_fields(spec: RunSpec) -> dict[str, Any]:
    """Return what run.json says of a run's options."""
    return {
        "spec": option_values(spec),
        "workload_options": {**spec.workload_options},
        "again": spec.command,
    }


def stored_fields(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a RunSpec in the contents of run.json. Names are not looked up. Raises
    KeyError, TypeError and ValueError."""
    fields = {OPTIONS[name].field: value for name, value in stored["spec"].items()}
    for field in ("seed", "server_seed"):
        if field in fields:
            fields[field] = {"value": int(fields[field], 16)}
    own = {"workload_options": stored["workload_options"], "command": stored["again"]}
    return {**fields, **own}


def current(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the contents of run.json as this version writes it. What cannot be made so stays as it
    is."""
    if "plan" not in stored:
        return stored
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        plan, nodes = stored["plan"], stored.get("topology", {}).get("nodes", ())
        return {
            **{key: value for key, value in stored.items() if key != "plan"},
            "schema": SCHEMA,
            "spec": _values(plan),
            "workload_options": plan.get("options", {}).get("workload_options", {}),
            "again": plan.get("again", ""),
            "engines": _engines(plan.get("engines", {}), nodes),
        }
    return stored


def _engines(said: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the engines of a plan as Engines has them. The oldest plans have "clickhouse",
    "zookeeper" and their builds, the same for every node of a role."""
    if "clickhouse" not in said:
        return said
    of_role = {
        role: {"role": role, "version": said[role], "build": said.get(f"{role}_build", "")}
        for role in ("clickhouse", "zookeeper")
    }
    return {"nodes": {node["name"]: of_role[node["role"]] for node in nodes}}


def _values(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a plan of version 1."""
    options = plan.get("options", {})
    found = {name: plan[entry.field] for name, entry in OPTIONS.items() if entry.field in plan}
    by_flag = {name.replace("-", "_"): name for name in OPTIONS}
    found |= {by_flag[key]: value for key, value in options.items() if key in by_flag}
    found |= _given_to_workload(plan.get("again", ""), options.get("workload_options", {}))
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _given_to_workload(command: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the workload that a command gives; a plan has them among others."""
    words = shlex.split(command)
    found: dict[str, Any] = {
        name: values[entry.option.workload_option]
        for name, entry in OPTIONS.items()
        if entry.option.workload_option in values
        and any(word.partition("=")[0] == f"--{name}" for word in words)
    }
    pairs = [after for word, after in pairwise(words) if word in ("-o", "--option")]
    return {**found, **({"option": pairs} if pairs else {})}
