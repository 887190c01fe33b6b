"""Which servers are simulated."""

from typing import Final

from harness.core.dialect import Engines

ENGINES: Final = Engines(
    clickhouse="18.16.1",
    clickhouse_build="simulated",
    zookeeper="3.8.0",
    zookeeper_build="simulated",
)
DIALECT: Final = ENGINES.dialect
