"""A user's own object store: its URL, its keys, what is refused, and what stays in its bucket."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import docker
import pytest
import requests
from real_servers import wait_until
from requests.certs import where
from test_workloads_on_servers import judged, verdicts_of

from checkers.replication.objects import FINAL_STORE
from compose.plan import BUCKET, ID_VARIABLE, SECRET_VARIABLE, Image, Images, plan_cluster
from compose.releases import ImageChoice
from compose.render import compose_text, config_files
from compose.settings import Settings
from harness.clusters.bucket import object_path, object_sizes, remove_objects
from harness.clusters.docker_cluster import DockerCluster
from harness.clusters.engine import engine
from harness.clusters.images import build_images
from harness.clusters.removal import remove_run
from harness.clusters.store_http import (
    HttpStoreChannel,
    StoreKeys,
    authorities_file,
)
from harness.clusters.user_store import check_bucket
from harness.core.bucket import AUTHORITIES_VARIABLE, Bucket
from harness.core.connections import StoreChannel
from harness.core.engines import Engine
from harness.core.errors import UsageError
from harness.core.topology import Role, Topology
from harness.core.verdict import Status
from harness.store.journal import read_history

PLACE = Bucket("http://10.0.0.7:9000", "bucket", "runs/", "eu-central-1")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://10.0.0.7:9000/bucket", ("http://10.0.0.7:9000", "bucket", "")),
        ("http://10.0.0.7:9000/bucket/", ("http://10.0.0.7:9000", "bucket", "")),
        ("https://s3.example.com/my-bucket/a/b/", ("https://s3.example.com", "my-bucket", "a/b/")),
        ("http://[fd00::7]:9000/bucket/a", ("http://[fd00::7]:9000", "bucket", "a/")),
    ],
)
def test_a_url_names_a_store_a_bucket_and_a_prefix(url: str, found: tuple[str, str, str]) -> None:
    bucket = Bucket.of(url)
    assert (bucket.server, bucket.name, bucket.prefix) == found
    assert bucket.below("run").url == f"{found[0]}/{found[1]}/{found[2]}run/"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("10.0.0.7:9000/bucket", "expected http://HOST:PORT/BUCKET"),
        ("ftp://10.0.0.7/bucket", "expected http://HOST:PORT/BUCKET"),
        ("http://10.0.0.7:9000", "'' names no bucket"),
        ("http://10.0.0.7:9000/b", "'b' names no bucket"),
        ("http://10.0.0.7:9000/bucket?x=1", "expected http://HOST:PORT/BUCKET"),
        ("http://10.0.0.7:9000/bucket/a//b", "prefix 'a//b/': expected letters"),
        ("http://10.0.0.7:9000/bucket/../b", "prefix '../b/': expected letters"),
        ("http://10.0.0.7:70000/bucket", "Port out of range"),
        ("http://me:hunter2@10.0.0.7/bucket", "the URL names a user; expected one without"),
    ],
)
def test_another_url_is_refused(url: str, text: str) -> None:
    with pytest.raises(UsageError, match="--s3-endpoint") as refused:
        Bucket.of(url)
    assert text in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, f"{ID_VARIABLE} is not set"),
        ({ID_VARIABLE: "id"}, f"{SECRET_VARIABLE} is not set"),
        ({ID_VARIABLE: "id", SECRET_VARIABLE: ""}, f"{SECRET_VARIABLE} is not set"),
        (
            {ID_VARIABLE: "id", SECRET_VARIABLE: "hunter2", "AWS_SESSION_TOKEN": "t"},
            "AWS_SESSION_TOKEN is set",
        ),
    ],
)
def test_keys_are_taken_from_the_environment(environment: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text) as refused:
        StoreKeys.of(environment)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "No such file or directory"), ("no certificate", "no certificate or crl found")],
)
def test_authorities_are_read_before_a_run(text: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "authorities.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=why) as refused:
        authorities_file({AUTHORITIES_VARIABLE: str(file)})
    assert f"{AUTHORITIES_VARIABLE} {str(file)!r}: " in str(refused.value)


def test_keys_are_never_shown() -> None:
    keys = StoreKeys("id", "hunter2")
    assert "hunter2" not in repr(keys) + str(HttpStoreChannel(PLACE, 1.0, keys))


def test_a_bucket_outside_has_no_node_and_no_file_has_its_keys() -> None:
    topology = Topology.of(replicas=2, keepers=1, store=True, bucket=PLACE)
    assert topology.has_store
    assert (topology.names, topology.stores) == (("ch1", "ch2", "zk1"), ())
    assert topology.with_version("ch1", "25.8").bucket == topology.unversioned.bucket == PLACE
    engines = {role: Engine(role=role, version="25.8.2.1") for role in Role}
    images = Images("pod:1", {r: {"": Image(f"{r}:1", e)} for r, e in engines.items()})
    made = plan_cluster(topology, Settings(), images, name="harness-0001", labels={})
    text = compose_text(made)
    assert f"{SECRET_VARIABLE}: null" in text
    assert json.loads(made.labels[BUCKET])["prefix"] == "runs/harness-0001/"
    disk = ElementTree.fromstring(config_files(made, topology.node("ch1"))["config.xml"]).find(
        "storage_configuration/disks/s3"
    )
    assert disk is not None
    assert disk.findtext("endpoint") == "http://10.0.0.7:9000/bucket/runs/harness-0001/"
    assert disk.findtext("region") == "eu-central-1"
    named = {tag: disk.find(tag) for tag in ("access_key_id", "secret_access_key")}
    assert {tag: one.attrib for tag, one in named.items() if one is not None} == {
        "access_key_id": {"from_env": ID_VARIABLE},
        "secret_access_key": {"from_env": SECRET_VARIABLE},
    }


class FakeStore:
    """Store with two objects on a page, to which a dying server writes one more during the first
    removal."""

    logs_requests = False

    def __init__(self, bucket: Bucket, keys: list[str]) -> None:
        self.bucket = bucket
        self.keys = set(keys)
        self.late = [f"{bucket.prefix}late"]

    def request(self, method: str, path: str, body: str | None = None) -> tuple[int, str]:
        if method == "DELETE":
            self.keys.discard(path.removeprefix(f"/{self.bucket.name}/"))
            self.keys.update(self.late)
            self.late = []
            return 204, ""
        query = dict(word.split("=") for word in path.partition("?")[2].split("&"))
        prefix, after = (query[name].replace("%2F", "/") for name in ("prefix", "start-after"))
        listed = sorted(key for key in self.keys if key.startswith(prefix) and key > after)
        rows = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in listed[:2])
        more = "true" if listed[2:] else "false"
        return 200, (
            f"<ListBucketResult><IsTruncated>{more}</IsTruncated>{rows}</ListBucketResult>"
        )


def test_only_the_objects_of_a_cluster_are_removed() -> None:
    others = ["runs/else", "runs/harness-0001", "runs/harness-00012/a", "z"]
    own = [f"runs/harness-0001/{name}" for name in "abcde"]
    store = FakeStore(PLACE.below("harness-0001"), [*others, *own])
    assert sorted(object_sizes(store)) == own
    assert remove_objects(store) == len(own) + 1
    assert sorted(store.keys) == others


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_an_address_that_is_another_in_a_container_is_refused(host: str) -> None:
    with pytest.raises(UsageError, match="is each container's own address"):
        check_bucket(Bucket(f"http://{host}:9000", "bucket"), StoreKeys("id", "secret"))


POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}


def user_of(bucket: Bucket) -> StoreKeys:
    """Create the bucket in moto, and a user who may do everything; from then on moto refuses
    requests that this user has not signed."""

    def asked(method: str, path: str, data: object = None, **headers: str) -> requests.Response:
        url = bucket.server + path
        trusted = bucket.authorities
        answer = requests.request(
            method, url, data=data, headers=headers, timeout=10, verify=trusted
        )
        answer.raise_for_status()
        return answer

    def ready() -> bool:
        try:
            return asked("GET", "/moto-api/data.json").ok
        except requests.ConnectionError:
            return False

    def iam(**words: str) -> ElementTree.Element:
        scope = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request"
        signed = f"{scope}, SignedHeaders=host, Signature=0"
        words["Version"] = "2010-05-08"
        answer = asked("POST", "/", words, Host="iam.amazonaws.com", Authorization=signed)
        return ElementTree.fromstring(answer.text)

    wait_until(ready, "moto answers")
    asked("PUT", f"/{bucket.name}")
    iam(Action="CreateUser", UserName="user")
    made = iam(Action="CreateAccessKey", UserName="user")
    iam(
        Action="PutUserPolicy",
        UserName="user",
        PolicyName="all",
        PolicyDocument=json.dumps(POLICY),
    )
    asked("POST", "/moto-api/reset-auth", "0", **{"Content-Type": "text/plain"})
    key_id, secret = (
        str(made.findtext(f".//{{*}}{name}")) for name in ("AccessKeyId", "SecretAccessKey")
    )
    return StoreKeys(key_id, secret)


SERVE_TLS = """
from datetime import datetime, timedelta
from ipaddress import ip_address
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.server import main

