"""Log truncation, OPTIMIZE, leaders, mutations, columns: literal histories."""

import pytest
from checkers_cases import fault, history, kinds, rest, told

from checkers.ddl.alters import Alters
from checkers.ddl.optimize import Optimize
from checkers.replication.assigners import Assigners
from checkers.replication.leaders import Leaders
from checkers.replication.merged_rows import MergedRows
from checkers.replication.parts import Parts
from checkers.replication.temporary import Temporary
from checkers.replication.truncation import Truncation
from harness.core.dialect import Version, dialect_of
from harness.core.verdict import Status

VALID, UNKNOWN, INVALID = Status.VALID, Status.UNKNOWN, Status.INVALID


# --- truncation -----------------------------------------------------------------------------


def look(at, first, *, f="observe-log", entries=5, **replicas):
    value = {"first": first, "entries": entries, "replicas": replicas}
    return told(f, value, at)


def state(pointer, *, lost=False, active=True, steady=True):
    return {"pointer": pointer, "lost": lost, "active": active, "steady": steady}


TRUNCATION = Truncation(entries_max=50)


def long_log(at, *, f="final-log"):
    return look(at, 0, f=f, entries=51, ch1=state(51), ch2=state(51))


def cut_log(at):
    return look(at, 47, f="final-log", entries=51, ch1=state(51), ch2=state(51))


def short_log(at):
    return look(at, 0, f="final-log", entries=50, ch1=state(50), ch2=state(50))


AT_REST = (rest(90), look(95, 9, f="final-log", ch1=state(12), ch2=state(12)))


def test_a_log_that_is_cut_behind_all_that_need_it_is_valid():
    away = look(5, 9, ch1=state(11), ch2=state(3, lost=True, active=False))
    assert kinds(TRUNCATION, away, *AT_REST) == (VALID, [])


def test_faults_by_which_no_replica_was_lost_say_nothing_about_lost_replicas():
    killed = (fault(2, 8, name="kill"),)
    together = look(5, 9, ch1=state(11), ch2=state(11))
    away = look(5, 9, ch1=state(11), ch2=state(3, lost=True, active=False))
    assert kinds(TRUNCATION, together, *AT_REST) == (VALID, [])
    assert kinds(TRUNCATION, *killed, together, *AT_REST) == (UNKNOWN, [])
    assert kinds(TRUNCATION, *killed, away, *AT_REST) == (VALID, [])


@pytest.mark.parametrize(
    ("replicas", "kind"),
    [
        ({"ch1": state(8), "ch2": state(9)}, "pointer-behind"),
        ({"ch1": state(9), "ch2": state(8, active=False)}, "not-marked-lost"),
        ({"ch1": state(9, lost=True), "ch2": state(9, lost=True)}, "all-lost"),
    ],
)
def test_each_way_to_lose_the_log_is_told(replicas, kind):
    assert kinds(TRUNCATION, look(5, 9, **replicas), *AT_REST) == (INVALID, [kind])


def test_what_changed_while_it_was_read_proves_nothing():
    moving = look(5, 9, ch1=state(8, steady=False), ch2=state(9))
    assert kinds(TRUNCATION, moving, *AT_REST) == (VALID, [])


def test_at_rest_nobody_is_lost_and_a_long_log_was_cut():
    lost = look(95, 9, f="final-log", ch1=state(12), ch2=state(12, lost=True))
    assert kinds(TRUNCATION, rest(90), lost) == (INVALID, ["still-lost"])


@pytest.mark.parametrize(
    ("looks", "verdict"),
    [
        # Nobody may have led while it was long, and at rest nobody had the time to cut it.
        ([long_log(90, f="observe-log"), rest(99_000), long_log(99_001)], (UNKNOWN, [])),
        ([rest(90), long_log(95), long_log(15_094)], (UNKNOWN, [])),
        ([rest(90), long_log(95), long_log(15_095)], (INVALID, ["never-cut"])),
        ([rest(90), long_log(95), cut_log(15_095)], (VALID, [])),
        ([rest(90), long_log(95), short_log(15_095)], (UNKNOWN, [])),
        ([rest(90, "ch2 is read-only"), long_log(95), long_log(15_095)], (UNKNOWN, [])),
    ],
)
def test_a_log_that_stays_long_at_rest_was_never_cut(looks, verdict):
    assert kinds(TRUNCATION, *looks) == verdict


