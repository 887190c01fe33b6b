"""Quality of links: how they may be degraded, by how much, and what shows that they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from harness.core.errors import UsageError
from harness.core.ranges import Range, unknown_name


class LinkFault(StrEnum):
    """One way to degrade links."""

    DELAY = "delay"
    JITTER = "jitter"
    REORDER = "reorder"
    DUPLICATE = "duplicate"
    RATE = "rate"
    LOSS = "loss"


_SHARE: Final = Range(0.01, 0.95, "a share")

RANGES: Final[Mapping[LinkFault, Range]] = {
    LinkFault.DELAY: Range(10, 60_000, "milliseconds"),
    LinkFault.JITTER: Range(10, 60_000, "milliseconds"),
    LinkFault.REORDER: _SHARE,
    LinkFault.DUPLICATE: _SHARE,
    LinkFault.RATE: Range(64, 20_000, "kilobits a second"),
    LinkFault.LOSS: _SHARE,
}
"""Ranges of the amounts. A smaller delay or a higher rate could not be told from a busy machine."""

DEFAULTS: Final[Mapping[LinkFault, float]] = {
    LinkFault.DELAY: 100,
    LinkFault.JITTER: 100,
    LinkFault.REORDER: 0.25,
    LinkFault.DUPLICATE: 0.25,
    LinkFault.RATE: 512,
    LinkFault.LOSS: 0.3,
}

HOLD_MS: Final = 20.0
"""Time for which `reorder` holds a packet back, while later ones overtake it."""

SHOWN: Final[Mapping[LinkFault, str]] = {
    LinkFault.DELAY: "{:g} ms",
    LinkFault.JITTER: "up to {:g} ms",
    LinkFault.RATE: "{:g} kbit/s",
}
"""Formats of the amounts that are no shares."""


def shown(fault: LinkFault, amount: float) -> str:
    """Return an amount as text, such as "100 ms" or "30 %"."""
    return SHOWN[fault].format(amount) if fault in SHOWN else f"{amount:.0%}"


@dataclass(frozen=True, slots=True)
class LinkAmounts:
    """Amount of each fault of links. Raises UsageError for one that is out of range."""

    of: Mapping[LinkFault, float] = field(default_factory=lambda: dict(DEFAULTS))

    def __post_init__(self) -> None:
        assert self.of.keys() == DEFAULTS.keys(), "every fault has an amount"
        for fault, amount in self.of.items():
            _amount(fault, amount)

    @staticmethod
    def parse(entries: tuple[str, ...]) -> "LinkAmounts":
        """Return the amounts of entries such as "delay=250"; the others have their defaults."""
        given: dict[LinkFault, float] = {}
        for entry in entries:
            name, _, text = entry.partition("=")
            if name not in DEFAULTS:
                raise UsageError(f"amount of a fault: {unknown_name(name, tuple(DEFAULTS))}")
            fault = LinkFault(name)
            if fault in given:
                raise UsageError(f"{entry}: {name} is given twice; expected one amount")
            given[fault] = _amount(fault, text)
        return LinkAmounts({**DEFAULTS, **given})


def _amount(fault: LinkFault, given: object) -> float:
    try:
        return float(RANGES[fault].parse(given))
    except ValueError as error:
        raise UsageError(f"{fault}={error}") from None


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """What was seen of a fault on one link."""

    seen: bool | None
    """None if nothing could be measured."""
    text: str
    """Measurement, such as "100.3 ms one way"."""
