"""Readers of imported histories: text in, operations and what is wrong with lines out."""

from typing import Any

import pytest
from pyporcupine import Operation
from pyporcupine.importers.calls import FailedCas
from pyporcupine.importers.edn import edn_value, read_edn
from pyporcupine.importers.formats import read_text as read

OperationFields = tuple[int, str, Any, Any, Any, int, int | None]


def fields(operation: Operation) -> OperationFields:
    return (
        operation.process, operation.f, operation.key, operation.value, operation.output,
        operation.call, operation.ret,
    )  # fmt: skip


def lines(*events: str) -> str:
    return "\n".join(f"INFO  jepsen.util - {event}" for event in events)


def edn(*events: str) -> str:
    return "\n".join(f"{{:process {event}}}" for event in events)


CASES: list[tuple[str, str, str, list[OperationFields]]] = [
    (
        "a read's value is what its end found",
        "jepsen-log",
        lines("3 :invoke :read nil", "3 :ok :read 4"),
        [(3, "read", None, None, 4, 0, 1)],
    ),
    (
        "an info never returns",
        "jepsen-log",
        lines("0 :invoke :write 1", "0 :info :write :timed-out"),
        [(0, "write", None, 1, None, 0, None)],
    ),
    (
        "and neither does a call that the log does not end",
        "jepsen-log",
        lines("0\t:invoke\t:cas\t[1 2]"),
        [(0, "cas", None, [1, 2], None, 0, None)],
    ),
    (
        "a failed cas found another value, a failed read says nothing",
        "jepsen-log",
        lines(
            "0 :invoke :cas [1 2]",
            "1 :invoke :read nil",
            "0 :fail :cas [1 2]",
            "1 :fail :read :timed-out",
        ),
        [(0, "cas", None, [1, 2], False, 0, 2)],
    ),
    (
        "a cas that failed with an error says nothing",
        "jepsen-log",
        lines("0 :invoke :cas [1 2]", "0 :fail :cas :refused"),
        [],
    ),
    (
        "lines of other kinds, stamps before them and the nemesis",
        "jepsen-log",
        "\n".join(
            [
                "2026-01-01 00:00:00,000{GMT}\tINFO\t[jepsen worker 0] jepsen.util: 0 :later",
                "12:00:01 INFO [worker] jepsen.util 0\t:invoke\t:write\t-1",
                "INFO  jepsen.util - :nemesis\t:info\t:start\tCut off [n1 :n2",
                "jepsen.util 0\t:ok\t:write\t-1\t:slow {",
            ]
        ),
        [(0, "write", None, -1, None, 0, 1)],
    ),
    (
        "values that carry keys",
        "edn",
        edn(
            '0, :type :invoke, :f :cas, :value ["a" [1 2]]',
            '1, :type :invoke, :f :read, :value ["b" nil]',
            '0, :type :ok, :f :cas, :value ["a" [1 2]]',
            '1, :type :ok, :f :read, :value ["b" nil]',
        ),
        [(0, "cas", "a", [1, 2], True, 0, 2), (1, "read", "b", None, None, 1, 3)],
    ),
    (
        "pairs that are no keys",
        "edn",
        edn(
            "0, :type :invoke, :f :cas, :value [1 2]",
            "0, :type :ok, :f :cas, :value [1 2]",
            "0, :type :invoke, :f :read, :value nil",
            "0, :type :ok, :f :read, :value 2",
        ),
        [(0, "cas", None, [1, 2], True, 0, 1), (0, "read", None, None, 2, 2, 3)],
    ),
    (
        "sets and lists are read as lists, keywords as texts",
        "edn",
        edn(
            "0, :type :invoke, :f :read, :value nil",
            "0, :type :ok, :f :read, :value #{3 1 2}",
            "0, :type :invoke, :f :read, :value nil",
            "0, :type :ok, :f :read, :value (3 :a/b 2)",
        ),
        [(0, "read", None, None, [1, 2, 3], 0, 1), (0, "read", None, None, [3, ":a/b", 2], 2, 3)],
    ),
    (
        "tags, namespaces, comments and several lines",
        "edn",
        """; a history
        [#jepsen.history.Op{:process 0, :type :invoke, :f :write, :value 1
                            :jepsen.client/node "}" :time 1.5e3} #_ {:left "out"}
         {:process :nemesis, :type :info, :f :kill, :value {:n1 :killed}}
         #jepsen.history.Op{:process 0, :type :ok, :f :write, :value 1 :error nil :c \\}}]""",
        [(0, "write", None, 1, None, 0, 1)],
    ),
    (
        "transactions, whose names for reads and writes differ",
        "edn",
        edn(
            "0, :type :invoke, :f :txn, :value [[:r :x nil] [:write :y 2]]",
            "0, :type :ok, :f :txn, :value [[:r :x 1] [:write :y 2]]",
            "0, :type :invoke, :f :txn, :value [[:w :x 3]]",
        ),
        [
            (0, "txn", None, [["read", ":x", None], ["write", ":y", 2]],
             [["read", ":x", 1], ["write", ":y", 2]], 0, 1),
            (0, "txn", None, [["write", ":x", 3]], None, 2, None),
        ],
    ),
    (
        "times are ranks that the file gives",
        "jsonl",
        '{"client":7,"f":"cas","key":null,"value":[0,1],"ok":false,"call":5,"return":9}\n'
        '{"client":1,"f":"put","key":"a","value":"x","ok":null,"call":2,"return":null}\n',
        [(1, "put", "a", "x", None, 2, None), (7, "cas", None, [0, 1], False, 5, 9)],
    ),
]  # fmt: skip

