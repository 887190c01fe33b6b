"""No run of the repaired simulated cluster is INVALID, whatever its workload and its faults: 300 of
the runs of benches/sim_sweep.py, drawn evenly over all cells. Some 30 s of CPU."""

from pathlib import Path

import pytest

from benches.sim_sweep import arguments, cells, nemeses, one

RUNS, TURNS = 310, 10
FIRST = 430_001
"""Seed of run 0."""


def drawn() -> list[int]:
    """Return the numbers of the runs: cells at equal distances, in each half of the list others,
    because every second cell is of quorum-set; then the first cell of each workload and nemesis
    that is in none of them."""
    of = cells()
    numbers = [at * len(of) // RUNS + at % 2 for at in range(RUNS)]
    named = {name for number in numbers for name in of[number]}
    for number, cell in enumerate(of):
        missing = {cell[0], *nemeses().keys() & {cell[1]}} - named
        if missing:
            numbers.append(number)
            named |= missing
    return numbers


def test_the_runs_have_every_workload_and_every_nemesis() -> None:
    of = [cells()[number] for number in drawn()]
    assert {workload for workload, _ in of} == {workload for workload, _ in cells()}
    assert not nemeses().keys() - {nemesis for _, nemesis in of}


def test_a_nemesis_has_servers_that_have_its_mechanism() -> None:
    assert "--protocol repaired-25.8" in " ".join(arguments("phantom", "replace,partition"))
    assert "--protocol repaired " in " ".join(arguments("phantom", "kill,partition"))
    assert {name for name, protocol in nemeses().items() if protocol != "repaired"} == {"replace"}


@pytest.mark.parametrize("turn", range(TURNS))
def test_no_run_is_accused(tmp_path: Path, turn: int) -> None:
    rows = [one(number, FIRST, tmp_path) for number in drawn()[turn::TURNS]]
    assert [(row["again"], row["by"]) for row in rows if row["status"] == "INVALID"] == []
