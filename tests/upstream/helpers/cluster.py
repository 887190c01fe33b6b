"""Clusters of ClickHouse servers and three ZooKeeper servers, in containers of local images.

The environment has the images and the name that begins those of the containers (STAND_IN_*). The
first configuration of each server is a directory below STAND_IN_CONFIG, which has its own name.
"""

import contextlib
import http.client
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from kazoo.client import KazooClient

from helpers.client import QueryRuntimeException, QueryTimeoutExceedException

NAME = os.environ["STAND_IN_NAME"]
KEEPERS = ("zoo1", "zoo2", "zoo3")


def docker(*arguments):
    """Run a command of Docker, and return what it prints."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def until(look, what, within_s=120):
    """Wait until a look returns something true."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            if look():
                return
        time.sleep(0.1)
    raise RuntimeError(f"waited in vain until {what}")


def published(name, port):
    """Return the port of this machine that leads to a container's."""
    return int(docker("port", f"{NAME}-{name}", port).splitlines()[0].rpartition(":")[2])


class ClickHouseInstance:
    """A server of ClickHouse."""

    ipv6_address = None

    def __init__(self, name, directory, main_configs, user_configs):
        self.name = name
        self._directory = directory
        self._configs = {"config.d": main_configs, "users.d": user_configs}

    def run(self, directory):
        """Start the container."""
        config = directory / self.name
        shutil.copytree(Path(os.environ["STAND_IN_CONFIG"]) / self.name, config)
        for place, files in self._configs.items():
            (config / place).mkdir()
            for file in files:
                shutil.copy(self._directory / file, config / place)
        publish = ["--publish", "127.0.0.1::8123"]
        run(self.name, os.environ["STAND_IN_CLICKHOUSE_IMAGE"], config, publish)

    @property
    def ip_address(self):
        """Return the address in the network of the cluster."""
        return address(self.name)

    def query(self, sql, settings=None, timeout=20):
        """Return the answer of a query as text."""
        parameters = urllib.parse.urlencode({"wait_end_of_query": 1, **(settings or {})})
        url = f"http://127.0.0.1:{published(self.name, '8123')}/?{parameters}"
        try:
            with urllib.request.urlopen(url, sql.encode(), timeout=timeout) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise QueryRuntimeException(error.read().decode()) from error
        except TimeoutError as error:
            raise QueryTimeoutExceedException(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise QueryRuntimeException(str(error)) from error

    def stop_clickhouse(self, kill=False):
        """End the server."""
        docker("kill" if kill else "stop", f"{NAME}-{self.name}")

    def start_clickhouse(self):
        """Start the server, and wait until it answers."""
        docker("start", f"{NAME}-{self.name}")
        until(lambda: self.query("SELECT 1"), f"{self.name} answers")

    def restart_clickhouse(self):
        """End the server and start it."""
        self.stop_clickhouse()
        self.start_clickhouse()


class ClickHouseCluster:
    """The servers of one test file."""

    def __init__(self, base_path):
        self._directory = Path(base_path).parent
        self._instances = []

    def add_instance(
        self,
        name,
        main_configs,
        user_configs,
        macros,  # the first configuration has the same
        with_zookeeper,
        use_keeper,
        stay_alive,
    ):
        """Add a server."""
        assert (with_zookeeper, use_keeper, stay_alive) == (True, False, True)
        assert macros["replica"] == name
        instance = ClickHouseInstance(name, self._directory, main_configs, user_configs)
        self._instances.append(instance)
        return instance

    def start(self):
        """Start all servers."""
        docker("network", "create", NAME)
        configs = Path(os.environ["STAND_IN_CONFIG"])
        for name in KEEPERS:
            publish = ["--publish", "127.0.0.1::2181", "--env", f"ZOO_MY_ID={name[-1]}"]
            run(name, os.environ["STAND_IN_ZOOKEEPER_IMAGE"], configs / name, publish)
        self.wait_zookeeper_to_start()
        for instance in self._instances:
            instance.run(self._directory / "_instances")
        for instance in self._instances:
            until(lambda on=instance: on.query("SELECT 1"), f"{instance.name} answers")

    def shutdown(self):
        """Remove all servers."""
        names = docker("ps", "-aq", "--filter", f"network={NAME}").split()
        if names:
            docker("rm", "--force", "--volumes", *names)
        docker("network", "rm", NAME)

    @contextlib.contextmanager
    def pause_container(self, name):
        """Pause a server."""
        docker("pause", f"{NAME}-{name}")
        try:
            yield
        finally:
            docker("unpause", f"{NAME}-{name}")

    def wait_zookeeper_to_start(self):
        """Wait until each server of ZooKeeper has a quorum."""
        for name in KEEPERS:
            until(lambda name=name: "Mode: " in four_letters(name), f"{name} has a quorum")

    def stop_zookeeper_nodes(self, names):
        """Stop servers of ZooKeeper."""
        for name in names:
            docker("stop", f"{NAME}-{name}")

    def start_zookeeper_nodes(self, names):
        """Start servers of ZooKeeper."""
        for name in names:
            docker("start", f"{NAME}-{name}")

    def get_kazoo_client(self, name):
        """Return a session with a server of ZooKeeper."""
        client = KazooClient(hosts=f"127.0.0.1:{published(name, '2181')}")
        client.start()
        return client

    def get_instance_ip(self, name):
        """Return the address of a container."""
        return address(name)


def run(name, image, config, publish):
    """Start a container of the cluster."""
    at = "/etc/clickhouse-server" if "clickhouse" in image else "/conf"
    docker(
        "run", "--detach", "--name", f"{NAME}-{name}", "--hostname", name, "--network", NAME,
        "--network-alias", name, "--volume", f"{config}:{at}:ro", *publish, image,
    )  # fmt: skip


def address(name):
    """Return the address of a container in the network of the cluster."""
    template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return docker("inspect", "-f", template, f"{NAME}-{name}")


def four_letters(name):
    """Return the answer of a server of ZooKeeper to srvr."""
    with socket.create_connection(("127.0.0.1", published(name, "2181")), timeout=2) as connection:
        connection.sendall(b"srvr")
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