PEM = serialization.Encoding.PEM
routes = [line.split() for line in open("/proc/net/route")]
(gateway,) = [bytes.fromhex(hop)[::-1] for _, to, hop, *_ in routes if to == "00000000"]
key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
begin = datetime.utcnow() - timedelta(days=1)
made = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin + timedelta(days=9))
for extension in (
    x509.SubjectAlternativeName([x509.IPAddress(ip_address(gateway))]),
    x509.BasicConstraints(ca=True, path_length=0),
):
    made = made.add_extension(extension, critical=False)
private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
open("/tmp/key.pem", "wb").write(private)
certificate = made.sign(key, hashes.SHA256()).public_bytes(PEM)
open("/tmp/certificate.pem", "wb").write(certificate)
main(["-H", "0.0.0.0", "-p", "5000", "-c", "/tmp/certificate.pem", "-k", "/tmp/key.pem"])
"""
"""Script that serves S3 over TLS, with a certificate for the gateway that it signs itself."""


@pytest.fixture
def moto(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bucket]:
    """Yield a bucket of a store outside of any cluster, which speaks TLS and verifies signatures;
    the environment has the keys of its user."""
    images = build_images(lambda text: None, ImageChoice(store=True))
    (image,) = images.servers[Role.STORE].values()
    client = docker.from_env()
    container = client.containers.run(
        image.tag,
        ["-c", SERVE_TLS],
        entrypoint="python3",
        ports={"5000/tcp": None},
        detach=True,
    )
    try:
        container.reload()
        network = container.attrs["NetworkSettings"]
        gateway, port = network["Gateway"], network["Ports"]["5000/tcp"][0]["HostPort"]
        certificate = tmp_path_factory.mktemp("authority") / "certificate.pem"

        def certified() -> bool:
            status, text = container.exec_run(["cat", "/tmp/certificate.pem"])
            certificate.write_bytes(text)
            return status == 0

        wait_until(certified, "moto has a certificate")
        monkeypatch.setenv(AUTHORITIES_VARIABLE, str(certificate))
        trusted = authorities_file(os.environ)
        bucket = Bucket(f"https://{gateway}:{port}", "users-own", "runs/", authorities=trusted)
        for name, value in user_of(bucket).environment.items():
            monkeypatch.setenv(name, value)
        yield bucket
    finally:
        container.remove(force=True, v=True)
        client.close()


def plant(channel: StoreChannel, key: str) -> None:
    """Write an object as soon as replicas have written a part; creating tables writes a few too."""
    wait_until(lambda: len(object_sizes(channel)) > 10, "a replica writes a part")
    assert channel.request("PUT", object_path(channel.bucket, key), "orphan")[0] == 200


@pytest.mark.containers
def test_a_run_in_a_users_bucket_is_judged_and_leaves_nothing_there(
    moto: Bucket, tmp_path: Path
) -> None:
    keys = StoreKeys.of(os.environ)
    outside = HttpStoreChannel(moto, 10.0, keys)
    for bucket, own, text in (
        (replace(moto, name="nobody-s"), keys, "there is no bucket 'nobody-s'"),
        (
            moto,
            StoreKeys(keys.id, "wrong"),
            "the keys are refused \\(SignatureDoesNotMatch\\) to list",
        ),
        (moto, StoreKeys("AKIAWRONG", keys.secret), "the keys are refused \\(InvalidAccessKeyId"),
        (replace(moto, server=f"https://{moto.host}:1"), keys, "no S3 server answers there: "),
        (
            replace(moto, authorities=where()),
            keys,
            "certificate verify failed: self-signed certificate",
        ),
    ):
        with pytest.raises(UsageError, match=text):
            check_bucket(bucket, own)
    check_bucket(moto, keys)
    theirs = object_path(moto, "runs/theirs")
    assert outside.request("PUT", theirs, "theirs")[0] == 200

    topology = Topology.of(replicas=2, keepers=1, store=True, bucket=moto)
    images = build_images(lambda text: None, ImageChoice())
    cluster = DockerCluster(topology, tmp_path / "cluster", images=images)
    try:
        cluster.up()
        orphan = f"runs/{cluster.name}/orphan"
        planted = Thread(target=plant, args=(cluster.store_channel(10.0), orphan))
        planted.start()
        judgement, run = judged(cluster, tmp_path, "zero-copy", seconds=8)
        planted.join()
        objects = verdicts_of(judgement)["objects"]
        assert objects.status is Status.INVALID, objects.summary
        assert objects.figures["anomalies"] == {"orphan": 1}
        assert objects.anomalies[0].text.startswith(
            f"no replica refers to {orphan}, of 6 bytes (op"
        )
        assert "sole_writer" not in objects.figures, "nobody logs who wrote"
        (look,) = [op for op in read_history(run.journal) if op.f == FINAL_STORE and op.value]
        keys_at_rest = look.value["objects"]
        assert keys_at_rest
        assert all(key.startswith(f"runs/{cluster.name}/") for key in keys_at_rest)
        for file in (*cluster.directory.rglob("*"), *run.path.rglob("*")):
            assert not file.is_file() or keys.secret.encode() not in file.read_bytes(), file
        with closing(engine()) as client:
            # As `harness clean` does where the process was killed.
            removed = remove_run(client, cluster.name, cluster.directory)
        assert f"objects below {moto.below(cluster.name).url}: 1" in removed
    finally:
        cluster.down()
    assert [*object_sizes(outside)] == ["runs/theirs"]
