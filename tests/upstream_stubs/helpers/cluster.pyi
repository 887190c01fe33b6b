from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from kazoo.client import KazooClient

class ClickHouseInstance:
    name: str
    ip_address: str | None
    ipv6_address: str | None
    def query(
        self,
        sql: str,
        stdin: object = None,
        timeout: float | None = None,
        settings: Mapping[str, object] | None = None,
        user: str | None = None,
        password: str | None = None,
        database: str | None = None,
        host: str | None = None,
        ignore_error: bool = False,
        query_id: str | None = None,
    ) -> str: ...
    def stop_clickhouse(self, stop_wait_sec: float = 30, kill: bool = False) -> None: ...
    def start_clickhouse(self, start_wait_sec: float = 60) -> None: ...
    def restart_clickhouse(self, stop_start_wait_sec: float = 60, kill: bool = False) -> None: ...
    def exec_in_container(
        self, cmd: Sequence[str], detach: bool = False, **kwargs: object
    ) -> str: ...

class ClickHouseCluster:
    def __init__(self, base_path: str, name: str | None = None) -> None: ...
    def add_instance(
        self,
        name: str,
        base_config_dir: str | None = None,
        main_configs: Sequence[str] | None = None,
        user_configs: Sequence[str] | None = None,
        dictionaries: Sequence[str] | None = None,
        macros: Mapping[str, object] | None = None,
        with_zookeeper: bool = False,
        *,
        use_keeper: bool = True,
        stay_alive: bool = False,
    ) -> ClickHouseInstance: ...
    def start(self) -> None: ...
    def shutdown(self, kill: bool = True) -> None: ...
    def pause_container(
        self, instance_name: str, wait_for_paused: bool = True
    ) -> AbstractContextManager[None]: ...
    def get_instance_ip(self, instance_name: str) -> str: ...
    def get_instance_docker_id(self, instance_name: str) -> str: ...
    def exec_in_container(
        self,
        container_id: str,
        cmd: Sequence[str],
        detach: bool = False,
        nothrow: bool = False,
        use_cli: bool = True,
        **kwargs: object,
    ) -> str: ...
    def get_kazoo_client(
        self, zoo_instance_name: str, timeout: float = 30.0, retries: int = 10
    ) -> KazooClient: ...
    def stop_zookeeper_nodes(self, zk_nodes: Sequence[str]) -> None: ...
    def start_zookeeper_nodes(self, zk_nodes: Sequence[str]) -> None: ...
    def wait_zookeeper_to_start(self, timeout: float = 180) -> None: ...