def test_a_look_answers_that_shows_a_cut_or_a_short_log():
    ends = [pair.end for pair in history(long_log(1), cut_log(4), short_log(7)).pairs]
    assert [TRUNCATION.answers(end) for end in ends] == [False, True, True]


# --- OPTIMIZE and leaders -------------------------------------------------------------------

UNTIL_21_9, SINCE_21_9 = dialect_of(Version(21, 8)), dialect_of(Version(21, 9))


def optimize(sync, *, on=SINCE_21_9, **parts):
    waits = [*on.optimize_waits(sync, "ch1", ("ch1", "ch2"))]
    return told("optimize", {"sync": sync, "waits": waits, "parts": parts}, 5, 9, node="ch1")


MERGED, APART = ["7_0_2_1"], ["7_0_0_0", "7_1_1_0", "7_2_2_0"]


def test_a_merge_that_was_waited_for_is_there():
    assert kinds(Optimize(), optimize(2, ch1=MERGED, ch2=MERGED)) == (VALID, [])
    assert kinds(Optimize(), optimize(1, ch1=MERGED, ch2=APART)) == (VALID, [])
    assert kinds(Optimize(), optimize(0, ch1=APART, ch2=MERGED)) == (UNKNOWN, [])
    assert kinds(Optimize(), optimize(0, ch1=APART, ch2=APART)) == (UNKNOWN, [])
    assert kinds(Optimize(), optimize(1, ch2=MERGED)) == (UNKNOWN, []), "it did not answer"


def test_a_merge_that_was_not_waited_for_is_told():
    assert kinds(Optimize(), optimize(2, ch1=MERGED, ch2=APART)) == (INVALID, ["not-done"])
    assert kinds(Optimize(), optimize(1, ch1=APART, ch2=MERGED)) == (INVALID, ["not-done"])


def test_until_21_9_an_optimize_waits_for_every_replica_whatever_the_setting():
    """The rule of today, by which 1 waits for its own replica, passes this history."""
    behind = {"ch1": MERGED, "ch2": APART}
    assert kinds(Optimize(), optimize(1, **behind)) == (VALID, [])
    assert kinds(Optimize(), optimize(1, on=UNTIL_21_9, **behind)) == (INVALID, ["not-done"])
    assert kinds(Optimize(), optimize(2, on=UNTIL_21_9, **behind)) == (INVALID, ["not-done"])
    assert kinds(Optimize(), optimize(0, on=UNTIL_21_9, **behind)) == (UNKNOWN, [])


def test_an_optimize_that_returned_before_anybody_had_merged_is_told():
    """The server ignores the setting, and its first merge is always late."""
    assert kinds(Optimize(), optimize(1, ch1=APART, ch2=APART)) == (INVALID, ["not-done"])
    assert kinds(Optimize(), optimize(2, ch1=APART)) == (INVALID, ["not-done"])


def test_how_often_a_replica_was_behind_is_counted_for_each_setting():
    later = told("optimize", {"sync": 0, "parts": {"ch1": APART}}, 20)
    said = Optimize().check(history(optimize(1, ch1=MERGED, ch2=APART), later))
    assert (said.figures["returned"], said.figures["behind"]) == (
        {"0": 1, "1": 1},
        {"0": 1, "1": 1},
    )


# --- temporary directories ------------------------------------------------------------------


def temporary(at, node, *directories, f="temporary", active=()):
    value = {"directories": list(directories), "odd": list(active)}
    return told(f, value, at, process=int(node[2:]), node=node)


