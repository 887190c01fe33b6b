"""What a store knows of its nights and verdicts as one file, which a machine that keeps no disk
carries to its next night. Histories, pages and logs of runs stay behind.

    torture/<matrix>/<night>/journal.jsonl, summary.json    the last nights of each matrix
    verdicts*/…/*.parquet, verdicts*.json                   the datasets of verdicts
"""

import io
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from harness.core.errors import HarnessError, UsageError
from harness.nights.night import JOURNAL, NIGHTS, Night
from harness.store.disk import why_unwritable

BYTES_MAX: Final = 4 << 30
"""Most bytes that are restored from a file, which may come from elsewhere."""
_PACKED: Final = re.compile(
    rf"{NIGHTS}/[^/]+/[^/]+/({re.escape(JOURNAL)}|summary[.]json)|"
    r"verdicts[^/]*([.]json|/(rows|runs)/generation=\d+/[^/]+[.]parquet)"
)
"""Paths of a store that are packed, and the only ones that are restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What was packed or restored; `harness pack --json` prints these fields by these names."""

    file: Path
    store: Path
    nights: int
    files: int
    bytes: int
    """Size of the files, unpacked."""
    kept: int = 0
    """Files that were not restored because the store has files of these names."""


def pack(store: Path, file: Path, nights_max: int) -> Packed:
    """Write the datasets of a store to a file, which appears whole or not at all: those of
    verdicts, and of each matrix the last `nights_max` nights. Raises HarnessError."""
    paths = [path for path in _paths(store, nights_max) if not path.is_symlink()]
    part = file.with_name(f".{file.name}.{uuid4().hex[:8]}")
    size = 0
    try:
        with tarfile.open(part, "w:gz") as tar:
            for path in paths:
                content = path.read_bytes()
                entry = tarfile.TarInfo(path.relative_to(store).as_posix())
                entry.size, entry.mtime = len(content), int(path.stat().st_mtime)
                tar.addfile(entry, io.BytesIO(content))
                size += len(content)
        part.replace(file)
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written: {why_unwritable(file, error)}") from error
    finally:
        part.unlink(missing_ok=True)
    nights = sum(path.name == JOURNAL for path in paths)
    return Packed(file=file, store=store, nights=nights, files=len(paths), bytes=size)


def restore(store: Path, file: Path) -> Packed:
    """Add the datasets in a file to a store. What the store has already stays as it is. A night
    that was not over is over then, because its runs are not there. Raises UsageError for what
    `pack` did not write, before any file is written, and HarnessError."""
    nights: list[Path] = []
    counts = {"files": 0, "bytes": 0, "kept": 0}
    try:
        with tarfile.open(file, "r:gz") as tar:
            entries = tar.getmembers()
            _require_own(file, entries)
            for entry in entries:
                target = store / entry.name
                content = tar.extractfile(entry)
                assert content is not None, "it is a regular file"
                if target.exists():
                    counts["kept"] += 1
                    continue
                _write(target, content.read())
                counts["files"] += 1
                counts["bytes"] += entry.size
                nights += [target.parent] if target.name == JOURNAL else []
    except FileNotFoundError as error:
        raise UsageError(f"{file}: there is no such file; expected one of harness pack") from error
    except (tarfile.TarError, EOFError) as error:
        raise UsageError(f"{file}: expected a file of harness pack: {error}") from error
    except OSError as error:
        raise HarnessError(f"{file}: cannot be restored to {store}: {error}") from error
    for path in nights:
        night = Night.read(path)
        if not night.over:
            night.say("end")
    return Packed(file=file, store=store, nights=len(nights), **counts)


def _paths(store: Path, nights_max: int) -> Iterator[Path]:
    """Yield the files of the datasets."""
    for matrix in sorted((store / NIGHTS).glob("*/")):
        nights = sorted(path for path in matrix.iterdir() if (path / JOURNAL).is_file())
        for night in nights[-nights_max:]:
            yield from sorted(path for path in night.iterdir() if _is_packed(store, path))
    for path in sorted(store.glob("verdicts*")):
        every = [path] if path.is_file() else sorted(path.glob("*/generation=*/*.parquet"))
        yield from (one for one in every if _is_packed(store, one))


def _is_packed(store: Path, path: Path) -> bool:
    return _PACKED.fullmatch(path.relative_to(store).as_posix()) is not None


def _require_own(file: Path, entries: list[tarfile.TarInfo]) -> None:
    for entry in entries:
        strange = not entry.isfile() or ".." in entry.name.split("/")
        if strange or _PACKED.fullmatch(entry.name) is None:
            raise UsageError(
                f"{file}: has {entry.name!r}; expected a file of harness pack, which has nights "
                "and verdicts alone"
            )
    size = sum(entry.size for entry in entries)
    if size > BYTES_MAX:
        raise UsageError(f"{file}: has {size:,} bytes; expected at most {BYTES_MAX:,}")


def _write(target: Path, content: bytes) -> None:
    """Write a file, which appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    try:
        part.write_bytes(content)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
