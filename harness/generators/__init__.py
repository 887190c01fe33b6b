"""Generators: pure values that say what to do next.

`op(context)` gives a call, a wait or the end, and the generator after that; `update(event)` gives
the generator that has seen an event. Nothing here asks a clock, sleeps, or draws a number that
does not follow from a seed and a counter, so both interpreters run the same generators, and the
same seed makes the same calls. The model is Jepsen's generators, made smaller and typed.

Combinators are Rust (`crates/generators`); a generator with calls of its own, such as a script, may
be Python.

A test, put together:

    together(
        on_clients(time_limit(rate(calls, 100, seed.child("rate")), 30)),
        on_nemesis(time_limit(nemesis.generator(), 30)),
    )
"""

from harness.generators.calls import at_most_in_flight, numbered, once, repeat, sequence
from harness.generators.choose import key_rounds, mix, per_key
from harness.generators.order import cycle, phases, stop_when, until_ok
from harness.generators.timing import (
    Gaps,
    limit,
    rate,
    rest_after_fail,
    sleep,
    time_limit,
    while_answered,
)
from harness.generators.workers import (
    each_node,
    on_clients,
    on_few_nodes,
    on_nemesis,
    reserve,
    together,
)

__all__ = [
    "Gaps",
    "at_most_in_flight",
    "cycle",
    "each_node",
    "key_rounds",
    "limit",
    "mix",
    "numbered",
    "on_clients",
    "on_few_nodes",
    "on_nemesis",
    "once",
    "per_key",
    "phases",
    "rate",
    "repeat",
    "reserve",
    "rest_after_fail",
    "sequence",
    "sleep",
    "stop_when",
    "time_limit",
    "together",
    "until_ok",
    "while_answered",
]
