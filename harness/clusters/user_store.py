"""A user's own object store, in place of the one that is a node of a cluster."""

import os
import socket
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from ssl import SSLError
from typing import Final

from harness.clusters.bucket import listing, listing_path, object_path
from harness.clusters.parallel import on_each
from harness.clusters.pods import PodAgent
from harness.clusters.store_http import HttpStoreChannel, StoreKeys
from harness.core.bucket import AUTHORITIES_VARIABLE, Bucket
from harness.core.connections import QueryError, StoreChannel
from harness.core.errors import ClusterError, UsageError
from harness.core.seed import Seed
from harness.core.topology import Topology

_CHECK_S: Final = 5.0
_CONNECT: Final = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


def check_bucket(bucket: Bucket, keys: StoreKeys) -> None:
    """Raise UsageError unless the keys may list, write and delete objects in a bucket of a store
    that a container can reach."""
    said = f"--s3-endpoint {bucket.url}"
    _check_host(bucket, said)
    channel = HttpStoreChannel(bucket, _CHECK_S, keys)
    probe = object_path(bucket, f"{bucket.prefix}harness-probe-{Seed.fresh().value:08x}")
    for what, method, path, body in (
        ("list", "GET", listing_path(bucket), None),
        ("write", "PUT", probe, "probe"),
        ("delete", "DELETE", probe, None),
    ):
        try:
            status, text = channel.request(method, path, body)
            if status == 200 and method == "GET":
                listing(text)
        except QueryError as error:
            if isinstance(error.__cause__, SSLError):
                raise UsageError(
                    f"{said}: {error.text}; expected a store that speaks TLS, with a certificate "
                    f"for {bucket.host} of an authority in {bucket.authorities}; "
                    f"{AUTHORITIES_VARIABLE} names another file"
                ) from error
            raise UsageError(
                f"{said}: no S3 server answers there: {error.text}; expected one that runs"
            ) from error
        if status not in (200, 204):
            raise UsageError(f"{said}: {_refusal(bucket, what, status, text)}")


@dataclass(frozen=True, slots=True)
class UserStore:
    """A user's object store, as one cluster uses it."""

    bucket: Bucket
    """Part of the user's bucket that belongs to the cluster."""
    keys: StoreKeys

    @staticmethod
    def of(topology: Topology, cluster: str) -> "UserStore | None":
        """Return the store of a topology with a user's bucket, with the keys in the environment of
        this process; None for another topology. Raises UsageError."""
        if topology.bucket is None:
            return None
        return UserStore(topology.bucket.below(cluster), StoreKeys.of(os.environ))

    def channel(self, timeout_s: float) -> StoreChannel:
        """Return a new connection, whose requests are signed."""
        return HttpStoreChannel(self.bucket, timeout_s, self.keys)

    def check_reachable(self, agents: Mapping[str, PodAgent], nodes: Sequence[str]) -> None:
        """Raise ClusterError if one of these nodes cannot connect to the store."""

        def connect(node: str) -> None:
            argv = ["python3", "-c", _CONNECT, self.bucket.host, str(self.bucket.port)]
            done = agents[node].call("run", wait_s=2 * _CHECK_S, argv=argv, text="")
            if done["status"]:
                why = (done["stderr"].strip().splitlines() or ["no answer"])[-1]
                raise ClusterError(
                    f"{node}: its container cannot reach {self.bucket.server}, which this machine "
                    f"reaches: {why}; expected an address that both reach"
                )

        on_each(nodes, connect)


def _check_host(bucket: Bucket, said: str) -> None:
    """Raise UsageError for a host that is unknown, or that is another one within a container."""
    try:
        found = socket.getaddrinfo(bucket.host, bucket.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(
            f"{said}: no address of {bucket.host!r} is known: {error.strerror}"
        ) from error
    for *_, address in found:
        ip = ip_address(str(address[0]).partition("%")[0])
        if ip.is_loopback or ip.is_unspecified:
            raise UsageError(
                f"{said}: {ip} is each container's own address, so the servers would not reach the "
                "store; expected another address of this machine, such as the gateway of Docker's "
                "bridge (ip address show docker0), and a store that listens there"
            )


def _refusal(bucket: Bucket, what: str, status: int, text: str) -> str:
    """Return why a store refuses a request, and what to do."""
    try:
        root = ET.fromstring(text)  # noqa: S314 # from the store that the user named
        code, message = root.findtext("{*}Code", ""), root.findtext("{*}Message", "")
    except ET.ParseError:
        code, message = "", text[:200]
    if code == "NoSuchBucket":
        return f"there is no bucket {bucket.name!r}; create it, or name one that exists"
    if status == 403:
        return (
            f"the keys are refused ({code or status}) to {what} objects; expected "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of a user who may list, write and delete "
            "objects there"
        )
    said = " ".join(f"{status} {code} {message}".split())
    return f"the request to {what} objects is answered {said}; expected an S3 server that does it"
