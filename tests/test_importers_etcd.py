"""Reports of etcd's robustness tests: requests and responses in, operations on registers out."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyporcupine import HistoryError, check, read

REPORT = Path(__file__).parent / "importers/tools/etcd-report"


def put(key: str, value: str, lease: int = 0) -> dict[str, Any]:
    return {
        "Type": "put-operation",
        "Put": {"Key": key, "Value": {"Value": value}, "LeaseID": lease},
    }


def get(key: str, end: str = "", limit: int = 0) -> dict[str, Any]:
    return {"Type": "range-operation", "Range": {"Start": key, "End": end, "Limit": limit}}


def found(**values: str) -> dict[str, Any]:
    return {"KVs": [{"Key": key, "Value": {"Value": value}} for key, value in values.items()]}


def txn(*steps: Any, orelse: Any = (), failure: bool = False, results: Any = ()) -> dict[str, Any]:
    branches = {"OperationsOnSuccess": list(steps), "OperationsOnFailure": list(orelse)}
    return {
        "Input": {"Type": "txn", "Txn": branches},
        "Output": {"Txn": {"Failure": failure, "Results": list(results)}},
    }


def ranged(asked: dict[str, Any], answer: Any) -> dict[str, Any]:
    return {"Input": {"Type": "range", "Range": asked["Range"]}, "Output": {"Range": answer}}


def written(tmp_path: Path, *requests: dict[str, Any]) -> Path:
    """Write a report of one client, whose requests come one after the other."""
    (tmp_path / "client-1").mkdir()
    rows = [
        json.dumps({"ClientId": 1, "Call": 10 * at, "Return": 10 * at + 5, **request})
        for at, request in enumerate(requests)
    ]
    (tmp_path / "client-1/operations.json").write_text("\n".join(rows))
    return tmp_path


BOTH = found(a="1", b="2")
CASES: list[tuple[str, list[dict[str, Any]], list[tuple[Any, ...]]]] = [
    ("a put is a write", [txn(put("a", "1"))], [("write", "a", "1", True)]),
    ("a key that is not there is read as absent", [ranged(get("a"), {"KVs": None})],
     [("read", "a", "(absent)", True)]),
    ("a delete makes it absent",
     [txn({"Type": "delete-operation", "Delete": {"Key": "a"}})],
     [("write", "a", "(absent)", True)]),
    ("a range reads the keys that it found, and those that it did not",
     [txn(put("c", "3")), ranged(get("a", "d"), BOTH)],
     [("write", "c", "3", True), ("read", "a", "1", True), ("read", "b", "2", True),
      ("read", "c", "(absent)", True)]),
    ("a limited range says nothing of others",
     [txn(put("c", "3")), ranged(get("a", "d", 2), BOTH)],
     [("write", "c", "3", True), ("read", "a", "1", True), ("read", "b", "2", True)]),
    ("the branch that was taken counts",
     [txn(put("a", "1"), orelse=[get("a")], failure=True, results=[found(a="7")])],
     [("read", "a", "7", True)]),
    ("without a response either branch may have been taken",
     [txn(put("a", "1"), orelse=[put("b", "2")]) | {"Output": {"Error": "timeout"}}],
     [("write", "a", "1", False), ("write", "b", "2", False)]),
    ("also if both write one key, either value may be there",
     [txn(put("a", "1"), orelse=[put("a", "2")]) | {"Output": {"Error": "timeout"}}],
     [("write", "a", "1", False), ("write", "a", "2", False)]),
    ("a read without a response says nothing",
     [txn(put("a", "1")), ranged(get("a"), None) | {"Output": {"Error": "timeout"}}],
     [("write", "a", "1", True)]),
    ("a refused request did not happen",
     [txn(put("a", "1")) | {"Output": {"ClientError": "compacted"}}, txn(put("a", "2"))],
     [("write", "a", "2", True)]),
    ("what was found to be persisted has no known end",
     [txn(put("a", "1")) | {"Output": {"Persisted": True, "PersistedRevision": 3}}],
     [("write", "a", "1", False)]),
    ("revoking a lease may delete its keys",
     [txn(put("a", "1", 9)), {"Input": {"Type": "leaseRevoke", "LeaseRevoke": {"LeaseID": 9}},
                              "Output": {}}],
     [("write", "a", "1", True), ("write", "a", "(absent)", False)]),
    ("also those whose puts come later in the files",
     [{"Input": {"Type": "leaseRevoke", "LeaseRevoke": {"LeaseID": 9}}, "Output": {},
       "Call": 100, "Return": 105}, txn(put("a", "1", 9))],
     [("write", "a", "1", True), ("write", "a", "(absent)", False)]),
    ("of a long value there is a hash",
     [txn({"Type": "put-operation", "Put": {"Key": "a", "Value": {"Hash": 77}}})],
     [("write", "a", "hash 77", True)]),
    ("leases, compactions and old revisions are left out",
     [{"Input": {"Type": "leaseGrant"}, "Output": {}}, {"Input": {"Type": "compact"}, "Output": {}},
      ranged({"Range": {"Start": "a", "End": "", "Revision": 3}}, BOTH), txn(put("a", "1"))],
     [("write", "a", "1", True)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("requests", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_request_is_these_operations(
    tmp_path: Path, requests: list[dict[str, Any]], expected: list[tuple[Any, ...]]
) -> None:
    history = read(written(tmp_path, *requests), "etcd")
    assert [
        (one.f, one.key, one.value if one.f == "write" else one.output, one.ret is not None)
        for one in history.operations
    ] == expected
    assert check(history.operations, **history.arguments()).status in ("VALID", "INVALID")


def test_a_stale_read_of_one_client_is_found_in_the_report_of_all(tmp_path: Path) -> None:
    assert check_report(REPORT) == "VALID"
    stale = tmp_path / "stale"
    for part in REPORT.glob("*/operations.json"):
        copy = stale / part.relative_to(REPORT)
        copy.parent.mkdir(parents=True)
        last = '"Call":60,"Output":{"Txn":null,"Range":{"KVs":[{"Key":"b","Value":{"Value":"4"}'
        copy.write_text(part.read_text().replace(last, last.replace('"4"', '"0"')))
    assert check_report(stale) == "INVALID"


def check_report(report: Path) -> str:
    history = read(report, "etcd")
    assert history.left_out == 1
    return check(history.operations, **history.arguments()).status


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"Input": {"Type": "put"}, "Output": {}}, "Type is 'put', expected one of compact, "),
        ({"Input": 3, "Output": {}}, "Input is 3, expected an object"),
        ({"Output": {}}, "Input is 'not there', expected an object"),
        ({"Call": "x", "Input": {}, "Output": {}}, "Call is 'x', expected a whole number"),
        (txn({"Type": "get"}), "Type is 'get', expected put-operation, delete-operation or"),
        (ranged({"Range": {"End": ""}}, BOTH), "Start is None, expected the name of a key"),
        (txn({"Type": "put-operation", "Put": {"Key": "a", "Value": 1}}), "Value is 1, expected"),
        (txn({"Type": "put-operation", "Put": {"Key": "a", "Value": {}, "LeaseID": "x"}}),
         "LeaseID is 'x', expected a whole number"),
        (txn(3), "OperationsOnSuccess is [3], expected a list of objects"),
        (ranged(get("a"), {"KVs": [3]}), "KVs is [3], expected a list of objects"),
        (ranged(get("a"), {"KVs": 3}), "KVs is 3, expected a list of objects"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_request_is_named_with_its_file(
    tmp_path: Path, request_: dict[str, Any], says: str
) -> None:
    with pytest.raises(HistoryError) as refused:
        read(written(tmp_path, txn(put("a", "1")), request_), "etcd")
    assert f":2: client-1/operations.json: {says}" in str(refused.value)


def test_a_file_of_one_client_is_no_history() -> None:
    with pytest.raises(HistoryError, match="the file is what one client did, expected the direct"):
        read(REPORT / "client-1/operations.json")