def test_a_part_that_is_fetched_is_temporary_and_gone_at_rest():
    during = temporary(5, "ch2", "tmp_fetch_0_3_3_0")
    clean = (rest(90), temporary(95, "ch1", f="final-temporary"))
    more = temporary(96, "ch2", f="final-temporary")
    assert kinds(Temporary(), during, *clean, more) == (VALID, [])
    left = temporary(96, "ch2", "tmp_fetch_0_3_3_0", f="final-temporary")
    assert kinds(Temporary(), during, *clean, left) == (INVALID, ["left"])
    shown = temporary(5, "ch2", active=["tmp_fetch_0_3_3_0"])
    assert kinds(Temporary(), shown, *clean, more) == (INVALID, ["visible"])


def test_without_a_look_at_rest_nothing_is_known_of_temporary_directories():
    left = temporary(96, "ch2", "tmp_fetch_0_3_3_0", f="final-temporary")
    assert kinds(Temporary(), rest(90, "ch2 has 1 queue entry"), left) == (UNKNOWN, [])
    assert kinds(Temporary(), rest(90)) == (UNKNOWN, [])
    one = temporary(95, "ch1", f="final-temporary")
    assert kinds(Temporary(), rest(90, ch1={}, ch2={}), one) == (UNKNOWN, []), "of ch2"


# --- rows over merges, and who assigns them --------------------------------------------------


def filled(*, f="fill", partition=7, rows=30):
    return told(f, {"partition": partition, "rows": rows}, 5)


def parts_at_rest(**rows):
    """Return each replica's only part of partition 7, merged, with this many rows."""
    active = {node: {"active": {"7_0_2_1": [n, "aa"]}} for node, n in rows.items()}
    return rest(90, **active)


def test_merges_that_lose_or_double_rows_on_every_replica_alike_are_told():
    for f in ("fill", "optimize"):
        kept = (filled(f=f), parts_at_rest(ch1=30, ch2=30))
        assert kinds(MergedRows(), *kept) == (VALID, [])
    lost = (filled(), parts_at_rest(ch1=20, ch2=20))
    assert kinds(Parts(), *lost) == (VALID, []), "the replicas are equal"
    assert kinds(MergedRows(), *lost) == (INVALID, ["rows-lost", "rows-lost"])
    doubled = (filled(), parts_at_rest(ch1=30, ch2=60))
    assert kinds(MergedRows(), *doubled) == (INVALID, ["rows-doubled"])
    assert kinds(MergedRows(), filled(), rest(90, "ch1 has 1 queue entry"))[0] is UNKNOWN
    assert kinds(MergedRows(), parts_at_rest(ch1=30, ch2=30)) == (UNKNOWN, [])


def transactions(*facts, **more):
    return told("transactions", {"facts": [list(fact) for fact in facts], **more}, 95)


CH1_LEADS = ["leads", 3, "ch1"]


def test_a_merge_that_a_replica_assigns_which_does_not_lead_is_told():
    leads_it = ["assign", 9, "merge", "ch1", "7_0_2_1", "ch1"]
    assert kinds(Assigners(), transactions(CH1_LEADS, leads_it)) == (VALID, [])
    late = ["assign", 12, "mutate", "ch1", "", "ch2"]
    changed = transactions(CH1_LEADS, leads_it, ["leads", 10, "ch2"], late)
    assert kinds(Assigners(), changed) == (INVALID, ["not-leader"])
    # No two claims to lead are seen, so that the claims alone accuse nobody.
    assert kinds(Leaders(), changed, leads(0, "ch1"), leads(500, "ch2")) == (VALID, [])
    nobody = ["assign", 12, "merge", "ch1", "7_0_2_1", ""]
    assert kinds(Assigners(), transactions(CH1_LEADS, nobody)) == (INVALID, ["not-leader"])


