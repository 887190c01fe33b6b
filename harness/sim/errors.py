"""What a simulated server answers instead of a result."""


class ServerError(Exception):
    """`code` is ClickHouse's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


def keeper_trouble(error: Exception) -> ServerError:
    """A ZooKeeper error that nobody caught."""
    return ServerError(999, f"Coordination::Exception: {error}")
