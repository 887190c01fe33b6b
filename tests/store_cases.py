"""A small history with every kind of value, for the tests of what is stored."""

from hypothesis import strategies as st

from harness.core.op import NEMESIS, Kind, Op

OPS = (
    Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=5, value=7, key=1, node="ch1"),
    Op(index=1, process=NEMESIS, kind=Kind.INVOKE, f="cut", time_ns=6),
    Op(index=2, process=0, kind=Kind.OK, f="insert", time_ns=9, value=7, key=1, node="ch1"),
    Op(
        index=3,
        process=NEMESIS,
        kind=Kind.OK,
        f="cut",
        time_ns=9,
        value={"fault": 1, "edge": "begin", "text": "{ch1 | ch2 ch3}", "links": ["a", "b"]},
    ),
    Op(index=4, process=1, kind=Kind.INVOKE, f="read", time_ns=11, key=1, node="ch2"),
    Op(
        index=5,
        process=1,
        kind=Kind.OK,
        f="read",
        time_ns=12,
        value=(7, 3, 7),
        key=1,
        node="ch2",
    ),
    Op(index=6, process=0, kind=Kind.INVOKE, f="insert", time_ns=13, value=8, key=1, node="ch1"),
    Op(
        index=7,
        process=0,
        kind=Kind.INFO,
        f="insert",
        time_ns=14,
        value=8,
        key=1,
        node="ch1",
        error='319 UNKNOWN_STATUS_OF_INSERT: "quoted"\nand a second line, ü, \x00',
    ),
)


NUMBERS = st.integers(-(2**63), 2**64 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def shape(value: object) -> object:
    """Return a value with its types, so that 1 differs from 1.0 and True, and a tuple from a
    list."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return (type(value), [shape(inner) for inner in value])
    return (type(value), value)
