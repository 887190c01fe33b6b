"""ZooKeeper's wire and file encoding, read: big-endian numbers, buffers and texts with a length."""

import struct
from typing import Final

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


class JuteError(ValueError):
    """The bytes are not what was expected at this place."""


class Jute:
    """Reads one record after the other. Raises JuteError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._at

    def int32(self) -> int:
        """32 bits, signed."""
        return int(_INT.unpack(self._take(4))[0])

    def int64(self) -> int:
        """64 bits, signed."""
        return int(_LONG.unpack(self._take(8))[0])

    def flag(self) -> bool:
        """One byte."""
        return self._take(1) != b"\0"

    def buffer(self) -> bytes:
        """A length and so many bytes; a length of -1 is no bytes."""
        length = self.int32()
        if length < -1:
            raise JuteError(f"a length of {length} at byte {self._at - 4}")
        return self._take(max(length, 0))

    def text(self) -> str:
        """A buffer of UTF-8."""
        try:
            return self.buffer().decode()
        except UnicodeDecodeError as error:
            raise JuteError(f"not UTF-8 before byte {self._at}: {error}") from error

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise JuteError(f"{count} bytes wanted at byte {self._at}, {len(taken)} are left")
        self._at += count
        return taken
