"""The proxy in a replica's pod: what it says of its rules."""

from compose.images.pod.pod_proxy import State

RULE = {"name": "pull", "channel": "zookeeper", "edge": "request", "do": "hold", "words": ["/log"]}


def test_a_rule_is_asked_before_a_released_one_of_its_name() -> None:
    state = State()
    state.execute("arm", RULE)
    state.rules["pull"].hits = 1
    assert state.execute("release", {"name": "pull"})["unanswered"] == {"pull": 1}
    assert state.execute("arm", RULE)["unanswered"] == {"pull": 0}
