"""Explores every interleaving of small models of the protocol (`crates/explorer`).

No run needs it, so a checkout compiles it when this module is first imported.
"""

from harness.native.cargo import load_extension

load_extension("explorer", "harness.native._explorer")
from harness.native._explorer import MODELS, Claim, Exploration, Step  # noqa: E402

__all__ = ["MODELS", "Claim", "Exploration", "Step"]