CASES += [
    (
        "Jepsen's own jepsen.log, of both its loggers",
        "jepsen-log",
        "2026-01-01 00:00:00,001{GMT}\tINFO\t[jepsen worker 2] jepsen.util: 2\t:invoke\t:write\t1\n"
        "2026-01-01 00:00:00,002{GMT}\tINFO\t[jepsen nemesis] jepsen.util: :nemesis\t:info\t:cut\n"
        "2026-01-01 00:00:00,002{GMT}\tINFO\t[jepsen worker 2] jepsen.print: 2\t:ok\t:write\t1\n"
        "INFO\t[main] jepsen.print: 0 :later\n",
        [(2, "write", None, 1, None, 0, 1)],
    ),
    (
        "a JSON array of events, and of the nemesis",
        "json",
        '[{"index":0,"process":0,"type":"invoke","f":"txn","value":[["r","x",null],["w","y",1]]},\n'
        ' {"index":1,"process":"nemesis","type":"info","f":"cut","value":null},\n'
        ' {"index":2,"process":0,"type":"ok","f":"txn","value":[["r","x",5],["w","y",1]]}]\n',
        [(0, "txn", None, [["read", "x", None], ["write", "y", 1]],
          [["read", "x", 5], ["write", "y", 1]], 0, 1)],
    ),
    (
        "Jepsen's history.txt, which has the suffix of another format",
        "porcupine-kv",
        ":nemesis\t:info\t:cut\tnil\n"
        "2\t:invoke\t:cas\t[3 0]\n"
        "0\t:invoke\t:read\tnil\n"
        "0\t:ok\t:read\t3\n"
        "2\t:info\t:cas\t[3 0]\t:timed-out\n",
        [(2, "cas", None, [3, 0], None, 0, None), (0, "read", None, None, 3, 1, 2)],
    ),
    (
        "a .json file that is no array has an operation a line",
        "json",
        '{"client":0,"f":"read","key":null,"value":1,"ok":true,"call":2,"return":5}\n',
        [(0, "read", None, None, 1, 2, 5)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("says", "name", "text", "operations"), CASES)
def test_operations(says: str, name: str, text: str, operations: list[OperationFields]) -> None:
    reading = read(text, name)
    assert [fields(operation) for operation in reading.operations] == operations
    assert reading.malformed == []


MALFORMED: list[tuple[str, str, list[tuple[int, str]]]] = [
    (
        "jepsen-log",
        lines("x :invoke :read nil", "0 :began :read nil", "0 :invoke :write [1", "0 :ok :write 1"),
        [
            (1, "process is 'x', expected the number of a client"),
            (2, "type is 'began', expected one of :invoke, :ok, :fail, :info"),
            (3, "value is '[1', expected EDN (']' is missing at the end)"),
            (4, "type is ok of process 0, expected a call of this process before it"),
        ],
    ),
    (
        "jepsen-log",
        lines("0 :invoke :read", "0 :invoke :read", "0 :ok :write 1", "0 :info :read",
              "0 :ok :read 1"),
        [
            (2, "type is invoke of process 0, expected the end of its call on line 1 first"),
            (3, "f is 'write', expected 'read', as in its call on line 1"),
            (5, "type is ok of process 0, expected a call of this process before it"),
        ],
    ),
    (
        "edn",
        "[{:process 0, :type :invoke, :f :read, :value nil}\n"
        ' {:process 0, :type :ok, :f :read, :value [1 "}\n'
        " {:process 0, :type :ok, :f :read, :value 1 :odd}\n"
        " {:process 0.5, :type :ok, :f :read, :value 1}\n"
        " {:process 0, :type :done, :f :read, :value 1}\n"
        ' {:process 0, :type :ok, :f "read", :value 1}\n'
        " {:process 0, :f :read, :value 1}\n"
        " nothing\n"
        " {:process 0, :type :ok, :f :read, :value 1}]\n",
        [
            (2, "the form is '{:process 0, :type :ok, :f :read, :value [1 \"}', expected EDN"),
            (3, "the form is '{:process 0, :type :ok, :f :read, :value 1 :odd}', expected EDN"),
            (4, "process is 0.5, expected the number of a client"),
            (5, ":type is ':done', expected one of :invoke, :ok, :fail, :info"),
            (6, ":f is 'read', expected a keyword such as :read"),
            (7, ":type is not there, expected it in every map"),
            (8, "the form is 'nothing', expected a map with :process, :type, :f and :value"),
        ],
    ),
    (
        "jsonl",
        '{"client":"a","f":"read","value":0,"ok":true,"call":0,"return":2}\n'
        '{"client":0,"f":"read","value":0,"ok":true,"call":0\n'
        '{"client":0,"f":"read","value":0,"ok":true,"return":2}\n'
        '{"client":0,"f":"read","value":0,"ok":true,"call":0,"return":null}\n'
        "\n"
        "[]\n",
        [
            (1, "client is 'a', expected int"),
            (2, "the line is '{\"client\":0,\"f\":\"read\",\"value\":0,\"ok\":true,\"call\":0'"),
            (3, "call is not there, expected it in every line"),
            (4, "return is None, expected a time, for ok is not null"),
            (6, "the line is '[]', expected an object"),
        ],
    ),
]  # fmt: skip

MALFORMED += [
    (
        "edn",
        "{:process 0, :type :invoke, :value [[:append 1 2]]}\n"
        "{:process 0, :type :ok, :value [[:append 1 2]]}\n",
        [(1, ":f is in none of its 2 entries, expected Jepsen's history.edn: no line needs a ")],
    ),
    (
        "json",
        '[{"process":0,"type":"invoke","f":"read"},\n {"process":"a","type":"ok","f":"read"},\n 3]',
        [
            (2, "process is 'a', expected the number of a client"),
            (3, "the element is 3, expected an object of process, type, f, value"),
        ],
    ),
    (
        "json",
        '[{"process":0,"type":"invoke","f":"read"}\n {"process":0,"type":"ok","f":"read"}]',
        [(2, "the line is ' {\"process\":0,\"type\":\"ok\",\"f\":\"read\"}]', expected a JSON")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "errors"), MALFORMED)
def test_malformed_lines(name: str, text: str, errors: list[tuple[int, str]]) -> None:
    malformed = read(text, name).malformed
    assert [bad.line for bad in malformed] == [line for line, _ in errors]
    for bad, (_, begins) in zip(malformed, errors, strict=True):
        assert bad.text.startswith(begins), bad.text
        assert bad.mend


def test_keyed_decides_whether_values_carry_keys() -> None:
    text = edn("0, :type :invoke, :f :enqueue, :value [1 2]")
    assert fields(read(text, "edn").operations[0]) == (0, "enqueue", 1, 2, None, 0, None)
    assert fields(read(text, "edn", keyed=False).operations[0])[2:4] == (None, [1, 2])


FAILED_CAS = {
    "jepsen-log": lines("0 :invoke :cas [1 2]", "0 :fail :cas [1 2]"),
    "edn": edn("0, :type :invoke, :f :cas, :value [1 2]", "0, :type :fail, :f :cas, :value [1 2]"),
    "jsonl": '{"client":0,"f":"cas","key":null,"value":[1,2],"ok":false,"call":0,"return":1}',
}


@pytest.mark.parametrize(
    ("name", "failed_cas", "kept"),
    [
        ("edn", None, False),
        ("jepsen-log", None, True),
        ("jsonl", None, True),
        *((name, "observe", True) for name in FAILED_CAS),
        *((name, "ignore", False) for name in FAILED_CAS),
    ],
)
def test_a_failed_cas_says_what_its_format_means_or_what_is_asked_for(
    name: str, failed_cas: FailedCas | None, kept: bool
) -> None:
    reading = read(FAILED_CAS[name], name, failed_cas=failed_cas)
    found_another = [(0, "cas", None, [1, 2], False, 0, 1)]
    assert [fields(operation) for operation in reading.operations] == (
        found_another if kept else []
    )
    assert reading.left_out == (not kept)


def test_an_edn_value() -> None:
    assert edn_value('{:a [1 nil "x\\n"]}') == {":a": [1, None, "x\n"]}
    with pytest.raises(ValueError, match="2 forms"):
        edn_value("1 2")


def test_a_broken_form_costs_no_other() -> None:
    events, malformed = read_edn(
        edn("0, :type :invoke, :f :read, :value nil", "1 :type [", "0, :type :ok, :f :read")
    )
    assert [event.line for event in events] == [1, 3]
    assert [bad.line for bad in malformed] == [2]
