"""Reads ZooKeeper's wire and file encoding: big-endian numbers, and buffers and texts that begin
with their length."""

import struct
from typing import Final

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class JuteError(ValueError):
    """The bytes at this position are not what was expected."""


class Jute:
    """Reads one value after the other. Raises JuteError at the end of the data."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    @property
    def left(self) -> int:
        """Return the number of bytes not yet read."""
        return len(self._data) - self._at

    def int32(self) -> int:
        """Read a signed integer of 32 bits."""
        return int(_INT.unpack(self._take(4))[0])

    def int64(self) -> int:
        """Read a signed integer of 64 bits."""
        return int(_LONG.unpack(self._take(8))[0])

    def flag(self) -> bool:
        """Read one byte as a boolean."""
        return self._take(1) != b"\0"

    def buffer(self) -> bytes:
        """Read a length and that many bytes. A length of -1 stands for no bytes."""
        length = self.int32()
        if length < -1:
            raise JuteError(f"a length of {length} at byte {self._at - 4}")
        return self._take(max(length, 0))

    def text(self) -> str:
        """Read a buffer as text in UTF-8."""
        try:
            return self.buffer().decode()
        except UnicodeDecodeError as error:
            raise JuteError(f"not UTF-8 before byte {self._at}: {error}") from error

    def raw(self, count: int) -> bytes:
        """Read that many bytes as they are."""
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise JuteError(f"{count} bytes wanted at byte {self._at}, {len(taken)} are left")
        self._at += count
        return taken
