"""Clusters that runs bring up."""

from typing import Final

FOLDER: Final = "clusters"
"""Directory in a store with the files of its clusters, a directory for each."""