def test_where_all_lead_each_may_assign_and_without_the_log_nothing_is_known():
    entry = ["assign", 9, "merge", "ch2", "7_0_2_1", "*"]
    said = Assigners().check(history(transactions(["leads", 3, "*"], entry)))
    assert (said.status, said.summary) == (VALID, "1 entry: ch2 1; every replica leads")
    assert kinds(Assigners(), transactions(CH1_LEADS)) == (UNKNOWN, [])
    assert kinds(Assigners(), transactions(entry, gaps=["3 are in no log"])) == (UNKNOWN, [])
    away = told("transactions", {"unavailable": "cluster x keeps none"}, 95)
    assert kinds(Assigners(), away) == (UNKNOWN, [])


def leads(at, node, says=True):
    return told("leads", {"leads": says}, at, process=int(node[2:]), node=node)


def test_two_that_lead_at_one_time_are_told_and_one_after_the_other_is_not():
    assert kinds(Leaders(), leads(0, "ch1"), leads(5, "ch2"), leads(10, "ch1")) == (
        INVALID, ["both"],
    )  # fmt: skip
    assert kinds(Leaders(), leads(0, "ch1"), leads(5, "ch2"), leads(10, "ch2")) == (VALID, [])
    far = (leads(0, "ch1"), leads(500, "ch2"), leads(1_000, "ch1"))
    assert kinds(Leaders(), *far) == (VALID, [])
    assert kinds(Leaders(), leads(0, "ch1", says=False)) == (UNKNOWN, [])


# --- columns --------------------------------------------------------------------------------


def alter(f, column, begin, *, kind="ok"):
    return told(f, column, begin, begin + 5, process=100 + begin, kind=kind, asked=column)


def columns(node, *names, version=3, shared=3, at=95):
    value = {"columns": ["key", "value", *names], "version": version, "shared": shared}
    return told("final-columns", value, at, process=int(node[2:]), node=node)


ALTERS = (alter("add-column", 1, 0), alter("add-column", 2, 10), alter("drop-column", 1, 20))


@pytest.mark.parametrize(
    ("finals", "found"),
    [
        ((columns("ch1", "c2"), columns("ch2", "c2")), (VALID, [])),
        ((columns("ch1"), columns("ch2")), (INVALID, ["lost-add"])),
        ((columns("ch1", "c1", "c2"), columns("ch2", "c1", "c2")), (INVALID, ["lost-drop"])),
        ((columns("ch1", "c2"), columns("ch2")), (INVALID, ["diverged"])),
        ((columns("ch1", "c2"), columns("ch2", "c2", version=2)), (INVALID, ["behind"])),
    ],
)
def test_columns_are_those_of_acknowledged_alters(finals, found):
    assert kinds(Alters(), *ALTERS, rest(90), *finals) == found


def test_a_column_that_was_there_and_that_nothing_drops_stays():
    """The ALTER that added it has no known outcome, so that it promises nothing by itself."""
    maybe, other = alter("add-column", 3, 30, kind="info"), alter("add-column", 4, 50)
    look, gone = columns("ch1", "c2", "c3", at=40), columns("ch1", "c2", "c4")
    assert kinds(Alters(), *ALTERS, maybe, other, rest(90), gone) == (VALID, [])
    undone = (*ALTERS, maybe, look, other, rest(90), gone)
    assert kinds(Alters(), *undone) == (INVALID, ["undone"])
    drop = alter("drop-column", 3, 60, kind="info")
    assert kinds(Alters(), *undone, drop) == (VALID, [])


def test_alters_of_unknown_outcome_constrain_nothing_and_the_log_has_none():
    maybe = (*ALTERS, alter("drop-column", 2, 30, kind="info"))
    both = (columns("ch1"), columns("ch2"))
    assert kinds(Alters(), *maybe, rest(90), *both) == (VALID, [])
    logged = told("final-log", {"types": {"get": 3, "alter": 1}}, 93)
    assert kinds(Alters(), *maybe, rest(90), *both, logged) == (INVALID, ["logged"])
    where = {"types": {"get": 3, "alter": 1}, "expected": ["alter", "mutate"]}
    expected = told("final-log", where, 93)
    assert kinds(Alters(), *maybe, rest(90), *both, expected) == (VALID, [])
    assert kinds(Alters(), *maybe, *both)[0] is UNKNOWN
