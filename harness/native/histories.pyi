"""Keeps histories in columns and examines the sets in them."""

from collections.abc import Sequence
from typing import Literal, final

class FormError(ValueError):
    """A line does not have the form that the journal writes. It may still be a valid operation.
    args has the number of the line, from 1."""

class RuleError(ValueError):
    """An operation breaks the rules of histories. The text names the operation and the field."""

class OddValue(ValueError):  # noqa: N818 - of what is read, not of the reader
    """An insert whose value is not an integer, or a read whose value is not an array of integers,
    of 64 bits each. args has the operation's row."""

@final
class Columns:
    """The operations of a history in columns, one row each. Raises FormError and RuleError for
    lines that `harness.core.lines` would not write."""

    def __new__(cls, lines: bytes) -> Columns: ...
    def __len__(self) -> int: ...
    @property
    def size_bytes(self) -> int:
        """Memory that the operations take."""

    def lines(self) -> bytes:
        """Return the lines of all operations, as `harness.core.lines` writes them."""

    def line(self, row: int) -> bytes:
        """Return the line of an operation without its newline."""

    def lines_at(self, rows: Sequence[int]) -> bytes:
        """Return the lines of these rows, in their order."""

    def arrow(self) -> dict[str, list[bytes]]:
        """Return Arrow buffers by column name: validity bitmap, offsets if entries differ in size,
        data. The columns are process (int32, the nemesis is -1), node and f (int32, indices into
        `words`), kind (int32: invoke, ok, fail, info), key, value and time_ns (int64), values
        (lists of int64), detail and error (texts). Raises OddValue for a number that does not
        fit."""

    def words(self) -> list[tuple[str, list[str]]]:
        """Return the interned texts of the columns node and f."""

    def time_ns(self, row: int) -> int: ...
    def nemesis(self) -> list[int]:
        """Return the rows of the nemesis."""

    def objects(self) -> list[int]:
        """Return the rows whose value is an object."""

    def pairs(self, places: Sequence[int]) -> list[tuple[int, int | None]]:
        """Return the rows of invocation and end of the client calls at these places in order of
        invocation. The end is None if the call never ended."""

    def places(self, fs: Sequence[str], kinds: Sequence[str]) -> bytes:
        """Return the places of the client calls with one of these names and, if any is given, one
        of these kinds ("ok", "fail" or "info"), as 32-bit numbers."""

    def spans(self, places: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the times in ns at which the calls at these places began, and those at which they
        may have ended, as 64-bit numbers: 2**63 - 1 for a call that is not ok."""

    def repeated(self, places: Sequence[int]) -> tuple[bytes, bytes]:
        """Return those of the calls at these places that name the same key and the same number as
        another of them, as 32-bit numbers: their places, group by group in order of the first call
        of each, and the number of places up to the end of each group."""

    def calls_count(self) -> int:
        """Return the number of client calls."""

    def keys(self) -> list[int]:
        """Return every key that a client named, ascending."""

    def nodes(self) -> list[str]:
        """Return every node that a client call names, in no particular order."""

    def called_between(self, begin_ns: int, end_ns: int) -> bool:
        """Whether some client call was in flight during the closed interval."""

    def tally(
        self, quantiles: Sequence[float]
    ) -> tuple[
        list[tuple[str, list[int], list[int], list[tuple[str, int]]]],
        list[tuple[str | None, str, list[int]]],
    ]:
        """Count the client calls. For each f: the numbers that ended ok, fail and info; the
        durations in ns of those that ended ok, at the quantiles by nearest rank (empty without an
        ok call); and how often each error code occurred, in order of the calls, where the code is
        the text before the first colon. For each node and f: the numbers that ended ok, fail and
        info."""

    def sets(self) -> list[Set]:
        """Return the set of each key that has inserts or reads, the missing key first, then
        ascending. Raises OddValue."""

    def calls(self, kind: Literal["set", "register"]) -> list[Calls]:
        """Return the calls that constrain each key's object of this kind, in the order in which
        keys are first called. Raises OddValue."""

@final
class ColumnsBuilder:
    """Makes the columns of a history from batches of Arrow buffers."""

    def __new__(
        cls, rows: int = 0, numbers: int = 0, raw: int = 0, *, whole: bool
    ) -> ColumnsBuilder:
        """Begin a history with memory for so many operations, numbers in lists, and bytes of
        objects, which then need not be copied as it grows. Unless it is `whole`, the operations
        are some of a history's, and keep their indices."""

    def append(
        self, rows: int, columns: dict[str, list[bytes]], words: dict[str, list[str]]
    ) -> int:
        """Append operations that are given as `Columns.arrow` returns them, with the texts of node,
        kind and f, and with their index, and return the bytes that all of them take so far. The
        columns node, key, value, values, detail and error may be missing, and count as null. Raises
        FormError for a row that lacks a field, and RuleError."""

    def finish(self) -> Columns:
        """Return the columns. Nothing may be appended afterwards. Raises RuleError."""

@final
class Set:
    """Everything that was asked of one key: the calls "insert", and the answered calls "read" and
    "final-read". An insert is identified by its bit; inserted values have the first bits, in order
    of their first attempt. A read is identified by its index in order of invocation."""

    @property
    def key(self) -> int | None: ...
    def values(self) -> list[int]:
        """Return the value of each bit. Values that were only read have a bit too."""

    def place(self, value: int) -> int | None:
        """Return the place of the value's insert, None if nobody tried to insert it."""

    def insert(self, place: int) -> tuple[int, int, str, int, int | None, int]:
        """Return of the insert at a place, in order of the first attempt: value, bit, kind ("ok" if
        acknowledged, "fail" if every attempt was refused, otherwise "info"), the row of the first
        attempt that was not refused (of the first attempt if every one was), the row of the first
        acknowledgement, and the number of attempts."""

    def ends(self) -> list[int]:
        """Return the numbers of inserts that are ok, fail and info."""

    def repeated(self) -> list[int]:
        """Return the inserts that were tried more than once."""

    def read(self, read: int) -> tuple[int, int, bool]:
        """Return the rows of invocation and end, and whether some value came more than once."""

    def reads_count(self) -> int:
        """Return the number of reads."""

    def finals(self) -> list[int]:
        """Return the reads called "final-read"."""

    def last_finals(self) -> list[tuple[str, int]]:
        """Return the last "final-read" of each node, nodes in order of their first one."""

    def same(self, reads: Sequence[int]) -> bool:
        """Whether the reads returned the same values, each value once."""

    def mask(self, read: int) -> bytes:
        """Return the bits of the values that a read returned, little-endian."""

    def examined(self, replicas: Sequence[str]) -> Findings:
        """Examine every value. `replicas` are the nodes from which a final read is expected."""

    def bounds(self, few: int) -> list[tuple[int, int, list[tuple[int, int, int | None]]]]:
        """Check monotonic reads, read your writes, monotonic writes and writes follow reads.
        Return for each: the number of reads of which something is demanded, the number that lack a
        demanded value, and the `few` of these that ended first, each with the read, the first
        missing bit, and the first insert that demands it (for the latter two guarantees). Every
        value must have been tried only once."""

@final
class Findings:
    """What was found about the values of one key."""

    @property
    def stale_reads(self) -> int:
        """Number of reads that lack a value acknowledged before they were invoked."""

    @property
    def missed(self) -> list[tuple[int, int, int]]:
        """Acknowledged inserts that a later read lacks, lost ones included, with the first and the
        last such read; in order of the first one."""

    @property
    def lost(self) -> list[tuple[int, list[int]]]:
        """Acknowledged inserts that no final read has although every replica answered one after
        the acknowledgement, with those final reads."""

    @property
    def unaccounted(self) -> list[int]:
        """Acknowledged inserts that no final read has, while some replica answered none after the
        acknowledgement."""

    @property
    def never_read(self) -> int:
        """Number of unaccounted inserts that no read has at all."""

    @property
    def duplicates(self) -> list[tuple[int, int, int]]:
        """Bits whose value one read returned several times, the first such read, and how often it
        returned the value."""

    @property
    def phantoms(self) -> list[tuple[int, int]]:
        """Bits whose value a read returned although no insert can have caused it by the end of the
        first such read: nobody tried, every attempt was refused, or none had begun; with that
        read."""

    @property
    def appeared(self) -> int:
        """Number of inserts of unknown outcome that some read shows."""

@final
class Calls:
    """The calls that constrain the set of one key, in order of invocation: inserts that may have
    happened, and answered reads."""

    @property
    def key(self) -> int | None: ...
    def __len__(self) -> int: ...
    def reads(self) -> int:
        """Return the number of reads."""

    def ties(self) -> bool:
        """Whether some process invoked a call at the very time at which its previous call and
        another call ended. No times can express that it follows only the former."""

    def rows(self) -> list[tuple[int, int | None]]:
        """Return the rows of invocation and end of each call."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export one row per call with the columns that `pyporcupine` takes: process, f ("add" or
        "read"), value, call, ret, output. Reads have no value, and only reads have an output. ret
        is null if the call did not end ok.

        If a process invoked a call at the very time at which its previous call ended, and nothing
        else ended then, the call is one nanosecond later here: it then follows its predecessor and
        no other call."""
