"""The two files with the history of a run, and which of them has it.

The journal, history.jsonl, has it: history.parquet is made from the journal. But a journal is only
ever appended to, so one that no longer begins with the bytes that history.parquet was made from is
damaged: a loss of power cut or emptied it, or the disk changed it. Then history.parquet, whose
pages have checksums, has the history if results.json says that this very journal was judged, or if
it has more operations than are left. A journal that only went on, such as that of a run which was
checked while it ran, has the history as before.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final

from harness.core.bounded_json import open_regular
from harness.core.errors import HistoryError
from harness.core.history import History
from harness.store.disk import why_unwritable
from harness.store.journal import Contents, ends_mid_line, journal_digest, read_journal

BROKEN: Final = "broken"
"""What a history.parquet that could not be read is called after it was made again."""
BEFORE: Final = "before"
"""What one is called that had something else than the journal has now."""

# `harness.store.parquet` is slow to load, and most commands need the journal alone.


@dataclass(frozen=True)
class HistoryFiles:
    """The files with the history of one run, as they are now. Every method raises HistoryError."""

    journal: Path
    columns: Path
    judged: object
    """Digest of the journal that was judged, as results.json has it; None if it has none."""

    def contents(self) -> Contents:
        """Return the history, and what is wrong with the journal."""
        if not self.journal.exists() and self.columns.exists():
            return Contents(_read(self.columns), None)
        if self._better_columns is not None:
            return Contents(self._better_columns, self._lost(self._better_columns))
        return read_journal(self.journal)

    def damage(self) -> str | None:
        """Return what is wrong with a journal, and None if nothing is. Of the lines only the last
        one is looked at."""
        if self._better_columns is not None:
            return self._lost(self._better_columns)
        return read_journal(self.journal).damage if ends_mid_line(self.journal) else None

    def digest(self) -> str | None:
        """Return the digest of the journal that the history was written in; None if the journal is
        gone, and history.parquet does not have its digest."""
        if self.journal.exists() and self._better_columns is None:
            return self._digest_now or journal_digest(self.journal)
        return self._made_from or None

    def write_columns(self, history: History | None = None) -> Path:
        """Return history.parquet, written first unless it was made from the very bytes that the
        journal has now: a digest decides, for a changed bit leaves the length as it was. A file
        that the journal does not continue is kept beside it. `history`: what the journal holds, if
        it was read already."""
        if not self.journal.exists() and self.columns.exists():
            return self.columns
        if self._better_columns is not None:
            return self.columns
        # Digested before it is read: if the run still writes, the next call makes the file anew.
        digest = self._digest_now or journal_digest(self.journal)
        if self._made_from == digest:
            return self.columns
        known = read_journal(self.journal).history if history is None else history
        if self._made_from is None or not self._is_continued:
            self.set_aside(BROKEN if self._made_from is None else BEFORE)
        from harness.store.parquet import write_parquet

        write_parquet(known, self.columns, journal_digest=digest)
        return self.columns

    def beside(self, what: str) -> Path:
        """Return the path of a history.parquet that was set aside."""
        return self.columns.with_name(f"{self.columns.name}.{what}")

    def set_aside(self, what: str) -> None:
        """Keep history.parquet, if there is one, beside the file that takes its place."""
        try:
            if self.columns.exists():
                self.columns.replace(self.beside(what))
        except OSError as error:
            why = why_unwritable(self.columns, error)
            raise HistoryError(f"{self.columns}: cannot be renamed: {why}") from error

    @cached_property
    def _made_from(self) -> str | None:
        """Digest of the journal that history.parquet was made from; see `journal_digest_of`."""
        if not self.columns.exists():
            return None
        from harness.store.parquet import journal_digest_of

        return journal_digest_of(self.columns)

    @cached_property
    def _digest_now(self) -> str:
        """Digest of the journal; "" if it cannot be read."""
        try:
            return journal_digest(self.journal)
        except HistoryError:
            return ""

    @cached_property
    def _better_columns(self) -> History | None:
        """The history in history.parquet if the journal has lost it; see the module."""
        if not (self.columns.exists() and self.journal.exists()):
            return None
        digest = self._digest_now
        if digest == self.judged or self._made_from in (None, digest) or self._is_continued:
            return None
        try:
            columns = _read(self.columns)
            if self._made_from == self.judged:
                return columns
            return columns if len(columns) > len(read_journal(self.journal).history) else None
        except HistoryError:
            return None

    @cached_property
    def _is_continued(self) -> bool:
        """Whether the journal begins with what history.parquet was made from."""
        from harness.store.parquet import rows_of

        begin = blake2b(digest_size=16)
        try:
            with open_regular(self.journal) as file:
                for line in islice(file, rows_of(self.columns)):
                    begin.update(line)
        except (OSError, ValueError):
            return False
        return begin.hexdigest() == self._made_from

    def _lost(self, columns: History) -> str:
        return (
            f"{self.journal}: was cut or changed after {self.columns.name} was made from it; the "
            f"history is that of {self.columns.name}, {len(columns):,} operations, and both files "
            "are kept"
        )


def _read(columns: Path) -> History:
    from harness.store.parquet import read_parquet

    return read_parquet(columns)
