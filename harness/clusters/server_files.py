"""Files of the servers of a cluster of containers: data, configuration and transaction logs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from compose.render import write_override
from harness.clusters import logs
from harness.clusters.containers import Containers
from harness.clusters.parallel import on_each
from harness.clusters.progress import following_progress
from harness.core.capabilities import CanConfigure, CanListFiles
from harness.core.record_capabilities import (
    DatesTransactions,
    GrowsTransactions,
    KeepsErrors,
    KeepsTransactions,
)


class ServerFiles(CanListFiles, CanConfigure):
    """Data directories and configuration of the database servers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def files(self, node: str, directory: str, name: str) -> Sequence[str]:
        data = self._containers.plan.server(node).data
        return self._containers.agents[node].files(f"/volumes{data}/{directory}", name)

    def configure(self, node: str, name: str, text: str) -> None:
        write_override(self._containers.plan, node, self._containers.directory, name, text)


class ErrorLogs(KeepsErrors):
    """What the servers log."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def errors(self, node: str, bytes_max: int) -> str:
        return self._containers.errors(node, bytes_max)


class TransactionLogs(KeepsTransactions, GrowsTransactions, DatesTransactions):
    """Transaction logs of the ZooKeeper servers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    def transactions(self) -> Mapping[str, bytes]:
        of = self._containers

        def read(node: str) -> bytes | None:
            container, pod, agent = of.container_names[node], of.pod_names[node], of.agents[node]
            return logs.transactions_of(of.engine(), container, pod, agent)

        found = on_each(of.topology.keepers, read)
        return {node: log for node, log in found.items() if log}

    def transactions_since(self, node: str, file: str, offset: int) -> tuple[Sequence[str], bytes]:
        return logs.transactions_since(self._containers.agents[node], file, offset)

    def dates_may_be_wrong(self) -> bool:
        return self._containers.settings.wrong_clocks

    def following_progress(
        self, heard: Callable[[float, float, int, bool], None]
    ) -> AbstractContextManager[None]:
        keepers = self._containers.topology.keepers
        return following_progress(map(self._containers.endpoint, keepers), heard)
