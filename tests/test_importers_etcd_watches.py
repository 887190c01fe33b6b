"""Watches in reports of etcd's robustness tests: what a watch shows, against what clients wrote."""

import json
import random
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyporcupine import HistoryError, read
from pyporcupine.importers.etcd_forms import ABSENT
from pyporcupine.importers.etcd_watches import (
    AnsweredRequest,
    Watch,
    WatchEvent,
    broken_promises,
)

from harness.core.verdict import Status
from harness.importers.files import check_files, files
from harness.importers.judge import CheckParameters

REPORT = Path(__file__).parent / "importers/tools/etcd-report"
WATCH = REPORT / "client-1/watch.json"


def wrote(revision: int, at: int, **changes: str) -> AnsweredRequest:
    return AnsweredRequest(f"request {revision}", at, at + 5, revision, changes)


def event(revision: int, key: str, value: str, create: bool = False) -> WatchEvent:
    return WatchEvent(key, value, revision, create, None)


ANSWERED = [
    wrote(2, 0, a="1"),
    wrote(3, 10, b="2", c="2"),
    wrote(4, 20, a=ABSENT),
    wrote(6, 40, b="6"),
]
"""Revision 5 was written by a request without an answer."""
A2, B3, C3 = event(2, "a", "1", True), event(3, "b", "2", True), event(3, "c", "2", True)
A4, A5, B6 = event(4, "a", ABSENT), event(5, "a", "5", True), event(6, "b", "6")
ALL = [([A2], 0), ([B3, C3, A4], 0), ([A5, B6], 0)]

