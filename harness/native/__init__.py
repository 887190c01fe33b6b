"""The extension module written in Rust, with a Python module for each crate in it."""
