"""What clients, nemeses and generators hand to a run, checked before it becomes an op.

An op with a value that no op may have could be written, and not be read again: the whole history
would be lost for one wrong return value.
"""

import inspect
import traceback
from dataclasses import dataclass, field
from typing import Any

from harness.core.errors import HarnessError
from harness.core.lines import OpValueError, check_value
from harness.core.op import Done, Kind, Op
from harness.core.protocols import HasFunctions


@dataclass(slots=True)
class HarnessIssues:
    """Defects of the harness that a run met. The calls concerned are info."""

    bugs: int = 0
    """Number of exceptions that a client or the nemesis raised: they should have been outcomes."""
    first: str = ""
    """Traceback of the first."""
    abandoned: list[tuple[Op, str]] = field(default_factory=list)
    """Calls that were ended without an answer, and why. Their threads may still be at work."""

    def bug(self, error: BaseException) -> Done:
        """Count an exception of a call, and return how the call ended."""
        self.bugs += 1
        where = isinstance(error, OpValueError)  # it says where; no frame of the stack does
        shown = [str(error)] if where else traceback.format_exception(error)
        self.first = self.first or "".join(shown)
        return Done(Kind.INFO, error=f"{type(error).__name__}: {error}")

    def described(self) -> list[str]:
        """Return a sentence for each call without an answer, and one for the exceptions."""
        texts = [
            f"op #{op.index} {op.f}{f' on {op.node}' if op.node else ''}: {why}"
            for op, why in self.abandoned
        ]
        if self.bugs:
            texts.append(f"{self.bugs} exceptions inside the harness, the first:\n{self.first}")
        return texts


def checked_end(done: object, op: Op, client: object = None) -> Done:
    """Return how a call ended. Raises TypeError for what is no end, and OpValueError, which says
    who returned it, for a value that no op may have."""
    if not isinstance(done, Done) or done.kind is Kind.INVOKE:
        raise TypeError(f"a call ended with {done!r}; expected a Done that is ok, fail or info")
    check_value(done.value, lambda: f"the value that {_maker_of(op.f, client)} returned")
    return done


def checked_state(done: Done, f: str, issues: HarnessIssues) -> Done:
    """Return the end of a look at the database, as info if no op may have its value."""
    try:
        check_value(done.value, lambda: f"the state that the session returned for {f}")
    except OpValueError as error:
        return issues.bug(error)
    return done


def check_call(op: Op) -> None:
    """Raise HarnessError for a call whose value no op may have: its generator is wrong."""
    try:
        check_value(op.value, lambda: f"the value of the call {op.f} that the generator made")
    except OpValueError as error:
        raise HarnessError(str(error)) from error


def _maker_of(f: str, client: object) -> str:
    """Return who made a call: the function, if the client knows it, with file and line."""
    if client is None:
        return f"the nemesis for {f}"
    made: Any = getattr(client, "invoke", client)
    if isinstance(client, HasFunctions):
        made = client.function_of(f)
    code = getattr(inspect.unwrap(made), "__code__", None)
    name = getattr(made, "__qualname__", type(made).__name__)
    return f"{name} for {f}" + (f" ({code.co_filename}:{code.co_firstlineno})" if code else "")
