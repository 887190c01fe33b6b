"""What the package of ClickHouse's tests/integration takes and returns, as far as exported tests
use it, in the words of this project. Read on 2026-11-29: helpers/network.py and
helpers/test_tools.py as they have type annotations, helpers/cluster.py as it was up to then and as
tests call it."""
