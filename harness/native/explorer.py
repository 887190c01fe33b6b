"""Explores every interleaving of small models of the protocol (`crates/explorer`)."""

from harness.native._native import MODELS, Claim, Exploration, Step

__all__ = ["MODELS", "Claim", "Exploration", "Step"]
