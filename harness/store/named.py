"""Runs that a word on the command line names, by one rule for every command.

- A word without a separator, such as `latest` or a run's name, is looked up in the store, never in
  the working directory, whose `latest` may be unrelated. An entry of the store itself comes before
  entries of its folders.
- A word that begins with /, ./ or ../ is a path.
- Any other, such as `quorum-set+kill/latest` or `store/`, may be either. Where it means two
  different directories, that is an error.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from harness.core.errors import UsageError

T = TypeVar("T")


def named(root: Path, word: str, look: Callable[[Path], T | None]) -> T:
    """Return what `look` finds in the place that a word means; None from it means that the place
    has nothing of the kind. Raises UsageError, with the places, if there is none or several."""
    if not word:
        raise UsageError("run '': is empty")
    found: dict[Path, tuple[Path, T]] = {}
    try:
        places = _places(root, word)
        for place in places:
            thing = look(place)
            if thing is not None:
                found.setdefault(place.resolve(), (place, thing))
    except OSError as error:  # such as a name that is too long
        raise UsageError(f"run {word!r}: {error.strerror}") from error
    if len(found) > 1:
        several = [_explicit(place) for place, _ in found.values()]
        raise UsageError(f"run {word!r}: may be {' or '.join(several)}; say which of these")
    if not found:
        raise UsageError(f"run {word!r}: no run.json in {' nor in '.join(map(str, places))}")
    ((_, thing),) = found.values()
    return thing


def path_hint(word: str) -> str:
    """Return a hint if a bare word names something in the working directory; "" otherwise."""
    if os.sep in word or not os.path.exists(word):  # for which a name may be too long
        return ""
    return f"; for what is called so in the working directory, say .{os.sep}{word}"


def _places(root: Path, word: str) -> Sequence[Path]:
    if os.sep not in word and word not in (".", ".."):
        here = root / word
        if os.path.lexists(here):  # every folder of the store has a `latest` of its own
            return (here,)
        # The name of a run, without its folder.
        return (here, *sorted(root.glob(f"*/{_literal(word)}")))
    if Path(word).is_absolute() or Path(word).parts[:1] == ("..",) or word[:1] == ".":
        return (Path(word),)
    return tuple(dict.fromkeys((Path(word), root / word)))


def _literal(word: str) -> str:
    """Return a pattern that fits this word alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in word)


def _explicit(place: Path) -> str:
    """Return a word that means this place and no other."""
    return str(place) if place.is_absolute() else os.path.join(os.curdir, place)
