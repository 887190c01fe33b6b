"""What simulated servers answer instead of a result."""

from typing import Final

NO_NODE: Final = "NONODE"
NODE_EXISTS: Final = "NODEEXISTS"
BAD_VERSION: Final = "BADVERSION"


class ServerError(Exception):
    """`code` is ClickHouse's, or a client's own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


class KeeperError(Exception):
    """A request to ZooKeeper failed; `code` is a name of ZooKeeper's, such as those above."""

    def __init__(self, code: str, path: str) -> None:
        super().__init__(f"{code}{f' at {path}' if path else ''}")
        self.code, self.path = code, path
