"""How findings become a verdict, and how looks become values of ops and back."""

import msgspec
import pytest
from checkers_cases import history, insert, read
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings, anomaly
from checkers.look import decode, encode
from harness.core.errors import HistoryError
from harness.core.op import Kind, Op
from harness.core.verdict import Anomaly, Status, Verdict

H = history(insert(0, 1, 0, 10), insert(1, 2, 20, None), read(2, [1], 30, 40))


def found(*kinds: str, doubts: tuple[str, ...] = (), **options: object) -> Findings:
    """Return findings with an anomaly of each kind, which are named by their order."""
    out = Findings("it", **options)
    for at, kind in enumerate(kinds):
        out.add_anomaly(kind, f"{kind} {at}", H.pairs[0])
    for doubt in doubts:
        out.add_doubt(doubt)
    return out


STATUSES = {
    "nothing broken or doubted is VALID": (found(), 3, Status.VALID, "held"),
    "nothing checked is UNKNOWN": (found(), 0, Status.UNKNOWN, "nothing there"),
    "a doubt is UNKNOWN": (found(doubts=("a", "b")), 3, Status.UNKNOWN, "a; b"),
    "a doubt says better what was missing": (found(doubts=("a",)), 0, Status.UNKNOWN, "a"),
    "a witness outweighs doubts": (found("lost", doubts=("a",)), 3, Status.INVALID, "lost 0"),
    "a witness outweighs how little was checked": (found("lost"), 0, Status.INVALID, "lost 0"),
}


@pytest.mark.parametrize(
    ("findings", "checked", "status", "summary"), STATUSES.values(), ids=STATUSES
)
def test_the_status_follows(findings: Findings, checked: int, status: Status, summary: str) -> None:
    verdict = findings.verdict(checked=checked, held="held", nothing="nothing there")
    assert (verdict.status, verdict.summary) == (status, summary)


def test_a_few_of_each_kind_are_shown_and_all_are_counted() -> None:
    findings = found("b", "a", *["b"] * 4, kinds=["c"])
    verdict = findings.verdict(checked=9, held="", broken=findings.tally, after=" (of 9)")
    assert [one.text for one in verdict.anomalies] == ["b 0", "b 2", "b 3", "a 1"]
    assert verdict.figures == {"anomalies": {"c": 0, "b": 5, "a": 1}}
    assert verdict.summary == "5 b, 1 a (of 9)"


def test_uncertain_anomalies_are_counted_and_break_nothing() -> None:
    verdict = found("lost", doubts=("not at rest",)).verdict(checked=3, held="", certain=False)
    expected = Verdict(
        checker="it",
        status=Status.UNKNOWN,
        summary="not at rest",
        checked=3,
        figures={"anomalies": {"lost": 1}},
    )
    assert verdict == expected


def test_the_smallest_witness_comes_first_if_that_is_asked_for() -> None:
    findings = Findings("it", smallest_first=True, counted=False)
    findings.add_anomaly("a", "of three", H.pairs[0], H.pairs[1])
    findings.add_anomaly("b", "of one", H[0])
    verdict = findings.verdict(checked=1, held="")
    assert [one.text for one in verdict.anomalies] == ["of one", "of three"]
    assert verdict.figures == {}


def test_no_more_anomalies_are_made_than_are_shown() -> None:
    made = []

    def witness(at: int) -> Anomaly:
        made.append(at)
        return anomaly("stale", f"{at}", H[0])

    findings, later = found(), found()
    findings.add_anomalies("stale", map(witness, range(2)), 2)
    later.add_anomalies("stale", map(witness, range(2, 9)), 7)
    findings.extend(later)
    findings.add_anomalies("stale", map(witness, range(9, 10)))
    assert (findings.counts, made) == ({"stale": 10}, [0, 1, 2, 3, 4])
    shown = findings.verdict(checked=1, held="").anomalies
    assert [one.text for one in shown] == ["0", "1", "2"]


def test_an_anomaly_has_its_ops_in_order_of_time_and_the_time_of_the_last() -> None:
    made = anomaly("lost", "gone", H[4], H.pairs[0], None, H.pairs[1], H[0], value=1)
    expected = Anomaly(kind="lost", text="gone", ops=(0, 1, 2, 4), value=1, time_ns=H[4].time_ns)
    assert made == expected


class Shown(msgspec.Struct, frozen=True):
    """Look of these tests."""

    parts: dict[str, tuple[int, str]]
    error: str | UnsetType = UNSET
    lost: bool = False


def op(value: object) -> Op:
    return Op(index=7, process=0, kind=Kind.OK, f="look", time_ns=0, value=value)


@pytest.mark.parametrize(
    ("value", "look"),
    [
        ({"parts": {"0_1_1_0": [3, "x"]}, "lost": True}, Shown({"0_1_1_0": (3, "x")}, lost=True)),
        ({"parts": {}, "error": "gone", "lost": False}, Shown({}, "gone")),
    ],
    ids=["without an unset field", "with every field"],
)
def test_a_look_is_the_value_of_an_op(value: dict[str, object], look: Shown) -> None:
    assert msgspec.json.encode(encode(look)) == msgspec.json.encode(value)
    assert decode(op(value), Shown) == look


def test_a_field_with_a_default_may_be_missing_and_others_may_be_there() -> None:
    assert decode(op({"parts": {}, "remark": 7}), Shown) == Shown({})


@pytest.mark.parametrize("value", [None, 5, {}, {"parts": [1]}, {"parts": {}, "lost": "no"}])
def test_a_value_of_another_form_is_refused_with_its_op(value: object) -> None:
    with pytest.raises(HistoryError, match="op #7: the value of an ok look cannot be read: "):
        decode(op(value), Shown)


def test_what_is_not_certain_is_a_doubt_and_never_valid() -> None:
    found = Findings("own")
    found.add_anomalies("lost", [Anomaly(kind="lost", text="value 1", ops=(0,))])
    verdict = found.verdict(checked=1, held="all", certain=False)
    assert (verdict.status, verdict.anomalies) == (Status.UNKNOWN, ())
    assert verdict.summary == "found and not certain: 1 lost"
