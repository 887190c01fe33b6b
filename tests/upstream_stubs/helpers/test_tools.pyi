from collections.abc import Mapping

from helpers.cluster import ClickHouseInstance

def assert_eq_with_retry(
    instance: ClickHouseInstance,
    query: str,
    expectation: str,
    retry_count: int = 20,
    sleep_time: float = 0.5,
    stdin: object = None,
    timeout: float | None = None,
    settings: Mapping[str, object] | None = None,
    user: str | None = None,
    ignore_error: bool = False,
) -> None: ...
