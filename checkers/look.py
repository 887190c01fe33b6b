"""Turns looks into values of ops and back. A look is what a call, or the run itself, observed.

Each look is a Struct beside the checker that judges it: the workload fills it, and the checker
decodes it once. Its fields have the names and the order that they have in the history. A field with
a default may be missing, as in histories of older runs; one that is UNSET is left out. Others that
a history has are for human readers.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from harness.core.errors import HistoryError
from harness.core.op import Json, Op

T = TypeVar("T")


def encode(look: msgspec.Struct | Mapping[str, msgspec.Struct]) -> dict[str, Json]:
    """Return a look as the value of an op."""
    value: dict[str, Json] = msgspec.to_builtins(look)
    return value


def decode(op: Op, form: type[T]) -> T:
    """Return the look that is the value of an op. Raises HistoryError for a value of another
    form."""
    try:
        return msgspec.convert(op.value, form)
    except msgspec.ValidationError as error:
        raise HistoryError(
            f"op #{op.index}: the value of an {op.kind} {op.f} cannot be read: {error}"
        ) from error
