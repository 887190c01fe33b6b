"""`python -m checkers.fleet_apart`: judges one item of a fleet in a process of its own.

A pickled job and item on standard input, pickled rows on standard output.
"""

import pickle
import sys

from checkers.fleet_work import rows_of

if __name__ == "__main__":
    job, item = pickle.load(sys.stdin.buffer)  # noqa: S301  # from our own parent
    sys.stdout.buffer.write(pickle.dumps(rows_of(job, item)))
