"""Finds models of the user's own: MODULE:CLASS, as pyporcupine takes them."""

from typing import Any

import pyporcupine

from harness.core import plugins
from harness.core.errors import UsageError
from harness.core.ranges import shortened

MODELS = "harness.models"
"""Group of entry points."""


def own_model(name: str) -> pyporcupine.Model[Any]:
    """Return the model that a MODULE:CLASS makes. Raises UsageError if it makes none."""
    maker = plugins.load(MODELS, name)
    try:
        made: pyporcupine.Model[Any] = maker()
    except Exception as error:
        raise UsageError(
            f"{shortened(name)}: {type(error).__name__}: {error}; expected a class that is made "
            "without arguments"
        ) from error
    plugins.require_members(
        shortened(name), made, ("init", "step"), "init() and step(state, call, output)"
    )
    return made
