"""Histories in columns: what their lines say, and what became of sets in them."""

from collections.abc import Sequence
from typing import final

class FormError(ValueError):
    """A line is not as the journal writes it; it may be an op all the same. The number of the line
    is in args, from 1."""

class RuleError(ValueError):
    """An op breaks the rules of histories; the text names the op and the field."""

class OddValue(ValueError):  # noqa: N818 - of what is read, not of the reader
    """An insert of what is no number, or a read that returned what is no array of numbers, of 64
    bits each. The op's row is in args."""

@final
class Columns:
    """A history's ops in columns, a row each. Read from lines as `harness.core.lines` writes them;
    raises FormError and RuleError."""

    def __new__(cls, lines: bytes) -> Columns: ...
    def __len__(self) -> int: ...
    @property
    def lines(self) -> bytes:
        """What it was read from."""

    def line(self, row: int) -> bytes:
        """Without its newline."""

    def arrow(self) -> dict[str, list[bytes]]:
        """Arrow's buffers (validity bits; offsets where entries differ in size; data) of process
        (int32, the nemesis is -1), node and f (int32, indices of `words`), kind (int32: invoke, ok,
        fail, info), key, value and time_ns (int64), values (lists of int64), detail and error
        (texts). Raises OddValue for a number that does not fit."""

    def words(self) -> list[tuple[str, list[str]]]:
        """Of node and f."""

    def time_ns(self, row: int) -> int: ...
    def nemesis(self) -> list[int]:
        """Rows of the nemesis."""

    def objects(self) -> list[int]:
        """Rows whose value is an object."""

    def pairs(self) -> list[tuple[int, int | None]]:
        """Clients' calls in order of invocation: the rows of call and end, None: never ended."""

    def calls_count(self) -> int:
        """How many they are."""

    def keys(self) -> list[int]:
        """Every key that a client named, ascending."""

    def nodes(self) -> list[str]:
        """Every node that a client's call names, in no order."""

    def called_between(self, begin_ns: int, end_ns: int) -> bool:
        """Whether some client's call was in flight at some time of these, ends included."""

    def tally(
        self, quantiles: Sequence[float]
    ) -> tuple[
        list[tuple[str, list[int], list[int], list[tuple[str, int]]]],
        list[tuple[str | None, str, list[int]]],
    ]:
        """Clients' calls: for every f how many ended ok, fail and info, how long those that ended
        ok took, in ns, at the quantiles, by nearest rank, none without an ok call, and how often
        each error came (what stands before its first colon), in order of the calls; and for every
        node and f how many ended ok, fail and info."""

    def sets(self) -> list[Set]:
        """Every key of inserts and reads, none first, then ascending. Raises OddValue."""

    def calls(self) -> list[Calls]:
        """Those that constrain sets, for every key, in order of its first. Raises OddValue."""

@final
class Set:
    """Everything that was asked of one key: "insert", and "read" and "final-read" that were
    answered. An insert is meant by its bit; inserted values have the first bits, in order of their
    first attempt. A read is meant by its place in order of invocation."""

    @property
    def key(self) -> int | None: ...
    def values(self) -> list[int]:
        """By bit; values that were only read have one too."""

    def inserts(self) -> list[tuple[int, int, str, int, int | None, int]]:
        """Value, bit, kind ("ok": acknowledged, "fail": every attempt refused, else "info"), the
        row of the first attempt that was not refused (of the first, if every one was), the row of
        the first acknowledgement, attempts."""

    def ends(self) -> list[int]:
        """How many inserts are ok, fail and info."""

    def repeated(self) -> list[int]:
        """Inserts that were tried more than once."""

    def read(self, read: int) -> tuple[int, int, bool]:
        """The rows of call and end; whether some value came more than once."""

    def reads_count(self) -> int:
        """How many they are."""

    def finals(self) -> list[int]:
        """The reads called "final-read"."""

    def last_finals(self) -> list[tuple[str, int]]:
        """By node, in order of its first, the last "final-read"; those of no node left out."""

    def same(self, reads: Sequence[int]) -> bool:
        """Whether they returned the same values, each of them once."""

    def mask(self, read: int) -> bytes:
        """The bits of what it returned, little-endian."""

    def examined(self, replicas: Sequence[str]) -> Findings:
        """What became of every value; `replicas`: of whom a final read is due."""

    def bounds(self, few: int) -> list[tuple[int, int, list[tuple[int, int, int | None]]]]:
        """Of monotonic reads, read your writes, monotonic writes and writes follow reads: of how
        many reads something is demanded, how many lack some of it, and `few` of those, the first
        to end: the read, the first bit that it lacks, and the first insert that demands it (of the
        latter two). Every value must have been tried once."""

@final
class Findings:
    """What became of every value of one key."""

    @property
    def stale_reads(self) -> int:
        """Reads that lack at least one value acknowledged before they were invoked."""

    @property
    def missed(self) -> list[tuple[int, int, int]]:
        """Acknowledged inserts with the first and the last read, invoked after the
        acknowledgement, that lack them, in order of the first; lost ones included."""

    @property
    def lost(self) -> list[tuple[int, list[int]]]:
        """Acknowledged, and in no final read though every replica answered one after the
        acknowledgement; with those reads."""

    @property
    def unaccounted(self) -> list[int]:
        """Acknowledged, in no final read, but some replica answered none after the
        acknowledgement."""

    @property
    def never_read(self) -> int:
        """Acknowledged, in no read at all, and not lost."""

    @property
    def duplicates(self) -> list[tuple[int, int, int]]:
        """Bits of which one read returned the value several times, the first such read, and how
        often."""

    @property
    def phantoms(self) -> list[tuple[int, int]]:
        """Bits whose value no insert can have brought about when the first read that has it ended:
        nobody tried, all were refused, or none had begun; with that read."""

    @property
    def appeared(self) -> int:
        """Inserts of unknown outcome that some read shows."""

@final
class Calls:
    """Those that constrain the set of one key, in order of invocation: inserts that were not
    refused, and answered reads."""

    @property
    def key(self) -> int | None: ...
    def __len__(self) -> int: ...
    def reads(self) -> int:
        """How many are reads."""

    def ties(self) -> bool:
        """Whether a process called at the very time at which its last call ended, and another call
        ended then: that the one came after the other, and not after all, no times can tell."""

    def rows(self) -> list[tuple[int, int | None]]:
        """Of call and end."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A row a call, as `pyporcupine` takes them: process, f ("add" or "read"), value, call,
        ret, output. Reads have no value and only they have an output; ret is null where the call
        did not end ok.

        A process that called at the very time at which its last call ended, when nothing else did,
        called a nanosecond later here: after that call, and after no other."""
