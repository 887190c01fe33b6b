"""What is written in Rust: one extension module, and a Python module for each crate in it."""
