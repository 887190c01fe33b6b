"""Contents of run.json: what a run is, on which servers it ran, and how it ended."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from harness.core.engines import Engines
from harness.core.topology import Topology
from harness.spec.run_spec import RunSpec
from harness.spec.stored_spec import SCHEMA, current, spec_fields, stored_fields

State: TypeAlias = Literal["running", "recorded", "finished", "crashed"]


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """run.json: these fields by these names, but "spec" has the options of `harness run` by their
    long names, and "workload_options" and "again" (the command that repeats the run) are beside it.

    "topology" is an object with "nodes", a list of objects with the fields of Node, and "bucket",
    the fields of Bucket or null; times are ISO 8601, UTC.
    """

    schema: int = SCHEMA
    state: State
    """State of the run. "running" also remains after a kill -9, which leaves no record of the
    end."""
    spec: RunSpec
    engines: Engines = msgspec.field(default_factory=Engines)
    """Engines of the servers, known when the cluster is up."""
    topology: Topology
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Version that each node runs."""
    started_utc: str
    zero_utc: str | None = None
    """Date of time 0 of the history, because servers log dates; None on virtual time."""
    ended_utc: str | None = None
    status: str | None = None
    """Status of the judgement of a finished run: VALID, UNKNOWN or INVALID."""
    error: str | None = None
    """Reason of a crash."""
    troubles: tuple[str, ...] = ()
    """Sentences about what went wrong around a recorded run, which is judged later."""

    def stored(self) -> dict[str, Any]:
        """Return the contents of run.json."""
        kept = {name: getattr(self, name) for name in self.__struct_fields__}
        fields: dict[str, Any] = msgspec.to_builtins({**kept, **spec_fields(self.spec)})
        return fields


def run_info_of(stored: Mapping[str, Any]) -> RunInfo:
    """Return the contents of run.json, of this version or an older one. Raises AssertionError,
    AttributeError, KeyError, TypeError and ValueError for what is not what a run writes."""
    stored = current(stored)
    return msgspec.convert({**stored, "spec": stored_fields(stored)}, RunInfo)
