"""The options of `harness check`, and what they say of the check of files."""

import json
from dataclasses import dataclass
from types import EllipsisType
from typing import cast, get_args

from pyporcupine import INVARIANTS, LEVELS
from pyporcupine.importers.calls import FailedCas
from pyporcupine.importers.formats import FORMATS, MODELS, Model
from pyporcupine.importers.transactions import TRANSACTION_MODELS

from harness.core.errors import UsageError
from harness.core.plugins import is_reference
from harness.importers.invariants import InvariantParameters
from harness.importers.judge import CheckParameters, Consistency
from harness.importers.own_models import own_model
from harness.importers.transactions import SERIALIZABLE, TransactionParameters

ORDERS: tuple[Consistency, ...] = get_args(Consistency)
LINEARIZABLE = "linearizable"
WITH_INITIAL = ("counter-bounds", "pn-counter", "bank")
"""Invariants that have an initial value."""
OPERATION_OPTIONS = ("initial", "keyed", "failed_cas")
MODEL_NAMES = (*MODELS, *TRANSACTION_MODELS, *INVARIANTS)
"""All values of --model but those of the user's own."""
REGISTER_OPTIONS = ("writes_follow_reads", "sequential_keys", "linearizable_keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Values of the options of `harness check`; a field has the name that click gives it."""

    store: str
    promise: str | None
    check_time: float
    spark: str | None
    engine: str
    force: bool
    checkers: str | None
    model: str | None
    format_: str | None
    consistency: str | None
    initial: str | None
    time_s: float
    memory_mb: float
    keyed: bool | None
    failed_cas: FailedCas | None
    picture: str | None
    writes_follow_reads: bool
    sequential_keys: bool
    linearizable_keys: bool
    negative_balances: bool
    open_: bool


def refuse(names: set[str], why: str) -> None:
    """Raise UsageError if any of these options was given."""
    if names:
        flag = min(names).rstrip("_").replace("_", "-")
        raise UsageError(f"--{flag} is {why}")


def parameters(
    options: CheckOptions, formats: set[str], chosen: set[str]
) -> CheckParameters | InvariantParameters | TransactionParameters:
    """Return what the options say for files of these formats."""
    models: set[str | None] = {options.model or FORMATS[name].model for name in formats}
    model = models.pop()
    if model is None or models:
        raise UsageError(f"no --model; expected one of {', '.join(MODEL_NAMES)}")
    consistency = options.consistency
    if model != "bank":
        refuse(chosen & {"negative_balances"}, f"for bank, and --model is {model}")
    if model in INVARIANTS:
        return _of_invariant(model, options, chosen)
    if model in TRANSACTION_MODELS:
        refuse(chosen & set(OPERATION_OPTIONS), f"not for transactions, and --model is {model}")
        if model != "rw-register":
            refuse(chosen & set(REGISTER_OPTIONS), f"for rw-register, and --model is {model}")
        if consistency in ORDERS:
            levels = ", ".join(LEVELS)
            raise UsageError(
                f"--consistency is {consistency}, expected for {model} one of {levels}"
            )
        return TransactionParameters(
            model,
            consistency or SERIALIZABLE,
            options.writes_follow_reads,
            options.sequential_keys,
            options.linearizable_keys,
            options.time_s,
            options.memory_mb,
        )
    refuse(chosen & set(REGISTER_OPTIONS), f"for rw-register, and --model is {model}")
    if consistency is not None and consistency not in ORDERS:
        raise UsageError(
            f"--consistency is {consistency}, expected for {model} {' or '.join(ORDERS)}; a level "
            f"of isolation is for {' or '.join(TRANSACTION_MODELS)}"
        )
    if is_reference(model):
        refuse(chosen & {"initial"}, f"not for {model}, which has init()")
        return CheckParameters(
            own_model(model), consistency or ORDERS[0], ..., options.time_s, options.memory_mb
        )
    return CheckParameters(
        cast(Model, model),
        consistency or ORDERS[0],
        _initial(options.initial),
        options.time_s,
        options.memory_mb,
    )


def _of_invariant(model: str, options: CheckOptions, chosen: set[str]) -> InvariantParameters:
    refuse(chosen & {*REGISTER_OPTIONS, "picture"}, f"not for invariants, and --model is {model}")
    if model not in WITH_INITIAL:
        refuse(chosen & {"initial"}, f"for {', '.join(WITH_INITIAL)}, and --model is {model}")
    initial = _initial(options.initial)
    if initial is not ... and type(initial) is not int:
        raise UsageError(f"--initial is {options.initial}, expected for {model} a whole number")
    if model != "set-full":
        refuse(chosen & {"consistency"}, f"not for invariants but set-full, and --model is {model}")
    if options.consistency not in (None, LINEARIZABLE):
        raise UsageError(
            f"--consistency is {options.consistency}, expected for set-full {LINEARIZABLE} or none"
        )
    return InvariantParameters(
        model,
        None if initial is ... else initial,
        options.negative_balances,
        options.consistency == LINEARIZABLE,
        options.time_s,
        options.memory_mb,
    )


def _initial(text: str | None) -> int | str | bool | EllipsisType | None:
    if text is None:
        return ...
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    if value is None or isinstance(value, int | str):
        return value
    raise UsageError(f"--initial is {text}, expected a whole number, text, true, false or null")
