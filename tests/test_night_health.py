"""What servers said of themselves, in the summary of a night."""

from pathlib import Path
from typing import Any

from checkers.health import HEALTH, Complaint, Health, HealthReport
from checkers.judge import judge
from checkers.look import encode
from harness.core.history import History
from harness.core.op import NEMESIS, Kind, Op
from harness.nights.findings import complaints, nights_before
from harness.nights.night import Night
from harness.nights.night_summary import NightSummary, cells


def test_a_night_says_what_servers_said_of_themselves_and_what_is_new(tmp_path: Path) -> None:
    text = "12:00 [SyncThread:2] Current zxid 7 is <= 9 for multi"
    said = {"zk1": [Complaint("log-disorder", text)], "ch1": [Complaint("fatal", "it is")]}
    report = encode(HealthReport({**said, "ch2": [Complaint("lost-part", "3")]}))
    values: Any = (("power-cut", {"edge": "once", "name": "power-cut"}), (HEALTH, report))
    ops = [
        Op(index=2 * n + at, process=NEMESIS, f=f, kind=kind, time_ns=n, value=value)
        for n, (f, value) in enumerate(values)
        for at, kind in enumerate((Kind.INVOKE, Kind.OK))
    ]
    judged = judge(History(ops), [Health()], 10.0, "eventual").results()
    known = "health log-disorder, known as ZOOKEEPER-4541, ZOOKEEPER-4712"
    assert complaints(judged) == [known, "health fatal"]
    assert complaints({}) == []

    nights = tmp_path / "torture" / "m"
    for name, health in (("1", [known]), ("2", [known, "health fatal"])):
        night = Night.begun(nights / name, {"matrix": "m", "seed": "1"})
        night.say("begin", 0, cell="a", seed="0x1")
        night.say("directory", 0, path="a/0")
        night.say("recorded", 0, troubles=[], seconds=5.0, phases={})
        night.say("judged", 0, status="VALID", reason="r", kinds=[], first_ns=None, health=health)
    earlier = nights_before(night.path).records
    results: Any = NightSummary(night=night, cells=cells(night, ("a",), earlier, {})).results()
    (cell,) = results["cells"]
    assert cell["health"] == {known: 1, "health fatal": 1}
    assert cell["health_new"] == ["health fatal"]
    assert (cell["findings"], cell["new"], results["failed"]) == ({}, [], [])
