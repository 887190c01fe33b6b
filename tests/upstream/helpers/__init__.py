"""A stand-in for the package of ClickHouse's tests/integration that an exported test imports: as
much of it as such a test uses, over the images of this project."""
