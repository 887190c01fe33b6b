"""What the interpreter puts up with, and what it then has to tell."""

from dataclasses import dataclass, field

from harness.core.op import Op


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take before it is ended as info and its thread is left to itself."""

    call_s: float = 120.0
    """A client's call, at any time. Well above the client's own timeout: this costs a thread."""
    fault_s: float = 300.0
    """A call of the nemesis, at any time."""
    grace_s: float = 15.0
    """A client's call in flight when the generator is exhausted, from then on."""
    stop_s: float = 2.0
    """A client's call in flight when the run is told to stop, from then on."""
    fault_grace_s: float = 30.0
    """A call of the nemesis in flight in either case. Longer, for what follows is the healing,
    and a fault that goes on in an abandoned thread may undo it."""


@dataclass(slots=True)
class Trouble:
    """What went wrong inside the harness while it ran. The calls concerned are info."""

    bugs: int = 0
    """Exceptions that a client or the nemesis let out: they should have been outcomes."""
    first: str = ""
    """The traceback of the first."""
    abandoned: list[Op] = field(default_factory=list)
    """Calls that hung past a limit. Their threads may still be at work."""
