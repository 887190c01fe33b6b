"""The end of a server's log, as errors show it."""

from harness.clusters.logs import informative_lines

LOG = """\
2026.11.23 21:36:31.209657 [ 6377 ] {} <Error> AsyncLoader: Code: 79. DB::Exception: Unknown mark

0. Poco::Exception::Exception(String const&, int) @ 0x000000001977b299
14. _start @ 0x0000000000003111
 (version 24.8.4.1). (ASYNC_LOAD_FAILED) (version 24.8.4.1), Stack trace (when copying this message)
 (version 24.8.4.1)
2026.11.23 21:36:34.080703 [ 6653 ] {} <Warning> Application: Integrity check skipped
"""


def test_lines_with_a_date_are_told_and_stack_traces_are_not() -> None:
    first, *_, last = LOG.splitlines()
    assert informative_lines(LOG) == f"{first}\n{last}"


def test_long_lines_are_cut_and_only_the_last_ones_are_told() -> None:
    text = "\n".join(f"line {n} {'x' * 1000}" for n in range(40))
    told = informative_lines(text).splitlines()
    assert [line.split()[1] for line in told] == [str(n) for n in range(25, 40)]
    assert {len(line) for line in told} == {401}