CASES: list[tuple[str, int, list[tuple[list[WatchEvent], int]], list[str]]] = [
    ("all events in order", 2, ALL, []),
    ("a prefix of them", 2, ALL[:2], []),
    ("none", 2, [], []),
    ("progress that was reached", 2, [*ALL, ([], 6), ([], 9)], []),
    ("events from now on", 0, ALL[1:], []),
    ("events after a progress", 0, [([], 4), *ALL[2:]], []),
    ("one is missing", 2, [([A2], 0), ([B3, C3], 0), ([A5], 0)],
     ["reliable: revision 4 of 'a' = '(absent)' is missing, request 4"]),
    ("the first is missing", 2, ALL[1:],
     ["resumable: revision 2 of 'a' = '1' is missing, request 2"]),
    ("half of a revision is missing", 2, [([A2], 0), ([B3], 0)],
     ["atomic: revision 3 of 'c' = '2' is missing, request 3"]),
    ("a revision in two lists", 2, [([A2, B3], 0), ([C3], 0)],
     ["atomic: revision 3 of 'c' = '2' came apart from others of its revision"]),
    ("one comes twice", 2, [([A2], 0), ([A2, B3, C3], 0)],
     ["unique: revision 2 of 'a' = '1' came twice"]),
    ("one comes late", 2, [([B3, C3], 0), ([A2], 0), ([A4], 0)],
     ["ordered: revision 2 of 'a' = '1' came after revision 3"]),
    ("a progress that says too much", 2, [([A2], 0), ([], 4)],
     ["reliable: revision 3 of 'b' = '2' is missing, request 3",
      "reliable: revision 3 of 'c' = '2' is missing, request 3",
      "reliable: revision 4 of 'a' = '(absent)' is missing, request 4"]),
    ("an event after such a progress", 2, [([A2], 0), ([], 4), ([B3, C3, A4], 0)],
     ["bookmarkable: revision 3 of 'b' = '2' came after a progress to 4",
      "bookmarkable: revision 3 of 'c' = '2' came after a progress to 4",
      "bookmarkable: revision 4 of 'a' = '(absent)' came after a progress to 4"]),
    ("a progress that steps back", 2, [*ALL, ([], 5)],
     ["bookmarkable: a progress to 5 came after revision 6"]),
    ("another value than was written", 2, [([event(2, "a", "7", True)], 0)],
     ["event: revision 2 of 'a' = '7', but it wrote 'a' = '1'"]),
    ("another key than was written", 2, [([A2, B3, C3, event(3, "d", "2", True)], 0)],
     ["event: revision 3 of 'd' = '2', but it wrote not that key"]),
    ("a value that nobody wrote", 2, [*ALL[:2], ([event(5, "a", "8", True)], 0)],
     ["event: no request wrote revision 5 of 'a' = '8'"]),
    ("a request without an answer that happens twice", 2, [*ALL, ([event(7, "a", "5")], 0)],
     ["event: no request wrote revision 7 of 'a' = '5'"]),
    ("a creation that is none", 2, [*ALL[:2], ([A5, event(6, "b", "6", True)], 0)],
     ["value: revision 6 of 'b' = '6' is a creation, and the value was '2'"]),
    ("no creation although it is one", 2, [([event(2, "a", "1")], 0)],
     ["value: revision 2 of 'a' = '1' is no creation, and the value was '(absent)'"]),
    ("another value before", 2, [*ALL[:2], ([A5, WatchEvent("b", "6", 6, False, "3")], 0)],
     ["value: revision 6 of 'b' = '6' says that it was '3', not '2'"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("revision", "lists", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_watch_breaks_these_promises(
    revision: int, lists: list[tuple[list[WatchEvent], int]], expected: list[str]
) -> None:
    watch = Watch("w", "", True, revision, lists)
    found = broken_promises(ANSWERED, [("a", "5")], (), [watch])
    assert [text.removesuffix(" (w)") for text in found] == expected


def test_a_watch_of_one_key_shows_no_other() -> None:
    of_b = Watch("w", "b", False, 2, [([B3, B6], 0)])
    assert broken_promises(ANSWERED, [], (), [of_b]) == []
    (found,) = broken_promises(ANSWERED, [], (), [Watch("w", "b", False, 2, [([A2, B3], 0)])])
    assert found == "filter: revision 2 of 'a' = '1' is of a key that was not asked for (w)"


def test_what_one_watch_shows_another_may_not_miss_or_contradict() -> None:
    whole = Watch("w", "", True, 2, ALL)
    lacks = Watch("v", "", True, 2, [*ALL[:2], ([B6], 0)])
    differs = Watch("v", "", True, 2, [*ALL[:2], ([event(5, "a", "9", True), B6], 0)])
    unanswered = [("a", "5"), ("a", "9")]
    assert broken_promises(ANSWERED, unanswered, (), [whole, lacks]) == [
        "reliable: revision 5 of 'a' = '5' is missing, another watch has it (v)"
    ]
    assert broken_promises(ANSWERED, unanswered, (), [whole, differs]) == [
        "event: revision 5 of 'a' = '9', but it wrote 'a' = '5' (v)"
    ]


def test_keys_with_leases_may_be_deleted_at_any_time() -> None:
    gone = Watch("w", "", True, 2, [*ALL, ([event(7, "b", ABSENT)], 0)])
    assert broken_promises(ANSWERED, [("a", "5")], ["b"], [gone]) == []
    (found,) = broken_promises(ANSWERED, [("a", "5")], ["c"], [gone])
    assert found == "event: no request wrote revision 7 of 'b' = '(absent)' (w)"


def test_revisions_follow_real_time() -> None:
    read_ = AnsweredRequest("read", 50, 55, 5, {})
    late = AnsweredRequest("late", 50, 55, 6, {"a": "9"})
    assert broken_promises([*ANSWERED, read_], [], (), []) == [
        "revision: a request read revision 5 (read) after the answer with 6 (request 6)"
    ]
    assert broken_promises([*ANSWERED, late], [], (), []) == [
        "revision: a request wrote revision 6 (late) after the answer with 6 (request 6)",
        "unique: two requests wrote revision 6 (request 6; late)",
    ]
    assert broken_promises([*ANSWERED, AnsweredRequest("r", 50, 55, 6, {})], [], (), []) == []
    assert broken_promises([*ANSWERED, AnsweredRequest("r", 44, 55, 5, {})], [], (), []) == []


def altered(seed: int, lists: list[list[WatchEvent]]) -> Iterator[list[list[WatchEvent]]]:
    """Yield the lists of a watch, and the same with one event removed, repeated, moved or cut from
    its list."""
    yield lists
    draw = random.Random(seed)
    for at, events in enumerate(lists):
        where = draw.randrange(len(events))
        one = events[where]
        for changed in (
            events[:where] + events[where + 1 :],
            [*events[: where + 1], one, *events[where + 1 :]],
            [*events[:where], *events[where + 1 :], one],
        ):
            yield [*lists[:at], *([changed] if changed else []), *lists[at + 1 :]]
        if where:
            yield [*lists[:at], events[:where], events[where:], *lists[at + 1 :]]
    yield lists[::-1]


def is_kept(lists: list[list[WatchEvent]], log: list[WatchEvent], first: int) -> bool:
    """Return whether a watch has, by the definition, a beginning of the log, in whole revisions."""
    came = [one for events in lists for one in events]
    last = max((one.revision for one in came), default=0)
    cut = any(one[-1].revision == other[0].revision for one, other in pairwise(lists))
    by_revision: dict[int, set[WatchEvent]] = {}
    for one in came:
        by_revision.setdefault(one.revision, set()).add(one)
    order = [one.revision for one in came]
    wanted = [one for one in log if first <= one.revision <= last]
    return not cut and order == sorted(order) and sorted(came, key=str) == sorted(wanted, key=str)


def test_random_watches_are_judged_as_by_the_definition() -> None:
    broken = 0
    for seed in range(300):
        draw = random.Random(seed)
        store: dict[str, str] = {}
        answered, log = [], list[WatchEvent]()
        for revision in range(2, draw.randint(4, 8)):
            keys = draw.sample("abc", draw.randint(1, 2))
            log += [event(revision, key, f"{revision}", key not in store) for key in keys]
            store |= dict.fromkeys(keys, f"{revision}")
            answered.append(wrote(revision, 10 * revision, **dict.fromkeys(keys, f"{revision}")))
        first = draw.randint(2, 3)
        lists: list[list[WatchEvent]] = []
        for one in (one for one in log if one.revision >= first):
            if not lists or (draw.random() < 0.5 and lists[-1][-1].revision != one.revision):
                lists.append([])
            lists[-1].append(one)
        for case in altered(seed, lists):
            watch = Watch("w", "", True, first, [(events, 0) for events in case])
            kept = is_kept(case, log, first)
            broken += not kept
            assert (broken_promises(answered, [], (), [watch]) == []) is kept, (seed, case)
    assert broken > 1000


def judge_altered(tmp_path: Path, old: str, new: str) -> tuple[Status, str]:
    """Return the status and the reason of the report with another text in a file of client 1."""
    report = tmp_path / "report"
    shutil.copytree(REPORT, report)
    file = report / "client-1/watch.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    (one,) = check_files(files([str(report)], None), CheckParameters("register"))
    return one.status, one.reason


def test_a_report_is_invalid_if_a_watch_breaks_a_promise(tmp_path: Path) -> None:
    events = json.loads(WATCH.read_text())["Responses"][1]["Events"]
    lost = json.dumps(events, separators=(",", ":"))
    assert judge_altered(tmp_path, lost, "null") == (
        Status.INVALID,
        "reliable: revision 3 of 'a' = '1' is missing, client-1/operations.json, line 2 "
        "(client-1/watch.json, line 1)",
    )


def test_a_report_says_how_many_promises_more_are_broken(tmp_path: Path) -> None:
    nobody_wrote = '"Events":[{"Key":"q","Revision":1}],"Others":'
    status, reason = judge_altered(tmp_path, '"Events":', nobody_wrote)
    assert status is Status.INVALID
    assert reason.startswith("event: no request wrote revision 1 of 'q' = '' (client-1/watch.json")
    assert reason.endswith("; and 6 more")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"Request": 3}, "Request is 3, expected an object"),
        ({"Request": {"Key": "a", "Revision": "x"}}, "Revision is 'x', expected a whole number"),
        ({"Request": {"Revision": 1}}, "Key is None, expected the name of a key"),
        ({"Request": {"Key": "a"}, "Responses": [{"Events": [{"Key": "a"}]}]},
         "Revision is 'not there', expected a whole number"),
        ({"Request": {"Key": "a"}, "Responses": [{"IsProgressNotify": True}]},
         "Revision is 'not there', expected a whole number"),
    ],
)  # fmt: skip
def test_an_object_that_is_no_watch_is_named_with_its_file(
    tmp_path: Path, value: Any, says: str
) -> None:
    report = tmp_path / "report"
    shutil.copytree(REPORT, report)
    (report / "client-1/watch.json").write_text(f"{WATCH.read_text()}{json.dumps(value)}")
    with pytest.raises(HistoryError) as refused:
        read(report, "etcd")
    assert f":2: client-1/watch.json: {says}" in str(refused.value)


def test_the_package_gives_what_a_report_breaks(tmp_path: Path) -> None:
    assert read(REPORT, "etcd").broken == []
    with pytest.raises(HistoryError, match="what one client did, expected the directory"):
        read(WATCH)
