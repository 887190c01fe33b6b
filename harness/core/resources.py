"""Resources that a server may run out of."""

from enum import StrEnum


class Resource(StrEnum):
    """Resource of a server, by the name of the nemesis that takes it away."""

    MEMORY = "memory-limit"
    CPU = "cpu-limit"
    FILES = "file-limit"
    CONNECTIONS = "connection-limit"
    NAMES = "dns-failure"
