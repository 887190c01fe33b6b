"""The checker of rows that statements change, on histories by hand."""

import pytest
from checkers_cases import history
from statement_rows_cases import (
    AT_REST,
    ATTACH,
    ATTACH_ON_CH2,
    BACK_ON_CH1,
    BACK_ON_CH2,
    CLEAR,
    DEDUPLICATE,
    DELETE,
    DETACH,
    FETCH,
    HERE,
    KEYED,
    KILL,
    MOVE_BACK,
    MOVE_BACK_LATER,
    ONE,
    ONE_MORE,
    OPTIMIZE,
    REPLACE,
    SELECT,
    SELECT_BACK,
    STAGED,
    TRUNCATE,
    VALUED,
    again,
    both_show,
    call,
    copy,
    insert,
    move,
    projected,
    shows,
    update,
)

from checkers.statements.rows import StatementRows
from checkers.statements.shown_rows import kind_of
from checkers.statements.steps import RowState, Sees
from harness.core.verdict import Status

VERDICTS = {
    "a row whose column was cleared has no updates": (
        (ONE, update(7, 3, 4), CLEAR, both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a row whose column was cleared and that has an update from before is changed": (
        (ONE, update(7, 3, 4), CLEAR, both_show(t=[(1, [7], 1)])),
        (Status.INVALID, ["changed"]),
    ),
    "what a REPLACE of an empty partition brought, a later copy may take for a duplicate": (
        (ONE, REPLACE, copy(30, 40), both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "or not": (
        (ONE, REPLACE, copy(30, 40), both_show(t=[(1, [], 1)], u=[(1, [], 2)])),
        (Status.VALID, []),
    ),
    "of two equal parts a copy may take one for a duplicate": (
        (ONE, copy(5, 8), MOVE_BACK, copy(40, 50), both_show(t=[(1, [], 2)], u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "what a move brought, no later copy takes for a duplicate": (
        (ONE, move(10, 20), MOVE_BACK_LATER, copy(40, 50), both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["stale-copy"]),
    ),
    "a row that has the value with which it was inserted": (
        (VALUED, OPTIMIZE, both_show(t=[(1, [1], 1)])),
        (Status.VALID, []),
    ),
    "a row that lacks the value with which it was inserted": (
        (VALUED, OPTIMIZE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["undone"]),
    ),
    "no earlier state of a table explains that a row lacks its value": (
        (VALUED, copy(10, 20), both_show(t=[(1, [], 1)], u=[(1, [1], 1)])),
        (Status.INVALID, ["changed"]),
    ),
    "a row that has the value of another one": (
        (VALUED, insert(2, 1, 2, update=2), OPTIMIZE, both_show(t=[(1, [2], 1), (2, [2], 1)])),
        (Status.INVALID, ["strayed"]),
    ),
    "a row whose column was cleared has no value": (
        (VALUED, CLEAR, both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a row that was inserted without a value has none": (
        (VALUED, insert(2, 1, 2), OPTIMIZE, both_show(t=[(1, [1], 1), (2, [], 1)])),
        (Status.VALID, []),
    ),
    "a projection shows what its table does": (
        (ONE, OPTIMIZE, projected("ch1", HERE, HERE), projected("ch2", HERE, HERE)),
        (Status.VALID, []),
    ),
    "a projection lacks a row that its table has": (
        (ONE, OPTIMIZE, projected("ch1", HERE, HERE), projected("ch2", HERE, [])),
        (Status.INVALID, ["projected"]),
    ),
    "a projection has a row that its table lacks": (
        (ONE, DELETE, projected("ch1", [], HERE), projected("ch2", [], [])),
        (Status.INVALID, ["projected"]),
    ),
    "a row may lack an update that was killed": (
        (ONE, update(7, 3, 4, settings={"mutations_sync": 1}), KILL, both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a row that lacks an update which all replicas had made before the kill is undone": (
        (ONE, update(7, 3, 4, settings={"mutations_sync": 2}), KILL, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["undone"]),
    ),
    "a row of the part that was dropped is gone": (
        (ONE, call("drop-part", "delete", 10, 15, one_part=True, rows=[1]), both_show()),
        (Status.VALID, []),
    ),
    "a row of another part than the one that was dropped is lost": (
        (ONE, call("drop-part", "delete", 10, 15, one_part=True, rows=[2]), both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "of two copies a part has one at least": (
        (
            *(ONE, copy(10, 20, synced=True)),
            *(copy(30, 40, synced=True),),
            call("drop-part", "delete", 50, 60, table="u", one_part=True, rows=[1]),
            both_show(t=[(1, [], 1)], u=[(1, [], 2)]),
        ),
        (Status.INVALID, ["doubled"]),
    ),
    "a row that was moved is in the other table": (
        (ONE, move(10, 20), both_show(u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a row that is in no table after a move is lost": (
        (ONE, move(10, 20, node="ch2"), both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "a move that found nothing on its replica left the row where it was": (
        (ONE, move(10, 20, node="ch2"), both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["stale-copy"]),
    ),
    "after SYSTEM SYNC REPLICA it found the row": (
        (ONE, move(10, 20, node="ch2", synced=True), both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["misplaced"]),
    ),
    "two statements that overlap may each take what the other then changes": (
        (
            ONE,
            call("replace", "replace", 10, 30, to="u", synced=True),
            call("replace", "replace", 20, 40, table="u", to="t", synced=True, node="ch2"),
            both_show(u=[(1, [], 1)]),
        ),
        (Status.INVALID, ["stale-copy"]),
    ),
    "a move may not double a row": (
        (ONE, move(10, 20), both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.INVALID, ["doubled"]),
    ),
    "a move of unknown outcome may have copied and not removed": (
        (ONE, OPTIMIZE, move(10, 20, "info"), both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.INVALID, ["half-moved"]),
    ),
    "a row whose block is sent again after it was deleted is there": (
        (ONE, DELETE, again(1, 20, 30), both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "a block that is sent again adds nothing where its row is": (
        (ONE, again(1, 20, 30), both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a block that is sent again doubles its row": (
        (ONE, again(1, 20, 30), both_show(t=[(1, [], 2)])),
        (Status.INVALID, ["doubled"]),
    ),
    "a block that is sent again is the first if the insert was refused": (
        (insert(1, 1, 2, "fail"), again(1, 20, 30), both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "what was staged on one replica is copied to the other table": (
        (STAGED, copy(10, 20, table="s@ch1"), both_show(u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "what was staged on one replica and is in no other table is a stale copy": (
        (STAGED, copy(10, 20, table="s@ch1"), both_show()),
        (Status.INVALID, ["stale-copy"]),
    ),
    "a sequentially consistent copy misses nothing that was acknowledged": (
        (
            ONE,
            copy(10, 20, settings={"select_sequential_consistency": 1}),
            both_show(t=[(1, [], 1)]),
        ),
        (Status.INVALID, ["lost"]),
    ),
    "a statement that was refused did nothing": (
        (ONE, OPTIMIZE, move(10, 20, "fail"), both_show(u=[(1, [], 1)])),
        (Status.INVALID, ["misplaced"]),
    ),
    "a drop that overlaps the insert may come before or after it": (
        (insert(1, 1, 15), ONE_MORE, call("drop", "delete", 10, 20), both_show(t=HERE)),
        (Status.VALID, []),
    ),
    "a drop leaves what came after it, and other partitions": (
        (
            *(ONE, insert(2, 30, 31), insert(3, 1, 2, key=2), call("drop", "delete", 10, 20)),
            *(both_show(t=[(2, [], 1)]), both_show(key=2, t=[(3, [], 1)])),
        ),
        (Status.VALID, []),
    ),
    "what came after a drop is lost": (
        (ONE, insert(2, 30, 31), call("drop", "delete", 10, 20), both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "what was there in another partition is lost": (
        (
            *(ONE, insert(3, 1, 2, key=2), call("drop", "delete", 10, 20)),
            *(both_show(), both_show(key=2)),
        ),
        (Status.INVALID, ["lost"]),
    ),
    "a drop of unknown outcome may take effect at any later time, and a refused one never": (
        (
            *(ONE, insert(2, 30, 31), call("drop", "delete", 10, 20)),
            *(call("drop", "delete", 22, 23, "info"), both_show()),
        ),
        (Status.VALID, []),
    ),
    "a drop that was refused explains nothing": (
        (
            *(ONE, insert(2, 30, 31), call("drop", "delete", 10, 20)),
            *(call("drop", "delete", 40, 41, "fail"), both_show()),
        ),
        (Status.INVALID, ["lost"]),
    ),
    "what was there before a drop is gone for good": (
        (ONE, call("drop", "delete", 10, 20), both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["resurrected"]),
    ),
    "a delete touches the rows of its condition alone": (
        (
            ONE,
            insert(2, 1, 2),
            call("delete", "delete", 10, 20, one_in=2, rest=0),
            both_show(t=[(1, [], 1)]),
        ),
        (Status.VALID, []),
    ),
    "an update that is not there is undone": (
        (ONE, update(7, 10, 20), both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["undone"]),
    ),
    "an update that shows twice changed the row": (
        (ONE, update(7, 10, 20), both_show(t=[(1, [7, 7], 1)])),
        (Status.INVALID, ["changed"]),
    ),
    "updates that do not overlap show in their order": (
        (ONE, update(7, 10, 20), update(8, 30, 40), both_show(t=[(1, [8, 7], 1)])),
        (Status.INVALID, ["changed"]),
    ),
    "updates that overlap show in either order": (
        (ONE, update(7, 10, 30), update(8, 20, 40), both_show(t=[(1, [8, 7], 1)])),
        (Status.VALID, []),
    ),
    "a replace on a replica that lags empties its target": (
        (ONE, REPLACE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["stale-copy"]),
    ),
    "an insert into two partitions is judged in each": (
        (insert(1, 1, 2, also=2), OPTIMIZE, both_show(), both_show(key=2, t=[(1, [], 1)])),
        (Status.INVALID, ["lost"]),
    ),
    "the block of an INSERT SELECT may be a duplicate of an insert's": (
        (insert(1, 1, 2, table="u"), MOVE_BACK, SELECT, both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "the first INSERT SELECT is no duplicate": (
        (ONE, SELECT, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["stale-copy"]),
    ),
    "what a replica has fetched, it attaches": (
        (ONE, FETCH, ATTACH, both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "what a replica has fetched, another one does not attach": (
        (ONE, FETCH, ATTACH_ON_CH2, both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.INVALID, ["doubled"]),
    ),
    "what one replica attaches, another one has aside no more": (
        (ONE, DETACH, BACK_ON_CH1, BACK_ON_CH2, both_show(t=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "a part that was put aside may be attached by itself, or be another part than the row's": (
        (ONE, DETACH, call("attach-part", "attach", 42, 44, one_part=True), both_show(t=HERE)),
        (Status.VALID, []),
    ),
    "a part that was put aside is attached once by its replica": (
        (
            ONE,
            DETACH,
            call("attach-part", "attach", 42, 44, one_part=True),
            call("attach-part", "attach", 46, 48, one_part=True),
            both_show(t=[(1, [], 2)]),
        ),
        (Status.INVALID, ["doubled"]),
    ),
    "two replicas attach what each has put aside": (
        (ONE, DETACH, BACK_ON_CH1, BACK_ON_CH2, both_show(t=[(1, [], 2)])),
        (Status.VALID, []),
    ),
    "one of two replicas attaches at least": (
        (ONE, DETACH, BACK_ON_CH1, BACK_ON_CH2, both_show()),
        (Status.INVALID, ["stale-copy"]),
    ),
    "OPTIMIZE DEDUPLICATE leaves one of equal copies": (
        (ONE, SELECT, SELECT_BACK, DEDUPLICATE, both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "OPTIMIZE DEDUPLICATE removes no last copy": (
        (ONE, DEDUPLICATE, both_show()),
        (Status.INVALID, ["lost"]),
    ),
    "what a statement on all partitions removed is gone": (
        (ONE, TRUNCATE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["resurrected"]),
    ),
    "merges of an engine that replaces rows leave one of the copies": (
        (KEYED, SELECT, SELECT_BACK, both_show(t=[(1, [], 1)], u=[(1, [], 1)])),
        (Status.VALID, []),
    ),
    "they leave at least one": (
        (KEYED, SELECT, SELECT_BACK, both_show(u=[(1, [], 1)])),
        (Status.INVALID, ["lost"]),
    ),
    "and they leave none twice": (
        (KEYED, OPTIMIZE, both_show(t=[(1, [], 2)])),
        (Status.INVALID, ["doubled"]),
    ),
    "replicas that show different rows have diverged": (
        (ONE, OPTIMIZE, shows("ch1", t=[(1, [], 1)]), shows("ch2")),
        (Status.INVALID, ["diverged"]),
    ),
    "a refused insert leaves no row": (
        (insert(1, 1, 2, "fail"), OPTIMIZE, both_show(t=[(1, [], 1)])),
        (Status.INVALID, ["refused"]),
    ),
    "an insert of unknown outcome may leave a row, or none": (
        (
            *(insert(1, 1, 2, "info"), insert(3, 1, 2, "info"), ONE_MORE, OPTIMIZE),
            both_show(t=[(1, [], 1), (2, [], 1)]),
        ),
        (Status.VALID, []),
    ),
    "a statement that touches no row that was there says nothing": (
        (call("drop", "delete", 0, 1), insert(1, 2, 3), both_show(t=HERE)),
        (Status.UNKNOWN, []),
    ),
    "an update of a row that came later touches a row it may not": (
        (ONE, update(7, 10, 20), insert(2, 30, 35), both_show(t=[(1, [7], 1), (2, [7], 1)])),
        (Status.INVALID, ["strayed"]),
    ),
    "an update of unknown outcome is there or not, and a refused one is not": (
        (
            ONE,
            ONE_MORE,
            OPTIMIZE,
            update(7, 10, 20, "info"),
            update(8, 21, 22, "fail"),
            both_show(t=[(1, [7], 1), (2, [], 1)]),
        ),
        (Status.VALID, []),
    ),
    "an update that was refused has strayed": (
        (ONE, OPTIMIZE, update(8, 21, 22, "fail"), both_show(t=[(1, [8], 1)])),
        (Status.INVALID, ["strayed"]),
    ),
    "without a statement there is nothing to conclude": (
        (ONE, both_show(t=[(1, [], 1)])),
        (Status.UNKNOWN, []),
    ),
    "without the rows of a replica neither": (
        (ONE, OPTIMIZE, shows("ch1", t=[(1, [], 1)])),
        (Status.UNKNOWN, []),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    calls, expected = VERDICTS[name]
    verdict = StatementRows().check(history(*calls, AT_REST))
    assert (verdict.status, [one.kind for one in verdict.anomalies]) == expected


def test_a_stale_copy_names_the_statement_that_took_an_earlier_state() -> None:
    copies = copy(3, 5, synced=True)
    verdict = StatementRows().check(
        history(ONE, copies, REPLACE, AT_REST, both_show(t=[(1, [], 1)]))
    )
    (found,) = verdict.anomalies
    assert found.kind == "stale-copy"
    assert "#4 replace t to u on ch2" in "".join(found.steps)
    assert "; explained if #4 took an earlier state" in found.text


def test_before_rest_nothing_is_certain() -> None:
    verdict = StatementRows().check(history(ONE, OPTIMIZE, both_show()))
    assert verdict.status is Status.UNKNOWN


def test_where_statements_see_what_is_local_a_stale_copy_is_counted() -> None:
    calls = history(ONE, REPLACE, AT_REST, both_show(t=[(1, [], 1)]))
    verdict = StatementRows(Sees.LOCAL).check(calls)
    assert verdict.status is Status.VALID
    assert verdict.figures["by_stale_copies"] == {"lost": 1}
    assert verdict.summary == (
        "an order of the statements leads to what is shown of 1 row; by what no manual "
        "rules out: 1 lost"
    )


def test_a_witness_names_the_statements_on_the_row_and_the_fewest_that_do_not_explain_it() -> None:
    calls = (ONE, OPTIMIZE, update(7, 5, 6), move(10, 20, node="ch2"), AT_REST, both_show())
    (anomaly,) = StatementRows().check(history(*calls)).anomalies
    assert anomaly.text == (
        "row 1 of partition 1 is in no table at rest (op #13), touched by 3 statements; no order "
        "of #0 leads there"
    )
    assert anomaly.steps == (
        "#0 insert-row t on ch1, 0.001 s to 0.002 s: ok",
        "#2 optimize t on ch1, 0.003 s to 0.004 s: ok",
        "#4 update t 7 on ch1, 0.005 s to 0.006 s: ok",
        "#6 move t to u on ch2, 0.010 s to 0.020 s: ok",
    )


def test_a_witness_names_the_statement_whose_update_a_row_shows_and_that_does_not_select_it() -> (
    None
):
    calls = (ONE, update(7, 10, 20, one_in=2, rest=0), both_show(t=[(1, [7], 1)]))
    (anomaly,) = StatementRows().check(history(*calls, AT_REST)).anomalies
    assert anomaly.kind == "strayed"
    assert "; update 7 is of #2, which does not select the row" in anomaly.text
    assert anomaly.steps[-1].startswith("#2 update t 7 on ch1")


def test_rows_of_one_class_are_judged_once() -> None:
    inserts = [insert(row, 1 + row / 1000, 2 + row / 1000) for row in range(500)]
    shown = both_show(u=[(row, [], 1) for row in range(500)])
    verdict = StatementRows().check(history(*inserts, move(10, 20), AT_REST, shown))
    assert verdict.status is Status.VALID
    assert (verdict.figures["rows"], verdict.figures["classes"]) == (500, 1)


def test_kinds_by_counts() -> None:
    one, two = RowState((("t", ((),)),)), RowState((("t", ((), ())),))
    assert kind_of((), [one]) == "lost"
    assert kind_of((("t", ((), ())),), [one]) == "doubled"
    assert kind_of((("t", ((),)),), [RowState()]) == "resurrected"
    assert kind_of((("u", ((),)),), [one, two]) == "misplaced"


def test_the_fewest_statements_have_those_whose_updates_are_shown() -> None:
    first, second = update(7, 10, 20), update(8, 15, 25)
    verdict = StatementRows().check(
        history(ONE, OPTIMIZE, first, second, both_show(t=[(1, [8], 1)]), AT_REST)
    )
    assert "no order of #0, #4, #5 leads there" in verdict.anomalies[0].text
