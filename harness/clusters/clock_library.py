"""Library that makes the clock of a program wrong: its compilation, and the file that it reads."""

import struct
import subprocess
import time
from fractions import Fraction
from pathlib import Path
from typing import Final

from harness.core.clock_fault import SECOND, ClockFault
from harness.core.errors import ClusterError

SOURCE: Final = Path(__file__).parent / "fake_clock" / "fake_clock.c"
_STATE: Final = "/harness/clock/state"
"""File that the library reads, as a server's container has it."""
_COMPILE: Final = ("cc", "-O2", "-shared", "-fPIC", "-nostdlib", "-o")
_TURN: Final = struct.Struct("<q")
_SETTING: Final = struct.Struct("<9q")
"""Layout of `struct state` in fake_clock.c: the turn, then two settings."""
_RIGHT: Final = (0, 0, 0, 0, 1, 1, 0, 0, 0)


def write_state(file: Path, fault: ClockFault) -> None:
    """Write the file that the library reads, before a program starts."""
    one = _SETTING.pack(*_setting(fault, _RIGHT))
    file.write_bytes(_TURN.pack(0) + 2 * one)
    file.chmod(0o644)


def change_state(path: Path, fault: ClockFault) -> None:
    """Put a fault in force while programs read the file: they read the setting of its turn."""
    with path.open("r+b", buffering=0) as file:
        (turn,) = _TURN.unpack(file.read(_TURN.size))
        settings = [_SETTING.unpack(file.read(_SETTING.size)) for _ in range(2)]
        new = _setting(fault, settings[turn % 2])
        turn += 1
        file.seek(_TURN.size + turn % 2 * _SETTING.size)
        file.write(_SETTING.pack(*new))
        file.seek(0)
        file.write(_TURN.pack(turn))


def compile_library(target: Path, state: str = _STATE) -> None:
    """Compile the library that makes clocks wrong as the file `state` says. Raises ClusterError."""
    try:
        done = subprocess.run(
            (*_COMPILE, str(target), f'-DSTATE_FILE="{state}"', str(SOURCE)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{SOURCE.name}: cannot be compiled: {error}") from error
    if done.returncode:
        raise ClusterError(f"{SOURCE.name}: cannot be compiled: {done.stderr.strip()[-300:]}")


def _setting(fault: ClockFault, old: tuple[int, ...]) -> tuple[int, ...]:
    """Return the setting of a fault that follows another setting now."""
    _, base, mono, _, rate, per, *_ = old
    now = time.monotonic_ns()
    mono += (now - base) * (rate - per) // per
    speed = Fraction(fault.rate).limit_denominator(100) if fault.rate else Fraction(1)
    strobes = bool(fault.period_s)
    offset = round(fault.offset_s * SECOND)
    return (
        int(fault != ClockFault() or mono != 0),
        now,
        mono,
        0 if strobes else offset,
        speed.numerator,
        speed.denominator,
        offset if strobes else 0,
        round(fault.period_s * SECOND),
        time.time_ns() if fault.rate == 0 else 0,
    )
