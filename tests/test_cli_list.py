"""`harness list`: all names, the names of a section, and one name."""

import json

import pytest
from click.testing import CliRunner

from harness.cli.list import SECTIONS, list_
from harness.core.errors import UsageError


def printed(*words: str) -> str:
    done = CliRunner().invoke(list_, words, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_without_an_argument_every_name_is_listed() -> None:
    lines = printed().replace("\n", " ").split()
    names = {name for entries in SECTIONS.values() for name in entries}
    assert {name for name in names if " " not in name} <= {word.rstrip(",") for word in lines}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_lists_each_name_with_its_description(section: str) -> None:
    output = " ".join(printed(section).split())
    for name, text in SECTIONS[section].items():
        assert name in output
        assert text.split()[0] in output


def test_a_name_of_two_sections_is_described_twice() -> None:
    assert [line for line in printed("dedup").splitlines() if line.endswith(": dedup")] == [
        "workloads: dedup",
        "checkers: dedup",
    ]


def test_a_workload_is_described_with_its_options() -> None:
    assert json.loads(printed("zk-register", "--json"))["options"]["keys"] == {
        "default": "3",
        "text": "Number of registers in use at a time.",
    }


def test_an_unknown_name_is_refused_with_the_closest_ones() -> None:
    with pytest.raises(UsageError, match="'nemesiss' is unknown; did you mean nemeses"):
        CliRunner().invoke(list_, ["nemesiss"], catch_exceptions=False)
