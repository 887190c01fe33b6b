"""Partitions, by packet filters in the network of each container."""

import os
import subprocess


class PartitionManager:
    """Cuts connections between instances until it ends."""

    def __init__(self):
        self._rules = []

    def partition_instances(self, left, right):
        """Drop what two instances send to each other."""
        for here, other in ((left, right), (right, left)):
            rule = ["INPUT", "-s", other.ip_address, "-j", "DROP"]
            _filter(here.name, "-A", rule)
            self._rules.append((here.name, rule))

    def heal_all(self):
        """End every cut."""
        while self._rules:
            name, rule = self._rules.pop()
            _filter(name, "-D", rule)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.heal_all()


def _filter(name, action, rule):
    """Change the rules of a container, in one that shares its network and has iptables."""
    container = f"{os.environ['STAND_IN_NAME']}-{name}"
    network = ["--network", f"container:{container}", "--cap-add", "NET_ADMIN"]
    image = os.environ["STAND_IN_POD_IMAGE"]
    entry = ["--entrypoint", "iptables"]
    subprocess.run(
        ["docker", "run", "--rm", *network, *entry, image, "-w", action, *rule],
        check=True,
        capture_output=True,
    )
