"""The text of bug reports: steps, and what was expected of them."""

from export_cases import exported


def test_the_steps_end_with_what_is_asked_at_rest() -> None:
    assert exported("missed-drop").issue().split("## Reproduction")[0].rstrip().splitlines()[
        -2:
    ] == [
        "12. wait until no replica has anything left to do",
        "13. ch1, ch2, ch3: `SELECT value FROM harness_missed_drop.t WHERE key = 0`",
    ]
    assert "ch1: `INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 9, '')`" in (
        exported("uncounted-clone").issue()
    )
    objects = exported("orphaned-drop").issue()
    assert (
        "any replica, before and after that: `SELECT substring(_path, 9), _size FROM s3(" in objects
    )
    assert "each replica: `WITH " in objects


def test_what_a_read_waits_for_is_named() -> None:
    text = exported("missed-drop").issue()
    assert "(repeated until it returns 1)" in text
    assert "(repeated until it lacks 0)" in text


def test_of_many_statements_that_differ_in_numbers_there_are_the_first_and_the_last() -> None:
    text = exported("uncounted-clone").issue()
    insert = "ch1: `INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, {}, '')`"
    assert (
        f"9. {insert.format(100)}\n10. 19 more of these, up to {insert.format(119)}\n11. wait 3 s\n"
    ) in text


def test_tables_that_no_step_names_are_left_out() -> None:
    text = exported("renamed-away").issue()
    assert "harness_renamed_away_t" in text
    assert "harness_renamed_away_u" not in text.split("## Reproduction")[0]


def test_what_was_expected_is_told_in_the_order_of_the_statements() -> None:
    text = exported("renamed-away").issue()
    words = ["stops the execution", "another name; inserts a row", "gives it its own name again"]
    places = [text.index(word) for word in words]
    assert places == sorted(places)
    assert (
        "\nhttps://clickhouse.com/docs/sql-reference/statements/alter/column#rename-column\n"
        in text
    )
