"""Comparison that waits."""

import time


def assert_eq_with_retry(instance, query, expectation, retry_count=20, sleep_time=0.5):
    """Ask until the answer is as expected."""
    for _ in range(retry_count):
        try:
            answer = instance.query(query).strip()
        except Exception as error:  # a server that starts does not answer
            answer = str(error)
        if answer == expectation:
            return
        time.sleep(sleep_time)
    raise AssertionError(f"{instance.name}: {answer!r}, expected {expectation!r}")
