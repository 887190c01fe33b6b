"""Time limits of the interpreter for calls, and what it reports about the harness itself."""

from dataclasses import dataclass, field

from harness.core.op import Op


@dataclass(frozen=True, slots=True)
class Limits:
    """Times after which a call is ended as info and its thread is abandoned."""

    call_s: float = 120.0
    """Limit of a client's call, at any time. Well above the client's own timeout: a call that
    exceeds it costs a thread."""
    fault_s: float = 300.0
    """Limit of a call of the nemesis, at any time."""
    grace_s: float = 15.0
    """Limit of a client's call that is in flight when the generator is exhausted, from then on."""
    stop_s: float = 2.0
    """Limit of a client's call that is in flight when the run is stopped, from then on."""
    fault_grace_s: float = 30.0
    """Limit of a call of the nemesis that is in flight in either case. Longer, because the healing
    follows, and a fault that goes on in an abandoned thread may undo it."""


@dataclass(slots=True)
class HarnessIssues:
    """Defects of the harness that a run met. The calls concerned are info."""

    bugs: int = 0
    """Number of exceptions that a client or the nemesis raised: they should have been outcomes."""
    first: str = ""
    """Traceback of the first."""
    abandoned: list[Op] = field(default_factory=list)
    """Calls that hung past a limit. Their threads may still be at work."""
