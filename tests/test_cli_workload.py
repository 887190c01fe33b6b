"""Conversion of command lines into a workload's options, and of stored runs back into them."""

from dataclasses import asdict

import pytest

from harness.core.errors import UsageError
from harness.core.seed import Seed
from harness.spec.catalogue import WORKLOADS
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import described_options, options_of, workload_of
from workloads.quorum_set import QuorumSet, QuorumSetOptions


def test_flags_and_words_are_options_and_the_rest_are_defaults() -> None:
    options = options_of(RunSpec(quorum=3, option=("quorum-timeout-ms=70", "insert=plain")))
    assert options == QuorumSetOptions(quorum=3, quorum_timeout_ms=70, insert="plain")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        (
            "wirters=3",
            "--option 'wirters=3': workload quorum-set has no such option; did you mean writers? "
            "expected NAME=VALUE with a NAME among insert",
        ),
        ("speed=3", "--option 'speed=3': workload quorum-set has no such option; expected NAME"),
        ("writers", "--option 'writers': expected NAME=VALUE, such as writers=…"),
        ("writers=many", "--option 'writers=many': expected a whole number"),
        ("timeout_s=x", "--option 'timeout_s=x': expected a number"),
    ],
)
def test_a_word_that_is_no_option_is_refused(word: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options_of(RunSpec(option=(word,)))
    assert says in str(caught.value)


def test_a_stored_run_makes_the_workload_that_was_run() -> None:
    options = QuorumSetOptions(insert="plain", writers=1)
    spec = RunSpec(
        workload="quorum-set",
        nemesis="kill",
        seed=Seed(7),
        promise="session",
        workload_options=asdict(options),
    )
    workload = workload_of(spec)
    assert isinstance(workload, QuorumSet)
    assert (workload.options, workload.promise, workload.faults_expected) == (
        options, "session", True,
    )  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_option_of_a_workload_is_described(workload: str) -> None:
    options = described_options(workload)
    assert [one.name for one in options][-1] in ("timeout-s", "ops-per-s")
    assert [one.name for one in options if not one.text] == []


def test_an_option_is_shown_with_its_default() -> None:
    quorum = next(one for one in described_options("quorum-set") if one.name == "quorum")
    assert (quorum.default, quorum.text) == (
        "2",
        'Number of replicas that must have a part before its insert is acknowledged; "auto": a '
        "majority.",
    )
